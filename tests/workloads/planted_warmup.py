# SPDX-License-Identifier: Apache-2.0
# Copyright the gpuprobe authors.
"""Planted: the first steps compile a kernel each (NVRTC, at first use); then the loop is healthy.

Compiling goes on for about a second, on the host alone; the rest of the run keeps the GPU busy. Each run's
kernels have a number of their own in their text, so that no cache on disk has them already. (NVRTC needs no
compiler on the machine, unlike torch.compile.)

Usage: planted_warmup.py [SECONDS]
"""

import time

import torch
from workload import lines_marked, report, seconds_from_command_line

# Short against the run: warm-up lies in its first quarter.
WARM_UP_SHARE = 0.2


def new_activation(nonce, number):
    return torch.cuda.jiterator._create_jit_fn(
        "template <typename T> T activation_%d(T x) "
        "{ return x / (T(1) + ::exp(-x)) + T(1e-9) * T(%d.%d); }" % (number, number, nonce)
    )


def first_use(activation, x):
    return activation(x)  # planted


def step(x, weight, activation):
    for _ in range(4):
        x = activation(x @ weight)
    return x


def main():
    seconds = seconds_from_command_line()
    nonce = time.time_ns() % 1_000_000_000
    x = torch.randn(4096, 4096, device="cuda")
    weight = torch.randn(4096, 4096, device="cuda") / 64
    x @ weight
    torch.cuda.synchronize()

    steps, compiling, begin = 0, 0.0, time.perf_counter()
    while compiling < WARM_UP_SHARE * seconds:
        activation = new_activation(nonce, steps)
        start = time.perf_counter()
        first_use(activation, x)
        compiling += time.perf_counter() - start
        step(x, weight, activation)
        torch.cuda.synchronize()
        steps += 1
    kernels = steps
    while time.perf_counter() - begin < seconds:
        step(x, weight, activation)
        steps += 1
        if steps % 16 == 0:
            torch.cuda.synchronize()
    torch.cuda.synchronize()
    total = time.perf_counter() - begin
    lines = lines_marked(__file__)
    report(["warmup"], lines, compiling / total, steps, total, kernels_compiled=kernels)


if __name__ == "__main__":
    main()
