# SPDX-License-Identifier: Apache-2.0
# Copyright the gpuprobe authors.
"""Waits after every launch, then a little Python."""
from scenario import finish, start, us

gpu = start("a")
stream = gpu.stream()
for _ in range(3):
    gpu.launch("a", us(20), stream)
    gpu.sync(stream)
    gpu.host(us(30))
finish(gpu)
