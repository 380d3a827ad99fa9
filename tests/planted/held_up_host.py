# SPDX-License-Identifier: Apache-2.0
# Copyright the gpuprobe authors.
"""Feeds the simulated GPU, and in the middle waits for whoever started it:

    held_up_host.py stop          prints a line and sleeps for a moment, in which it may be stopped
    held_up_host.py flock PATH    prints a line and takes the lock of the file, which may be held
"""

import fcntl
import os
import sys
import time

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "sim"))
from gpusim import Gpu  # noqa: E402

STEPS, STEP_S = 60, 0.005
NAP_S = 0.05


def steps(gpu):
    for _ in range(STEPS):
        gpu.launch("k", 1_000_000)
        time.sleep(STEP_S)


def main():
    gpu = Gpu()
    steps(gpu)
    print("ready", flush=True)
    if sys.argv[1] == "flock":
        with open(sys.argv[2]) as held:
            fcntl.flock(held, fcntl.LOCK_EX)
    else:
        time.sleep(NAP_S)
    steps(gpu)


main()
