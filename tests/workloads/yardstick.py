# SPDX-License-Identifier: Apache-2.0
# Copyright the gpuprobe authors.
"""A fixed piece of Python, timed beside what is measured: a virtual machine's core is a third slower while its
neighbour computes, and steps that are compared were not taken at the same time."""
import time

NUMBERS = [str(i * 7919 % 10007) for i in range(20000)]
WORDS = set(NUMBERS[::3])


def yardstick_us():
    """How long it takes on this core now."""
    begin = time.perf_counter()
    total = 0
    for number in NUMBERS:
        total += len(number) if number in WORDS else -1
    return (time.perf_counter() - begin) * 1e6
