#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What each of CUPTI's knobs costs or gains, by a client that drops its buffers (floor_client.cc): every round runs
all variants once, in turning order; the table gives the median ratio to the first variant and its 95 % interval.

    python3 bench/gpu/knobs.py GROUP [--rounds N] [--workload launch|sync|copy|graph] [--threads N]

GROUP: kinds, graph, buffers, attributes (see VARIANTS)."""
import argparse
import os
import re
import statistics
import subprocess

import side_by_side

KERNEL, GRAPH, MEMCPY, MEMSET, RUNTIME, DRIVER, SYNC, EVENT, OVERHEAD = 10, 51, 1, 2, 5, 4, 38, 36, 17

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
        "none": None,
        "graph": {"KINDS": f"{GRAPH}"},
        "kernel": {"KINDS": f"{KERNEL}"},
        "kernel, graph": {"KINDS": f"{KERNEL},{GRAPH}"},
        "graph, kernel": {"KINDS": f"{GRAPH},{KERNEL}"},
        "graph runtime": {"KINDS": f"{GRAPH},{RUNTIME}"},
        "graph sync": {"KINDS": f"{GRAPH},{SYNC}"},
        "graph event": {"KINDS": f"{GRAPH},{EVENT}"},
        "graph overhead": {"KINDS": f"{GRAPH},{OVERHEAD}"},
        "kernel copy set graph": {"KINDS": f"{MEMCPY},{MEMSET},{KERNEL},{GRAPH}"},
        "gpuprobe's": {"KINDS": "all"},
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
    micro = side_by_side.build_micro()
    variants = list(VARIANTS[arguments.group].items())
    cores = set(sorted(os.sched_getaffinity(0))[-side_by_side.CORES:])
    figures = {name: [] for name, _ in variants}
    for round_number in range(arguments.rounds):
        turn = round_number % len(variants)
        for name, knobs in variants[turn:] + variants[:turn]:
            environment = {k: v for k, v in os.environ.items() if k not in ("LD_PRELOAD", "CUDA_INJECTION64_PATH")}
            if knobs is not None:
                environment["CUDA_INJECTION64_PATH"] = str(side_by_side.FLOOR)
                environment.update({f"GPUPROBE_FLOOR_{k}": v for k, v in knobs.items()})
            command = [micro, arguments.workload, str(arguments.threads), str(arguments.blocks), str(arguments.ops)]
            text = subprocess.run(command, env=environment, check=True, stdout=subprocess.PIPE,
                                  preexec_fn=lambda: os.sched_setaffinity(0, cores)).stdout.decode()
            figures[name].append(statistics.median(
                float(x) for x in re.search(r"^ns_per_op(.*)$", text, re.M).group(1).split()))
    base = figures[variants[0][0]]
    print(f"\n## {arguments.group}, {arguments.workload}, {arguments.threads} threads, {arguments.rounds} rounds\n")
    print(f"| variant | median ns | of '{variants[0][0]}' |\n|---|---|---|")
    for name, values in figures.items():
        found = side_by_side.interval([a / b for a, b in zip(values, base)])
        print(f"| {name} | {statistics.median(values):.0f} | {side_by_side.text_of(found)} |")


if __name__ == "__main__":
    main()
