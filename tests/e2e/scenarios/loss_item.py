# SPDX-License-Identifier: Apache-2.0
# Copyright the gpuprobe authors.
"""loss.item(): four bytes to pageable memory, which waits for all work before it."""
from scenario import finish, start, us

gpu = start("a")
gpu.prepare_copies(4)
stream = gpu.stream()
for _ in range(2):
    gpu.launch("a", us(50), stream)
    gpu.copy("dtoh", 4, stream, pinned=False, duration_ns=us(2))
    gpu.host(us(200))
finish(gpu)
