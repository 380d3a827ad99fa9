#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What each of CUPTI's knobs costs or gains, by a client that drops its buffers (floor_client.cc): every round runs
all variants once, in turning order; the table gives the median ratio to the first variant and its 95 % interval, each
figure in units of a fixed piece of work that was timed beside it. For what can be switched while a process runs,
kinds.py is the sharper tool; graphs cannot (a graph that was instantiated before GRAPH_TRACE was switched on crashes
the process when it is launched).

    python3 bench/gpu/knobs.py GROUP [--rounds N] [--workload launch|sync|copy|graph] [--threads N]

GROUP: kinds, graph, buffers, attributes (see VARIANTS)."""
import argparse
import os
import statistics
import subprocess

import common
import ratios

KERNEL, GRAPH, MEMCPY, MEMSET, MEMCPY2, RUNTIME, DRIVER, SYNC, EVENT, OVERHEAD = 10, 51, 1, 2, 22, 5, 4, 38, 36, 17

VARIANTS = {
    "kinds": {
        "none": None,
        "kernel": {"KINDS": f"{KERNEL}"},
        "kernel copy set": {"KINDS": f"{MEMCPY},{MEMSET},{KERNEL}"},
        "kernel runtime": {"KINDS": f"{KERNEL},{RUNTIME}"},
        "kernel driver": {"KINDS": f"{KERNEL},{DRIVER}"},
        "kernel runtime driver": {"KINDS": f"{KERNEL},{RUNTIME},{DRIVER}"},
        "runtime": {"KINDS": f"{RUNTIME}"},
        "kernel sync": {"KINDS": f"{KERNEL},{SYNC}"},
        "kernel overhead": {"KINDS": f"{KERNEL},{OVERHEAD}"},
        "gpuprobe's": {"KINDS": "all"},
    },
    "graph": {
        "gpuprobe's": {"KINDS": "all"},
        "none": None,
        "kernel": {"KINDS": f"{KERNEL}"},
        "graph": {"KINDS": f"{GRAPH}"},
        "graph kernel": {"KINDS": f"{GRAPH},{KERNEL}"},
        "graph kernel copy": {"KINDS": f"{GRAPH},{KERNEL},{MEMCPY}"},
        "graph kernel set": {"KINDS": f"{GRAPH},{KERNEL},{MEMSET}"},
        "graph kernel peer copy": {"KINDS": f"{GRAPH},{KERNEL},{MEMCPY2}"},
        "graph kernel copy set": {"KINDS": f"{GRAPH},{KERNEL},{MEMCPY},{MEMSET}"},
        "graph kernel copy set peer copy": {"KINDS": f"{GRAPH},{KERNEL},{MEMCPY},{MEMSET},{MEMCPY2}"},
        "graph kernel runtime driver": {"KINDS": f"{GRAPH},{KERNEL},{RUNTIME},{DRIVER}"},
        "graph kernel sync event": {"KINDS": f"{GRAPH},{KERNEL},{SYNC},{EVENT}"},
    },
    "buffers": {
        f"{kib} KiB": {"BUFFER_KB": str(kib)} for kib in (64, 128, 512, 2048, 8192)
    },
    # CUpti_ActivityAttribute: 0 device buffer bytes, 2 device buffer pool limit, 5 zeroed buffers, 6 pre-allocated
    # device buffers, 8 device buffers in pinned host memory, 9 per-thread buffers.
    "attributes": {
        "as they are": {},
        "16 device buffers first": {"ATTRIBUTES": "6=16"},
        "device buffers of 16 MB": {"ATTRIBUTES": "0=16000000"},
        "zeroed buffers promised": {"ATTRIBUTES": "5=1"},
        "device buffers pinned on the host": {"ATTRIBUTES": "8=1"},
        "no per-thread buffers": {"ATTRIBUTES": "9=0"},
        "chatter too": {"UNFILTERED": "1"},
    },
}


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("group", choices=VARIANTS)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--workload", default="launch")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--blocks", type=int, default=20)
    parser.add_argument("--ops", type=int, default=2000)
    arguments = parser.parse_args()
    micro = common.build_micro()
    variants = list(VARIANTS[arguments.group].items())
    cores = common.measured_cores()
    figures = {name: [] for name, _ in variants}  # (ns, in yardsticks)
    for round_number in range(arguments.rounds):
        turn = round_number % len(variants)
        for name, knobs in variants[turn:] + variants[:turn]:
            environment = {k: v for k, v in os.environ.items() if k not in ("LD_PRELOAD", "CUDA_INJECTION64_PATH")}
            if knobs is not None:
                environment["CUDA_INJECTION64_PATH"] = str(common.FLOOR)
                environment.update({f"GPUPROBE_FLOOR_{k}": v for k, v in knobs.items()})
            command = [micro, arguments.workload, str(arguments.threads), str(arguments.blocks), str(arguments.ops)]
            text = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE,
                                  preexec_fn=lambda: os.sched_setaffinity(0, cores)).stdout.decode()
            blocks = common.figures_of(text, "ns_per_op")
            yardsticks = common.figures_of(text, "yardstick_us")
            figures[name].append((statistics.median(blocks), common.in_yardsticks(blocks, yardsticks)))
    base = figures[variants[0][0]]
    print(f"\n## {arguments.group}, {arguments.workload}, {arguments.threads} threads, {arguments.rounds} rounds\n")
    print(f"| variant | median ns | of '{variants[0][0]}', both over their yardsticks |\n|---|---|---|")
    for name, values in figures.items():
        found = ratios.interval([a[1] / b[1] for a, b in zip(values, base)])
        print(f"| {name} | {statistics.median(v[0] for v in values):.0f} | {ratios.text_of(found)} |")


if __name__ == "__main__":
    main()
