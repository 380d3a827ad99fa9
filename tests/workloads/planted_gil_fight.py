# SPDX-License-Identifier: Apache-2.0
# Copyright the gpuprobe authors.
"""Planted: a background thread computes statistics in pure Python and never lets go of the GIL by itself.

The main thread submits a small network and reads the result of each step, which takes about a millisecond.
Whoever releases the GIL for that long (waiting for the GPU does, every operator of PyTorch does for a moment)
gets it back only after a switch interval, 5 ms, while the other thread runs. The main thread waits behind its
own CUDA calls; the line to change is the background thread's. How fast it would be alone is measured at the
end.

Usage: planted_gil_fight.py [SECONDS]
"""

import threading
import time

import torch
from torch import nn
from workload import lines_marked, report, seconds_from_command_line


class Network(nn.Module):
    def __init__(self, depth=12, width=2048):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, x):
        for layer in self.layers:
            x = torch.relu(layer(x))  # planted
        return x


class Statistics(threading.Thread):
    """Keeps a histogram of numbers up to date."""

    def __init__(self):
        super().__init__(name="statistics", daemon=True)
        self.stopped = False
        self.counts = [0] * 97

    def run(self):
        while not self.stopped:
            self.counts = count_remainders(self.counts)


def count_remainders(counts):
    return [sum((c + i) % 7 for i in range(400)) % 1000 for c in counts]  # planted-holder


def largest(outputs):
    return outputs.max().item()  # planted


def run(model, x, seconds):
    """(steps, seconds) of the loop."""
    steps, begin = 0, time.perf_counter()
    while time.perf_counter() - begin < seconds:
        assert largest(model(x)) >= 0
        steps += 1
    return steps, time.perf_counter() - begin


def main():
    seconds = seconds_from_command_line()
    model = Network().cuda()
    x = torch.randn(256, 2048, device="cuda")
    with torch.no_grad():
        run(model, x, 0.1)
        statistics = Statistics()
        statistics.start()
        steps, total = run(model, x, seconds)
        statistics.stopped = True
        statistics.join()
        free_steps, free_total = run(model, x, seconds / 20)
    share = 1 - (free_total / free_steps) / (total / steps)
    behind = lines_marked(__file__, "planted-holder")[0]
    report(["gil_wait"], lines_marked(__file__), share, steps, total, behind_line=behind)


if __name__ == "__main__":
    main()
