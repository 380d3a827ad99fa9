# SPDX-License-Identifier: Apache-2.0
# Copyright the gpuprobe authors.
"""Planted: large batches go to the GPU from ordinary (pageable) memory and results come back to it.

The driver copies them piece by piece through a buffer of its own, with the calling thread in the middle:
512 MiB up and 64 MiB down around a few milliseconds of work.

Usage: planted_pageable_copies.py [SECONDS]
"""

import time

import torch
from workload import lines_marked, report, seconds_from_command_line

ROWS, WIDTH = 32768, 4096


def upload(batch):
    return batch.cuda()  # planted


def download(result):
    return result.cpu()  # planted


def project(x, weight):
    return (x @ weight)[:, :512].contiguous()


def main():
    seconds = seconds_from_command_line()
    batch = torch.ones(ROWS, WIDTH)
    weight = torch.randn(WIDTH, WIDTH, device="cuda")
    torch.set_float32_matmul_precision("high")
    download(project(upload(batch), weight))
    begun, ended = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)

    steps, computing, begin = 0, 0.0, time.perf_counter()
    while time.perf_counter() - begin < seconds:
        x = upload(batch)
        begun.record()
        result = project(x, weight)
        ended.record()
        host_result = download(result)
        computing += begun.elapsed_time(ended) / 1e3
        steps += 1
    total = time.perf_counter() - begin
    assert host_result.shape == (ROWS, 512)
    report(["pageable_copy"], lines_marked(__file__), 1 - computing / total, steps, total)


if __name__ == "__main__":
    main()
