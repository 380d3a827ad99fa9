# SPDX-License-Identifier: Apache-2.0
# Copyright the gpuprobe authors.
"""Every step copies its input from pageable memory: the caller stages it."""
from scenario import finish, start, us

gpu = start("a", staging_bytes_per_us=8000)
gpu.prepare_copies(800_000)
stream = gpu.stream()
for _ in range(2):
    gpu.copy("htod", 800_000, stream, pinned=False, duration_ns=us(40))
    gpu.launch("a", us(30), stream)
finish(gpu)
