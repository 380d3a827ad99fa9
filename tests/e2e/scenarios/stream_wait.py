# SPDX-License-Identifier: Apache-2.0
# Copyright the gpuprobe authors.
"""Work on device 1 that is queued behind an event of device 0."""
from scenario import finish, start, us

from ctypes import c_int

gpu = start("a", devices=2)
here, event = gpu.stream(), gpu.event()
gpu.call("cudaSetDevice", c_int(1))
there = gpu.stream()
gpu.call("cudaSetDevice", c_int(0))
gpu.launch("a", us(100), here)
event.record(here)
gpu.call("cudaSetDevice", c_int(1))
gpu.launch("a", us(20), there)
gpu.wait(there, event)
gpu.launch("a", us(30), there)
finish(gpu)
