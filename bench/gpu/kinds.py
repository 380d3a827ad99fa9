#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What each of CUPTI's activity kinds costs the host: one process goes through all sets of kinds again and again, by a
client that drops its buffers (floor_client.cc), so that what is compared lies milliseconds apart. The table gives the
median ratio to the first set in the same turn, and its 95 % interval; instructions where the machine counts them.

    python3 bench/gpu/kinds.py launch|sync|copy|step [--turns N] [--ops N] [--sets NAME;NAME...]
    python3 bench/gpu/kinds.py left-behind [--processes N]

step: a GPT training step (tests/workloads/torch_launch_bound.py), --ops steps a turn and set.
left-behind: what a launch costs before any client, under one, after it has disabled all its kinds, after the
subscriber slot was taken and given back, after the kinds were disabled for the context too, and after cuptiFinalize;
one process after the other, beside one in which nothing happens. Graphs: see knobs.py."""
import argparse
import ctypes
import os
import statistics
import subprocess
import sys
import time

import common
import ratios

MEMCPY, MEMSET, DRIVER, RUNTIME, MEMCPY2, KERNEL = 1, 2, 4, 5, 22, 10
DEVICE, CONTEXT, OVERHEAD, EVENT, SYNC, STREAM, EXTERNAL, GRAPH = 8, 9, 17, 36, 38, 37, 39, 51
GPU = (MEMCPY, MEMSET, MEMCPY2, KERNEL)
OURS = (*GPU, RUNTIME, DRIVER, SYNC, DEVICE, CONTEXT, STREAM, EVENT, OVERHEAD, GRAPH)


def kinds(*numbers, chatter=False):
    return ",".join(str(n) for n in numbers) + ("" if chatter else " filter")


def without(*numbers):
    return kinds(*(n for n in OURS if n not in numbers))


SETS = {
    "all": kinds(*OURS),
    "off": "",
    "all, with chatter": kinds(*OURS, chatter=True),
    "no synchronisation": without(SYNC),
    "no CUDA event": without(EVENT),
    "no synchronisation, no event": without(SYNC, EVENT),
    "no overhead": without(OVERHEAD),
    "no graph": without(GRAPH),
    "no device, context, stream": without(DEVICE, CONTEXT, STREAM),
    "no driver": without(DRIVER),
    "no runtime": without(RUNTIME),
    "no driver, no runtime": without(DRIVER, RUNTIME),
    "as torch.profiler": kinds(MEMCPY, MEMSET, KERNEL, EXTERNAL, RUNTIME, DRIVER, OVERHEAD, chatter=True),
    "as torch.profiler, filtered": kinds(MEMCPY, MEMSET, KERNEL, EXTERNAL, RUNTIME, DRIVER, OVERHEAD),
    "kernels": kinds(KERNEL),
    "runtime": kinds(RUNTIME),
}


def environment(start="later"):
    found = {k: v for k, v in os.environ.items() if k != "LD_PRELOAD" and not k.startswith("GPUPROBE_")}
    found["CUDA_INJECTION64_PATH"] = str(common.FLOOR)
    found["GPUPROBE_FLOOR_KINDS"] = start
    for name in ("GPUPROBE_FLOOR_ATTRIBUTES", "GPUPROBE_FLOOR_TSC", "GPUPROBE_FLOOR_BUFFER_KB"):
        if name in os.environ:
            found[name] = os.environ[name]
    return found


def pinned(command, variables):
    cores = common.measured_cores()
    return subprocess.run(command, env=variables, check=True, stdout=subprocess.PIPE,
                          preexec_fn=lambda: os.sched_setaffinity(0, cores)).stdout.decode()


def parse(text, names):
    """name -> figures, name -> instructions, name -> yardsticks. Names may hold blanks: they are given by number."""
    found = {"variant": {}, "instructions": {}, "yardstick_us": {}}
    for line in text.splitlines():
        word, *rest = line.split()
        if word in found:
            found[word][names[int(rest[0])]] = [float(x) for x in rest[1:]]
    return found.values()


def steps_in_this_process(turns, steps, chosen):
    """The child of `step`: prints what micro prints, in microseconds a step."""
    sys.path.insert(0, str(common.WORKLOADS))
    import torch
    import torch_launch_bound
    step = torch_launch_bound.make_step()
    floor = ctypes.CDLL(os.environ["CUDA_INJECTION64_PATH"])
    figures = [[] for _ in chosen]
    for _ in range(turns):
        for number, text in enumerate(chosen):
            if floor.gpuprobe_floor_set(text.encode()) != 0:
                sys.exit(f"{text}: not set")
            step()
            torch.cuda.synchronize()
            begin = time.perf_counter()
            for _ in range(steps):
                step()
            torch.cuda.synchronize()
            figures[number].append((time.perf_counter() - begin) * 1e6 / steps)
    for number, values in enumerate(figures):
        print("variant", number, *(f"{v:.1f}" for v in values))


def measure(arguments, chosen):
    texts = [SETS[name] for name in chosen]
    if arguments.what == "step":
        command = [sys.executable, __file__, "step", "--child", "--turns", str(arguments.turns), "--ops",
                   str(arguments.ops or 8), "--sets", ";".join(chosen)]
    else:
        command = [common.build_micro(), arguments.what, "1", str(arguments.turns), str(arguments.ops or 2000),
                   *(f"{number}={text}" for number, text in enumerate(texts))]
    return parse(pinned(command, environment()), chosen)


def print_table(what, base_name, figures, instructions, _):
    unit = "us a step" if what == "step" else "ns an operation"
    print(f"\n## {what}, {len(figures[base_name])} turns\n")
    print(f"| kinds | {unit}, median | of '{base_name}' | added, median | instructions |\n|---|---|---|---|---|")
    base = figures[base_name]
    for name, values in figures.items():
        found = ratios.interval([a / b for a, b in zip(values, base)])
        counted = statistics.median(instructions.get(name, [0]))
        added = statistics.median(a - b for a, b in zip(values, base))
        print(f"| {name} | {statistics.median(values):.0f} | {ratios.text_of(found)} | {added:+.0f} | "
              f"{counted:.0f} |")


PHASES = {"before": "-", "under": SETS["all"], "disabled": "", "slot taken and given back": "subscribe",
          "disabled for the context": "context", "finalized": "finalize"}


def left_behind(processes, blocks, ops):
    micro = common.build_micro()
    rows = {(kind, phase): [] for kind in ("client", "nothing") for phase in PHASES}  # (fastest ns, in yardsticks)
    for _ in range(processes):
        for kind in ("client", "nothing"):
            texts = PHASES.values() if kind == "client" else "-" * len(PHASES)
            command = [micro, "launch", "1", str(blocks), str(ops), "--phases",
                       *(f"{number}={text}" for number, text in enumerate(texts))]
            figures, _, yardsticks = parse(pinned(command, environment()), list(PHASES))
            for phase in PHASES:
                rows[kind, phase].append((min(figures[phase]),
                                          common.in_yardsticks(figures[phase], yardsticks[phase])))
    print(f"\n## left-behind, {processes} processes each\n")
    print("| | | ns a launch, fastest block, median | of the same process before, over yardsticks | fastest blocks |")
    print("|---|---|---|---|---|")
    for (kind, phase), values in rows.items():
        before = rows[kind, "before"]
        measured = ratios.interval([a[1] / b[1] for a, b in zip(values, before)])
        fastest = ratios.interval([a[0] / b[0] for a, b in zip(values, before)])
        print(f"| {kind} | {phase} | {statistics.median(v[0] for v in values):.0f} | "
              f"{ratios.text_of(measured)} | {ratios.text_of(fastest)} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("what", choices=["launch", "sync", "copy", "step", "left-behind"])
    parser.add_argument("--turns", type=int, default=40)
    parser.add_argument("--ops", type=int, default=0, help="operations (2000) or steps (8) a turn and set")
    parser.add_argument("--sets", default=";".join(SETS))
    parser.add_argument("--processes", type=int, default=8)
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    chosen = arguments.sets.split(";")
    if arguments.child:
        steps_in_this_process(arguments.turns, arguments.ops, [SETS[name] for name in chosen])
    elif arguments.what == "left-behind":
        left_behind(arguments.processes, arguments.turns, arguments.ops or 2000)
    else:
        print_table(arguments.what, chosen[0], *measure(arguments, chosen))


if __name__ == "__main__":
    main()
