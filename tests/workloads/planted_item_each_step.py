# SPDX-License-Identifier: Apache-2.0
# Copyright the gpuprobe authors.
"""Planted: loss.item() after every micro-step, followed by some bookkeeping.

A micro-step keeps the GPU busy for about 0.8 ms; submitting it and the bookkeeping take the host less than
that, also where its cores are slow for a while, so that a host which did not wait would always be ahead. With .item() it starts the bookkeeping only when
the GPU has run dry. What that costs is measured at the end, by the same loop without .item().

Usage: planted_item_each_step.py [SECONDS]
"""

import time

import torch
from workload import lines_marked, report, seconds_from_command_line


class Progress:
    """A running mean and its spread, the way a progress bar keeps them."""

    def __init__(self, window=3000):
        self.recent = [0.0] * window
        self.mean = self.spread = 0.0

    def update(self, value):
        self.recent.append(value)
        del self.recent[0]
        self.mean = sum(self.recent) / len(self.recent)
        self.spread = sum(abs(x - self.mean) for x in self.recent) / len(self.recent)


def micro_step(x, weights):
    for weight in weights:
        x = x @ weight
    return x.float().square().mean()


def loss_value(loss):
    return loss.item()  # planted


def run(x, weights, progress, seconds, wait):
    """(steps, seconds) of the loop."""
    torch.cuda.synchronize()
    steps, begin = 0, time.perf_counter()
    while time.perf_counter() - begin < seconds:
        loss = micro_step(x, weights)
        progress.update(loss_value(loss) if wait else 0.0)
        steps += 1
    torch.cuda.synchronize()
    return steps, time.perf_counter() - begin


def main():
    seconds = seconds_from_command_line()
    x = torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16)
    weights = [torch.randn_like(x) / 64 for _ in range(4)]
    progress = Progress()
    run(x, weights, progress, 0.1, wait=True)
    steps, total = run(x, weights, progress, seconds, wait=True)
    free_steps, free_total = run(x, weights, progress, seconds / 10, wait=False)
    share = 1 - (free_total / free_steps) / (total / steps)
    report(["synchronisation"], lines_marked(__file__), share, steps, total)


if __name__ == "__main__":
    main()
