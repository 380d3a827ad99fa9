# SPDX-License-Identifier: Apache-2.0
"""A CUDA graph that is captured inside a torch.profiler window and replayed before, in and after it, as a script does
that profiles its first steps. Prints the result of the last replay.

Usage: torch_graph_in_profiler_window.py [WINDOWS]"""
import sys

import torch
from torch.profiler import ProfilerActivity, profile


def capture(x, layers):
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = x
        for layer in layers:
            y = torch.relu(y @ layer)
    return graph, y


def main():
    windows = int(sys.argv[1]) if len(sys.argv) > 1 else 2
    torch.manual_seed(0)
    layers = [torch.randn(64, 64, device="cuda") / 8 for _ in range(10)]
    x = torch.randn(64, 64, device="cuda")
    torch.relu(x @ layers[0])
    torch.cuda.synchronize()
    early, first = capture(x, layers)
    kernels = []
    for _ in range(windows):
        for _ in range(50):
            early.replay()
        torch.cuda.synchronize()
        with profile(activities=[ProfilerActivity.CUDA]) as window:
            late, last = capture(x, layers)
            for _ in range(20):
                early.replay()
                late.replay()
            torch.cuda.synchronize()
        kernels.append(sum(e.device_type == torch.autograd.DeviceType.CUDA for e in window.events()))
        for _ in range(50):
            late.replay()
            early.replay()
        torch.cuda.synchronize()
    print(f"same={bool((first == last).all())} kernels_in_windows={kernels}")


if __name__ == "__main__":
    main()
