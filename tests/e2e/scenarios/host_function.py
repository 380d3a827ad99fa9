# SPDX-License-Identifier: Apache-2.0
# Copyright the gpuprobe authors.
"""A kernel queued behind a host function."""
from scenario import finish, start, us

gpu = start("a", host_function_ns=us(50))
stream = gpu.stream()
gpu.launch("a", us(20), stream)
gpu.host_function(lambda: None, stream)
gpu.launch("a", us(20), stream)
gpu.sync(stream)
finish(gpu)
