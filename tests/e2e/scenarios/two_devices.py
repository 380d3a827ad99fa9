# SPDX-License-Identifier: Apache-2.0
# Copyright the gpuprobe authors.
"""One thread feeds two devices and waits for the second alone."""
from ctypes import c_int

from scenario import finish, start, us

gpu = start("a", devices=2)
zero = gpu.stream()
gpu.call("cudaSetDevice", c_int(1))
one = gpu.stream()
gpu.call("cudaSetDevice", c_int(0))
gpu.launch("a", us(50), zero)
gpu.call("cudaSetDevice", c_int(1))
gpu.launch("a", us(20), one)
gpu.sync()
gpu.host(us(150))
gpu.launch("a", us(20), one)
gpu.call("cudaSetDevice", c_int(0))
gpu.launch("a", us(50), zero)
finish(gpu)
