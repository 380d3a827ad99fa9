#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright the gpuprobe authors.
"""The workload behind tests/testdata/recordings: a little of everything that CUPTI can report.

Run by make_recordings on the virtual clock, so that its times are the same every time.
"""

import threading

from gpusim import Gpu

GEMM = "_ZN7cutlass7Kernel2I4gemmEEvNT_6ParamsE"
ELEMENTWISE = "_ZN2at6native29vectorized_elementwise_kernelILi4EEEviT0_T1_"
REDUCE = "_ZN2at6native13reduce_kernelILi512ELi1EEEvT1_"
ALL_REDUCE = "_Z33ncclDevKernel_AllReduce_Sum_f32_RING_LLv"


def training_step(gpu, step, compute, side):
    """Input copy, launch-bound forward, backward that overlaps a collective, now and then a loss
    read back."""
    gpu.host(40_000 if step % 4 else 1_500_000)  # every fourth step starves
    gpu.copy("htod", 600_000 + 4096 * step, compute, pinned=step % 3 != 0)
    for layer in range(12):
        gpu.chatter(2)
        gpu.launch(
            GEMM,
            9_000 + 13 * layer,
            compute,
            grid=(16, 8),
            block=256,
            api="driver" if layer % 3 == 0 else "runtime",
        )
        gpu.launch(ELEMENTWISE, 2_500, compute, grid=512, block=128)
        gpu.host(3_000)
    reached = gpu.event(timing=False).record(compute)
    gpu.wait(side, reached)
    gpu.launch(ALL_REDUCE, 60_000, side, grid=24, block=512)
    for _ in range(6):
        gpu.launch(GEMM, 15_000, compute, grid=(16, 8), block=256)
    done = gpu.event(timing=False).record(side)
    gpu.wait(compute, done)
    gpu.memset(1 << 20, compute)
    gpu.launch(REDUCE, 0 if step % 5 == 0 else 1_700, compute)
    if step % 4 == 3:
        gpu.copy("dtoh", 4, compute, pinned=False)  # loss.item()
        gpu.sync(compute)
    gpu.host(10_000)


def second_thread(gpu):
    stream = gpu.stream()
    for i in range(40):
        gpu.launch("other_thread_kernel", 7_000, stream)
        if i % 10 == 9:
            gpu.sync(stream)


def main():
    gpu = Gpu(settings={"device_count": 2})
    gpu.set("copy_data_limit_bytes", 0)
    gpu.prepare_copies(1 << 21)
    compute, side = gpu.stream(), gpu.stream(priority=-1)
    gpu.overhead(4 << 16, 800_000)  # runtime-triggered module loading
    for step in range(12):
        training_step(gpu, step, compute, side)
    gpu.overhead(1 << 16, 30_000)  # buffer flush
    with gpu.capture(compute) as graph:
        for i in range(8):
            gpu.launch("graph_node_%d" % (i % 3), 4_000, compute)
        gpu.copy("dtod", 1 << 16, compute)
    for _ in range(5):
        graph.launch(compute)
        gpu.sync(compute)
    gpu.set("stream_overlap_ns", 600)
    for _ in range(4):
        gpu.launch("overlapping_kernel", 5_000, compute)
    gpu.set("stream_overlap_ns", 0)
    thread = threading.Thread(target=second_thread, args=(gpu,))  # alone on the clock while it runs
    thread.start()
    thread.join()
    gpu.copy_peer(1 << 20, 1, 0, compute)
    finished = gpu.event().record(compute)
    gpu.sync(finished)
    gpu.free(gpu.alloc(1 << 24))
    gpu.call("cudaSetDevice", 1)
    other = gpu.stream()
    for i in range(10):
        gpu.launch("second_device_kernel", 20_000 + i, other)
    gpu.sync()
    gpu.call("cudaSetDevice", 0)
    gpu.sync()


if __name__ == "__main__":
    main()
