# SPDX-License-Identifier: Apache-2.0
# Copyright the gpuprobe authors.
"""Planted: a deep and narrow network at a small batch; every kernel is shorter than the time it takes to
submit the next.

What the submissions cost is measured at the end: the same work as one CUDA graph, which leaves the kernels.

Usage: planted_launch_bound.py [SECONDS]
"""

import time

import torch
from torch import nn
from workload import lines_marked, report, seconds_from_command_line


class Tower(nn.Module):
    def __init__(self, depth=96, width=256):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(depth))

    def forward(self, x):
        for layer in self.layers:
            x = x + torch.relu(layer(x))  # planted
        return x


def seconds_as_graph(model, x, replays=200):
    """Of one pass, when nothing has to be submitted kernel by kernel."""
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        model(x)
    graph.replay()
    torch.cuda.synchronize()
    begin = time.perf_counter()
    for _ in range(replays):
        graph.replay()
    torch.cuda.synchronize()
    return (time.perf_counter() - begin) / replays


def main():
    seconds = seconds_from_command_line()
    model = Tower().cuda()
    x = torch.randn(8, 256, device="cuda")
    with torch.no_grad():
        for _ in range(20):
            model(x)
        torch.cuda.synchronize()
        steps, begin = 0, time.perf_counter()
        while time.perf_counter() - begin < seconds:
            model(x)
            steps += 1
        torch.cuda.synchronize()
        total = time.perf_counter() - begin
        share = 1 - seconds_as_graph(model, x) / (total / steps)
    report(["launch_bound"], lines_marked(__file__), share, steps, total)


if __name__ == "__main__":
    main()
