#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright the gpuprobe authors.
"""A training loop in small, on the simulated GPU, with planted bottlenecks.

    tests/sim/run-sim -- python3 tests/sim/sim_train.py [--steps 40] [--mode
    mixed|input|launch|sync|gpu]
        [--batch-ms 12] [--workers 2] [--layers 24] [--item-every 4] [--planted FILE] [--quiet]

  input   the loader's workers cannot keep up: the main thread sits in next_batch
  launch  many short kernels, each shorter than its launch
  sync    loss.item() in every step drains the queue
  gpu     long kernels, the GPU is always busy
  mixed   input-bound first half, launch-bound second half, loss.item() every --item-every steps

On the real clock the workers are real threads that "decode"; on the virtual clock (one counter
for the process) the main thread plays their part. --planted writes what was planted as JSON: a list
of {"cause","start","end"} on the record clock. Prints one line with totals at the end, unless --quiet.
"""

import argparse
import json
import multiprocessing
import os
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from gpusim import Gpu  # noqa: E402

GEMM = "_Z21ampere_sgemm_128x64_nPKfS0_Pfiii"
ELEMENTWISE = ("_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_15CUDAFunctor_addIfEESt5array"
               "IPcLm3EEEEviT0_T1_")
ADAM = "_ZN2at6native25multi_tensor_apply_kernelEPv"
BATCH_BYTES = 256 << 10


class Planted:
    def __init__(self, gpu):
        self.gpu, self.items = gpu, []

    def span(self, cause, start):
        self.items.append({"cause": cause, "start": start, "end": self.gpu.now()})


def decode(item, milliseconds):
    """Stands for JPEG decoding and augmentation: half computing, half waiting for storage."""
    until = time.perf_counter() + milliseconds / 2000
    value = item
    while time.perf_counter() < until:
        value = (value * 1103515245 + 12345) % 2147483648
    time.sleep(milliseconds / 2000)
    return value


class Loader:
    """Batches, from forked workers; on the virtual clock from nobody, the caller spends the time."""

    def __init__(self, gpu, steps, workers, batch_ms, virtual):
        self.gpu, self.virtual = gpu, virtual
        self.batch_ns = int(batch_ms * 1e6 / max(workers, 1))
        processes = multiprocessing.get_context("fork")
        self.ready = processes.Queue(maxsize=2)
        if virtual:
            return
        for first in range(workers):
            items = range(first, steps, workers)
            processes.Process(target=self._work, args=(items, batch_ms), daemon=True).start()

    def _work(self, items, batch_ms):
        for item in items:
            self.ready.put(decode(item, batch_ms))

    def next_batch(self):
        if self.virtual:
            self.gpu.host(self.batch_ns)
            return 0
        return self.ready.get()


class Model:
    def __init__(self, gpu, layers, kernel_ns):
        self.gpu, self.layers, self.kernel_ns = gpu, layers, kernel_ns
        self.stream = gpu.stream()

    def forward(self):
        for _ in range(self.layers):
            self.gpu.chatter(2)
            self.gpu.launch(GEMM, self.kernel_ns, self.stream, grid=(32, 8), block=256)
            self.gpu.launch(ELEMENTWISE, self.kernel_ns // 4, self.stream, grid=512, block=128)

    def backward(self):
        for _ in range(self.layers):
            self.gpu.launch(
                GEMM, self.kernel_ns * 2, self.stream, grid=(32, 8), block=256, api="driver"
            )

    def optimizer_step(self):
        self.gpu.launch(ADAM, self.kernel_ns, self.stream, grid=320, block=512)

    def loss_item(self):
        """loss.item(): a four-byte copy to pageable memory, which waits for everything before
        it."""
        self.gpu.copy("dtoh", 4, self.stream, pinned=False)
        self.gpu.sync(self.stream)


def train(gpu, options, planted):
    virtual = bool(gpu.cuda.gpusim_is_virtual())
    settings = {  # mode: kernel duration, whether the loader is slow, .item() every n steps
        "input": (20_000, True, 0),
        "launch": (1_000, False, 0),
        "sync": (30_000, False, 1),
        "gpu": (400_000, False, 0),
        "mixed": (20_000, True, options.item_every),
    }
    kernel_ns, slow_loader, item_every = settings[options.mode]
    model = Model(gpu, options.layers, kernel_ns)
    loader = Loader(
        gpu, options.steps, options.workers, options.batch_ms if slow_loader else 0.0, virtual
    )
    gpu.prepare_copies(BATCH_BYTES)
    gpu.sync()
    for step in range(options.steps):
        second_half = options.mode == "mixed" and step >= options.steps // 2
        if second_half:
            model.kernel_ns = 1_000
        if not second_half:
            start = gpu.now()
            loader.next_batch()
            planted.span("input_wait", start)
        gpu.copy("htod", BATCH_BYTES, model.stream)
        start = gpu.now()
        model.forward()
        model.backward()
        model.optimizer_step()
        if model.kernel_ns == 1_000:
            planted.span("launch_bound", start)
        if item_every and step % item_every == item_every - 1:
            start = gpu.now()
            model.loss_item()
            planted.span("synchronisation", start)
    gpu.sync()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument(
        "--mode", choices=["mixed", "input", "launch", "sync", "gpu"], default="mixed"
    )
    parser.add_argument("--batch-ms", type=float, default=12.0)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--layers", type=int, default=24)
    parser.add_argument("--item-every", type=int, default=4)
    parser.add_argument("--planted")
    parser.add_argument("--quiet", action="store_true")
    options = parser.parse_args()
    gpu = Gpu()
    planted = Planted(gpu)
    start = gpu.now()
    train(gpu, options, planted)
    totals = {}
    for item in planted.items:
        totals[item["cause"]] = totals.get(item["cause"], 0) + item["end"] - item["start"]
    if options.planted:
        with open(options.planted, "w", encoding="utf-8") as file:
            json.dump(planted.items, file)
    if options.quiet:
        return
    print(
        json.dumps(
            {
                "steps": options.steps,
                "mode": options.mode,
                "kernels": gpu.count("kernels"),
                "elapsed_ns": gpu.now() - start,
                "planted_ns": totals,
            }
        )
    )


if __name__ == "__main__":
    main()
