# SPDX-License-Identifier: Apache-2.0
# Copyright the gpuprobe authors.
"""Long Python between launches, with the small calls that a framework makes in between."""
from scenario import finish, start, us

gpu = start("a")
stream = gpu.stream()
for _ in range(22):
    gpu.launch("a", us(20.001), stream)
    gpu.host(us(2499))
    gpu.chatter(10)  # 20 calls of 50 ns, which are not recorded
    gpu.host(us(2500))
finish(gpu)
