# SPDX-License-Identifier: Apache-2.0
# Copyright the gpuprobe authors.
"""A graph of three kernels, launched twice; its nodes 0.8 us apart, then 1.5 us."""
from scenario import finish, start, us

gpu = start("a")
stream = gpu.stream()
with gpu.capture(stream) as graph:
    for _ in range(3):
        gpu.launch("a", us(20), stream)
gpu.set("graph_node_gap_ns", 800)
graph.launch(stream)
gpu.set("graph_node_gap_ns", 1500)
gpu.host(us(200))
graph.launch(stream)
finish(gpu)
