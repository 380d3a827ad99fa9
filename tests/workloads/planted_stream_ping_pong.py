# SPDX-License-Identifier: Apache-2.0
# Copyright the gpuprobe authors.
"""Planted: two streams that do independent work, each made to wait for the other by events, with a stage on
the CPU (a host function) in each one's turn.

The host submits everything far ahead and is never the reason. Each turn is a kernel of some 0.5 ms and then a
host function of 1 ms on the same stream, for which the GPU does nothing. Were the streams independent, one's
kernel would run during the other's host function; the events forbid it, so the GPU stands idle for two thirds
of the time, with the next kernel long queued. (Events alone, with tiny kernels, would not do: handing over
takes the GPU a few microseconds, less than it takes the host to submit the next hand-over, and the run would
be launch-bound.) What the kernels take alone, and how much faster
it goes without the events, is measured at the end.

The host function is libc's usleep, called by the driver's own thread: no Python, and no GIL in it.

Usage: planted_stream_ping_pong.py [SECONDS]
"""

import ctypes
import time

import torch
from workload import lines_marked, report, seconds_from_command_line

CPU_STAGE_US = 1000
TURNS_AHEAD = 40  # of each stream, submitted before the host looks whether it is far enough ahead


class Pipeline:
    """One stream: a kernel, then a stage on the CPU, turn after turn."""

    def __init__(self, size=4096):
        self.stream = torch.cuda.Stream()
        self.x = torch.randn(size, size, device="cuda", dtype=torch.bfloat16)
        self.weight = torch.randn_like(self.x) / 64
        self.done = torch.cuda.Event()
        self.driver = ctypes.CDLL("libcuda.so.1")
        self.usleep = ctypes.cast(ctypes.CDLL("libc.so.6").usleep, ctypes.c_void_p)

    def cpu_stage(self):
        code = self.driver.cuLaunchHostFunc(
            ctypes.c_void_p(self.stream.cuda_stream), self.usleep, ctypes.c_void_p(CPU_STAGE_US)
        )
        assert code == 0, code

    def turn(self, other):
        with torch.cuda.stream(self.stream):
            if other is not None:
                self.wait_for(other)
            self.x = self.transform()
            self.cpu_stage()
            self.done.record()

    def wait_for(self, other):
        self.stream.wait_event(other.done)  # planted

    def transform(self):
        for _ in range(2):
            self.x = self.x @ self.weight  # planted-kernel
        return self.x


def run(first, second, seconds, in_turns):
    """(turns, seconds) of the loop."""
    torch.cuda.synchronize()
    turns, begin = 0, time.perf_counter()
    far_enough = [torch.cuda.Event() for _ in range(2)]
    while time.perf_counter() - begin < seconds:
        for _ in range(TURNS_AHEAD):
            first.turn(second if in_turns else None)
            second.turn(first if in_turns else None)
            turns += 1
        far_enough[0].record(second.stream)
        # Two batches are in flight: the host waits for the older one, never for a drained queue.
        far_enough[1].synchronize()
        far_enough.reverse()
    torch.cuda.synchronize()
    return turns, time.perf_counter() - begin


def kernel_seconds(pipeline, turns=50):
    """Of one turn's kernels, with nothing between them."""
    torch.cuda.synchronize()
    begin = time.perf_counter()
    for _ in range(turns):
        pipeline.transform()
    torch.cuda.synchronize()
    return (time.perf_counter() - begin) / turns


def main():
    seconds = seconds_from_command_line()
    first, second = Pipeline(), Pipeline()
    first.done.record(first.stream)
    second.done.record(second.stream)
    run(first, second, 0.05, in_turns=True)
    turns, total = run(first, second, seconds, in_turns=True)
    free_turns, free_total = run(first, second, seconds / 10, in_turns=False)
    share = 1 - 2 * kernel_seconds(first) / (total / turns)
    gain = (total / turns) / (free_total / free_turns)
    lines = lines_marked(__file__) + lines_marked(__file__, "planted-kernel")
    report(["dependency"], lines, share, turns, total, gain=round(gain, 2))


if __name__ == "__main__":
    main()
