# SPDX-License-Identifier: Apache-2.0
"""torch.profiler three times in one script, 200 kernels a window, with work outside the windows.

Prints one JSON line: what torch.profiler returned in each window (CUDA kernels, runtime calls, threads that
it saw) and how many kernels were launched in all. The same line is expected with and without gpuprobe.
"""
import collections
import json
import sys
import time

import torch
from torch.profiler import ProfilerActivity, profile

WINDOWS, INSIDE, BEFORE, BETWEEN = 3, 200, 500, 300


def burst(x, count):
    for _ in range(count):
        x.add_(1)
    torch.cuda.synchronize()


def main():
    pause = float(sys.argv[1]) if len(sys.argv) > 1 else 0.0
    x = torch.zeros(1000, device="cuda")
    torch.cuda.synchronize()
    burst(x, BEFORE)
    windows = []
    for _ in range(WINDOWS):
        time.sleep(pause)
        with profile(activities=[ProfilerActivity.CUDA, ProfilerActivity.CPU]) as prof:
            burst(x, INSIDE)
        names = collections.Counter()
        kernels = 0
        for event in prof.events():
            if event.device_type == torch.autograd.DeviceType.CUDA:
                kernels += "elementwise" in event.name
            elif event.name.startswith("cuda"):
                names[event.name] += 1
        windows.append({"kernels": kernels, "calls": dict(sorted(names.items()))})
        burst(x, BETWEEN)
    # One fill kernel for torch.zeros comes on top of the adds.
    print(json.dumps({"windows": windows, "adds_outside": BEFORE + WINDOWS * BETWEEN,
                      "adds_inside": WINDOWS * INSIDE, "value": float(x[0].item())}))


if __name__ == "__main__":
    main()
