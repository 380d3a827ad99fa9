# SPDX-License-Identifier: Apache-2.0
# Copyright the gpuprobe authors.
"""Ten steps on the real clock, in each of which the host sleeps, and computes, for as long as the command line says:

    paced.py SLEEP_MS COMPUTE_MS
"""
import sys
import time

from scenario import EXIT_CODE, Gpu, us

STEPS = 10
sleep_s, compute_s = (float(word) / 1e3 for word in sys.argv[1:])
gpu = Gpu()
stream = gpu.stream()
for _ in range(STEPS):
    gpu.launch("a", us(500), stream)
    gpu.sync(stream)
    time.sleep(sleep_s)
    until = time.thread_time() + compute_s
    while time.thread_time() < until:
        pass
sys.exit(EXIT_CODE)
