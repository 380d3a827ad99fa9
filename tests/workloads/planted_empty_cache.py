# SPDX-License-Identifier: Apache-2.0
# Copyright the gpuprobe authors.
"""Planted: torch.cuda.empty_cache() in every step, so that all memory goes back to the driver and has to be
taken from it again.

Both halves block: cudaFree for each of the buffers in empty_cache, cudaMalloc for each in the next step. Which
of the two takes longer depends on the driver; the script says which it was.

Usage: planted_empty_cache.py [SECONDS]
"""

import time

import torch
from workload import lines_marked, report, seconds_from_command_line

BUFFERS, ELEMENTS = 48, 16 << 20


def make_activations():
    return [torch.empty(ELEMENTS, device="cuda") for _ in range(BUFFERS)]  # planted-taking


def release_memory():
    torch.cuda.empty_cache()  # planted


def compute(activations, x):
    for activation in activations:
        activation.fill_(1.0)
        x.add_(activation)
    return x


def main():
    seconds = seconds_from_command_line()
    x = torch.zeros(ELEMENTS, device="cuda")
    compute(make_activations(), x)
    release_memory()
    torch.cuda.synchronize()

    begun, ended = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    steps, taking, giving, computing, begin = 0, 0.0, 0.0, 0.0, time.perf_counter()
    while time.perf_counter() - begin < seconds:
        start = time.perf_counter()
        activations = make_activations()
        taking += time.perf_counter() - start
        begun.record()
        compute(activations, x)
        ended.record()
        del activations
        start = time.perf_counter()
        release_memory()
        giving += time.perf_counter() - start
        ended.synchronize()
        computing += begun.elapsed_time(ended) / 1e3
        steps += 1
    torch.cuda.synchronize()
    total = time.perf_counter() - begin
    lines = lines_marked(__file__) + lines_marked(__file__, "planted-taking")
    if taking > giving:
        lines.reverse()
    report(
        ["blocking_api"],
        lines,
        1 - computing / total,
        steps,
        total,
        taking_share=round(taking / total, 4),
        giving_share=round(giving / total, 4),
    )


if __name__ == "__main__":
    main()
