# SPDX-License-Identifier: Apache-2.0
# Copyright the gpuprobe authors.
"""A launch in time, a device slow to begin it."""
from scenario import finish, start, us

gpu = start("a", launch_latency_ns=us(50))
stream = gpu.stream()
gpu.launch("a", us(10), stream)
gpu.launch("a", us(10), stream)
gpu.host(us(30))
gpu.launch("a", us(10), stream)
finish(gpu)
