# SPDX-License-Identifier: Apache-2.0
# Copyright the gpuprobe authors.
"""Three bursts of launches 30 ms apart, on the real clock."""
import sys

from scenario import EXIT_CODE, Gpu, us


gpu = Gpu()
stream = gpu.stream()
for _ in range(3):
    for _ in range(60):
        gpu.launch("a", us(20), stream)
    gpu.sync(stream)
    gpu.host(us(30_000))
sys.exit(EXIT_CODE)
