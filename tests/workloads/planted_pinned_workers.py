# SPDX-License-Identifier: Apache-2.0
# Copyright the gpuprobe authors.
"""Planted: eight loader workers, all bound to the same core (what a wrong taskset, cgroup or OpenMP setting
does).

With a core for each worker a batch would be there in time (a step keeps the GPU busy for some twenty
milliseconds). As it is they stand in line for one core: runnable, and not running seven eighths of the time.
The main thread sits in next(batches).

Usage: planted_pinned_workers.py [SECONDS]
"""

import os
import time
import zlib

import numpy
import torch
from torch.utils.data import DataLoader, Dataset
from workload import StepClock, lines_marked, report, seconds_from_command_line

BATCH, WORKERS, SIDE = 32, 8, 512


def make_archive(count):
    """Compressed planes of small integers; one takes a few milliseconds to unpack."""
    random = numpy.random.default_rng(0)
    return [
        zlib.compress(random.integers(0, 16, 3 * SIDE * SIDE, dtype=numpy.uint8).tobytes(), 6)
        for _ in range(count)
    ]


class Archive(Dataset):
    def __init__(self, entries, count):
        self.entries, self.count = entries, count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        return decode(self.entries[index % len(self.entries)])


def decode(entry):
    plane = zlib.decompress(entry)  # planted-worker
    return torch.frombuffer(bytearray(plane), dtype=torch.uint8).view(3, SIDE, SIDE)


def bind_to_last_core(worker_id):
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})


def next_batch(batches):
    return next(batches)  # planted


def train_step(model, weights, planes):
    means = planes.cuda(non_blocking=True).float().mean(dim=(1, 2, 3))
    x = torch.tanh(means[:, None] * weights).repeat(8192 // BATCH, 1)
    for _ in range(4):
        x = torch.tanh(model(x))
    return x


def main():
    seconds = seconds_from_command_line()
    loader = DataLoader(
        Archive(make_archive(32), 1 << 20),
        batch_size=BATCH,
        num_workers=WORKERS,
        pin_memory=True,
        worker_init_fn=bind_to_last_core,
    )
    batches = iter(loader)
    model = torch.nn.Linear(4096, 4096).cuda()
    weights = torch.randn(1, 4096, device="cuda")
    with torch.no_grad():
        for _ in range(2):
            train_step(model, weights, next_batch(batches))
        torch.cuda.synchronize()

        clock, steps, begin = StepClock(torch.cuda.Event), 0, time.perf_counter()
        while time.perf_counter() - begin < seconds:
            planes = next_batch(batches)
            clock.begin()
            train_step(model, weights, planes)
            clock.end()
            steps += 1
        torch.cuda.synchronize()
    total = time.perf_counter() - begin
    report(
        ["cpu_starved", "input_wait"],
        lines_marked(__file__),
        1 - clock.seconds() / total,
        steps,
        total,
        behind_line=lines_marked(__file__, "planted-worker")[0],
    )


if __name__ == "__main__":
    main()
