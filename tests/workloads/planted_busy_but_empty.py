# SPDX-License-Identifier: Apache-2.0
# Copyright the gpuprobe authors.
"""Planted: the GPU is "utilised" nearly all of the time by kernels that use 4 of its 132 multiprocessors.

A softmax over rows is one thread block a row, and here are four rows of four million numbers: about a
millisecond a kernel, submitted in microseconds. A step ends with a read of the result, which leaves a short
gap. What it costs is measured at the end: the same number of values as 2,048 rows.

Usage: planted_busy_but_empty.py [SECONDS]
"""

import time

import torch
from workload import lines_marked, report, seconds_from_command_line

ROWS, COLUMNS, PASSES, MANY_ROWS = 4, 4 << 20, 12, 2048


def score(logits):
    return torch.softmax(logits, dim=-1)  # planted


def run(logits, seconds):
    """(steps, seconds) of the loop."""
    torch.cuda.synchronize()
    steps, begin = 0, time.perf_counter()
    while time.perf_counter() - begin < seconds:
        for _ in range(PASSES):
            scores = score(logits)
        assert scores[0, 0].item() >= 0
        steps += 1
    return steps, time.perf_counter() - begin


def main():
    seconds = seconds_from_command_line()
    logits = torch.randn(ROWS, COLUMNS, device="cuda")
    run(logits, 0.05)
    steps, total = run(logits, seconds)
    wide_steps, wide_total = run(logits.view(MANY_ROWS, -1), seconds / 20)
    share = 1 - (wide_total / wide_steps) / (total / steps)
    report(
        ["busy_but_empty"], lines_marked(__file__), share, steps, total, line_required=False
    )


if __name__ == "__main__":
    main()
