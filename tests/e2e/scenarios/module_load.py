# SPDX-License-Identifier: Apache-2.0
# Copyright the gpuprobe authors.
"""A module loaded between two launches."""
from ctypes import byref, c_void_p

from scenario import finish, start, us

gpu = start("a")
stream = gpu.stream()
gpu.launch("a", us(20), stream)
gpu.call("cuModuleLoadData", byref(c_void_p()), b"simulated")
gpu.launch("a", us(20), stream)
finish(gpu)
