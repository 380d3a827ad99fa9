# SPDX-License-Identifier: Apache-2.0
"""Large matrix products back to back: the GPU is the bottleneck. Prints ms per product."""
import sys
import time

import torch

# For bench/gpu/stepper.py: what the first step imports, and what waits for the GPU.
PRELOAD = ["torch.profiler"]


def drain():
    torch.cuda.synchronize()


def make_step():
    """One product as a function, warmed up."""
    a = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)
    b = torch.randn(8192, 8192, device="cuda", dtype=torch.bfloat16)

    def step():
        a @ b

    for _ in range(5):
        step()
    torch.cuda.synchronize()
    return step


def main():
    count = int(sys.argv[1]) if len(sys.argv) > 1 else 200
    step = make_step()
    begin = time.perf_counter()
    for _ in range(count):
        step()
    torch.cuda.synchronize()
    print(f"ms_per_product={(time.perf_counter() - begin) * 1e3 / count:.3f}")


if __name__ == "__main__":
    main()
