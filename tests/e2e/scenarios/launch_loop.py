# SPDX-License-Identifier: Apache-2.0
# Copyright the gpuprobe authors.
"""Kernels much shorter than the way from one launch to the next."""
from scenario import finish, start, us

gpu = start("a", launch_latency_ns=us(2))
stream = gpu.stream()
for _ in range(1200):
    gpu.launch("a", us(1), stream)
    gpu.host(us(4))
finish(gpu)
