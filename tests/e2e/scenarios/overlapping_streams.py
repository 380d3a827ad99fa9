# SPDX-License-Identifier: Apache-2.0
# Copyright the gpuprobe authors.
"""Two streams take turns: the device has no gap while either of them runs."""
from scenario import finish, start, us

gpu = start("a", "b")
first, second = gpu.stream(), gpu.stream()
gpu.launch("a", us(100), first)
gpu.launch("b", us(200), second)
gpu.launch("a", us(50), first)
gpu.host(us(300))
gpu.launch("a", us(10), first)
finish(gpu)
