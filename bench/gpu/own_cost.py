#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright the gpuprobe authors.
"""What gpuprobe's own threads cost a launch-bound PyTorch step, and torch.profiler beside it, in one process: block
after block as it is, with the sampler's thread stopped, with both threads stopped, and inside a torch.profiler window
(for which gpuprobe steps aside). What is compared lies a second apart, and each block is taken in units of a fixed
piece of Python that was timed beside it.

    python3 bench/gpu/own_cost.py [--turns 25] [--steps 6]

Threads are stopped by ptrace from the parent (root, or kernel.yama.ptrace_scope 0); nothing is changed in the library."""
import argparse
import ctypes
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

import common
import ratios

LIBC = ctypes.CDLL(None, use_errno=True)
SEIZE, INTERRUPT, DETACH, ALL_CHILDREN = 0x4206, 0x4207, 17, 0x40000000
SAMPLER, DRAIN = "gpuprobe-sample", "gpuprobe"
VARIANTS = {"gpuprobe": (), "its sampler stopped": (SAMPLER,), "both its threads stopped": (SAMPLER, DRAIN),
            "torch.profiler CUDA": (SAMPLER,)}


def ptrace(request, tid):
    if LIBC.ptrace(request, tid, None, None) != 0:
        raise OSError(ctypes.get_errno(), f"ptrace {request:#x} of thread {tid}")


class Stopped:
    """Threads that stand still inside the `with`; nothing else of the process does."""

    def __init__(self, tids):
        self.tids = tids

    def __enter__(self):
        for tid in self.tids:
            ptrace(SEIZE, tid)
            ptrace(INTERRUPT, tid)
            os.waitpid(tid, ALL_CHILDREN)

    def __exit__(self, *_):
        for tid in self.tids:
            ptrace(DETACH, tid)


def child(steps):
    sys.path.insert(0, str(common.WORKLOADS))
    import torch
    import torch_launch_bound as workload
    from yardstick import yardstick_us
    from torch.profiler import ProfilerActivity, profile
    step = workload.make_step()

    def block():
        step()
        torch.cuda.synchronize()
        before = yardstick_us()
        begin = time.perf_counter()
        for _ in range(steps):
            step()
        torch.cuda.synchronize()
        took = (time.perf_counter() - begin) * 1e6 / steps
        return took, (before + yardstick_us()) / 2

    print("ready", flush=True)
    for line in sys.stdin:
        if line.strip().startswith("torch"):
            with profile(activities=[ProfilerActivity.CUDA]):
                figures = block()
        else:
            figures = block()
        print(*figures, flush=True)


def own_threads(pid):
    found = {}
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        found[(task / "comm").read_text().strip()] = int(task.name)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--turns", type=int, default=25)
    parser.add_argument("--steps", type=int, default=6)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child:
        child(arguments.steps)
        return
    environment = {k: v for k, v in os.environ.items() if k != "CUDA_INJECTION64_PATH"}
    figures = {name: [] for name in VARIANTS}
    with tempfile.TemporaryDirectory() as folder:
        environment.update(LD_PRELOAD=str(common.LIBRARY), GPUPROBE_OUT=folder + "/run")
        host = subprocess.Popen([sys.executable, __file__, "--child", "--steps", str(arguments.steps)], env=environment,
                                stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        while host.stdout.readline().strip() != "ready":
            if host.poll() is not None:
                sys.exit(f"the host ended early, exit code {host.returncode}")
        threads = own_threads(host.pid)
        time.sleep(2)  # the sampler's credit for the start
        for _ in range(arguments.turns):
            for name, stopped in VARIANTS.items():
                with Stopped([threads[t] for t in stopped]):
                    host.stdin.write(name + "\n")
                    host.stdin.flush()
                    took, yardstick = (float(x) for x in host.stdout.readline().split())
                figures[name].append((took, took / yardstick))
                if name.startswith("torch"):
                    time.sleep(1.2)  # until gpuprobe records again: two flush periods
        host.stdin.close()
        host.wait()
    print(f"\n## own cost, GPT step, {arguments.turns} turns\n")
    print("| | us a step, median | of 'gpuprobe', both over their yardsticks | plain |\n|---|---|---|---|")
    base = figures["gpuprobe"]
    for name, values in figures.items():
        measured = ratios.interval([a[1] / b[1] for a, b in zip(values, base)])
        plain = ratios.interval([a[0] / b[0] for a, b in zip(values, base)])
        print(f"| {name} | {statistics.median(v[0] for v in values):.0f} | {ratios.text_of(measured)} | "
              f"{ratios.text_of(plain)} |")


if __name__ == "__main__":
    main()
