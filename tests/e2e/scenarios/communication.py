# SPDX-License-Identifier: Apache-2.0
# Copyright the gpuprobe authors.
"""A collective partly behind compute, a copy partly behind the collective."""
from scenario import finish, start, us

ALL_REDUCE = "ncclDevKernel_AllReduce_Sum_f32_RING_LL"

gpu = start("a", ALL_REDUCE)
gpu.prepare_copies(4096)
compute, side, copies = gpu.stream(), gpu.stream(), gpu.stream()
gpu.launch("a", us(100), compute)
gpu.host(us(40))
gpu.launch(ALL_REDUCE, us(100), side)
gpu.host(us(93))
gpu.copy("htod", 4096, copies, duration_ns=us(50))
finish(gpu)
