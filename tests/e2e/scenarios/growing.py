# SPDX-License-Identifier: Apache-2.0
# Copyright the gpuprobe authors.
"""Launches on the real clock until its standard input ends. Prints a line after the first 100 kernels."""
import select
import sys

from scenario import EXIT_CODE, Gpu, us

gpu = Gpu()
stream = gpu.stream()
launched = 0
while not select.select([sys.stdin], [], [], 0.005)[0]:
    for _ in range(10):
        gpu.launch("a", us(20), stream)
    gpu.sync(stream)
    launched += 10
    if launched == 100:
        print("running", flush=True)
print(launched)
sys.exit(EXIT_CODE)
