# SPDX-License-Identifier: Apache-2.0
# Copyright the gpuprobe authors.
"""A buffer given back and taken anew in every step; giving it back waits for the device."""
from scenario import finish, start, us

gpu = start("a")
stream = gpu.stream()
buffer = gpu.alloc(1 << 20)
for _ in range(3):
    gpu.launch("a", us(30), stream)
    gpu.free(buffer)
    buffer = gpu.alloc(1 << 20)
finish(gpu)
