#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright the gpuprobe authors.
"""What each profiler costs, side by side on one GPU, within a given time.

    python3 bench/gpu/side_by_side.py [--minutes 16] [--workloads a,b] [--profilers 'a;b'] [--raw FILE]
    python3 bench/gpu/side_by_side.py --raw FILE --resume [--stop-after S]    # in several calls: 3: call it again
    python3 bench/gpu/side_by_side.py --from FILE [--from FILE ...]      # the tables of raw lines once more

Needs a GPU, nvcc (or build/gpu-bench/micro), build/dist and build/bench/gpu/libgpuprobe_floor.so; PyTorch for the
steps; nsys where it is found. Raw lines (JSON) come while it runs, the tables last, also when it is interrupted.

A set is one process under each profiler, all alive at once, each warmed up. In a turn each does one block, in an order
drawn anew, while the others stand still (members.py); so what is compared was measured seconds apart, by the same
processes again and again, and new sets follow so that nothing hangs on one process. PyTorch's processes are forked from
a zygote that has imported PyTorch once, without touching CUDA (stepper.py); gpuprobe and the floor get into them by
CUDA_INJECTION64_PATH before cuInit. In every other set there are processes of their own, too: none, gpuprobe preloaded
(the two doors beside each other) and nsys, which cannot get into a forked one. torch.profiler opens a window around
each block. --alone has one process alive at a time instead.

Time: where the host's speed matters (a virtual machine's core is a third slower while its neighbour computes) a fixed
piece of work is timed beside each figure, which is taken as far as it follows that (ratios.exponent_of). CPU: getrusage, from the end of a block to the
end of the next, so that what a profiler does after a block counts with it. RSS: VmRSS after the last block, less that
of 'none' of the same set and door. Tables and their columns: tables.py. The floor is a bare CUPTI client that asks for
the same kinds and drops its buffers.

Lines that begin with '#' say what was left out, and why: what failed, what hung (it is killed after --timeout)."""
import argparse
import json
import os
import pathlib
import platform
import random
import signal
import subprocess
import sys
import time

import common
import members
import tables

UNTRIED_AFTER = 2  # failures of one profiler on one workload
TO_BE_CONTINUED = 3  # exit code
OVERSHOOT_S = 20  # a set takes its share and, in a bad case, so much more: to start and to end processes


class Workload:
    """micro: (mode, threads, operations at the start) of micro.cu; module: a file for stepper.py. A block is `count`
    times `ops` operations: half a second and a bit, since gpuprobe flushes twice a second, once when it goes on after
    a stop, in the warm-up, and once more. weight: share of the time; sets: how many."""

    def __init__(self, unit, weight, sets, ops, count, micro=None, module=None, yardsticks=True):
        self.unit, self.weight, self.sets, self.ops, self.count = unit, weight, sets, ops, count
        self.micro, self.module, self.yardsticks = micro, module, yardsticks


def micro(mode, threads, ops, count, unit, weight):
    return Workload(unit, weight, 2, ops, count, micro=(mode, threads, ops))


WORKLOADS = {
    "gpt-step": Workload("ms a step", 6, 2, 4, 4, module=common.WORKLOADS / "torch_launch_bound.py"),
    "storm-1": micro("launch", 1, 4000, 32, "ns a launch", 1.5),
    "storm-8": micro("launch", 8, 1500, 32, "ns a launch", 1.5),
    "sync": micro("sync", 1, 1500, 40, "ns a launch and wait", 1.2),
    "copy": micro("copy", 1, 8000, 32, "ns a 4 KiB copy", 1.2),
    "graph": micro("graph", 1, 500, 28, "ns a replay of 20 kernels", 1.5),
    # What bounds these is not the host: no yardsticks.
    "gpu-bound-step": Workload("ms a product", 1.5, 2, 90, 4, module=common.WORKLOADS / "torch_gpu_bound.py",
                               yardsticks=False),
    # Two workers have four batches ready when a block begins: its warm-up takes them.
    "loader-starved-step": Workload("ms a step", 2.5, 2, 12, 1, module=common.WORKLOADS / "torch_loader_starved.py",
                                    yardsticks=False),
}


class Output:
    """Raw lines, kept, printed and appended to a file as they come."""

    def __init__(self, path, lines):
        self.path, self.lines = path, lines

    def line(self, **what):
        self.lines.append(what)
        text = json.dumps(what)
        print(text, flush=True)
        if self.path:
            with open(self.path, "a", encoding="utf-8") as file:
                file.write(text + "\n")

    def note(self, text):
        first, *rest = text.splitlines() or [""]
        self.line(kind="note", text=text)
        print("\n".join([f"# {first}", *(f"#   {line}" for line in rest)]), flush=True)


class Bench:
    def __init__(self, arguments, workloads, output):
        self.arguments, self.workloads, self.output = arguments, workloads, output
        arguments.nsys = common.find_nsys()
        if arguments.nsys is None and any(n.startswith("nsys") for n in arguments.profilers):
            output.note("nsys was not found")
        self.zygote = None
        self.failures = {}
        self.end_took_s = {}
        self.random = random.Random(1)
        # For forked and other processes alike: a pool of OpenBLAS would be a second thread of the zygote, the order of
        # Python's sets is part of the work, and with the last one PyTorch asks NVML rather than cuInit for GPUs.
        self.environment = {**common.clean_environment(), "OPENBLAS_NUM_THREADS": "1", "PYTHONHASHSEED": "0",
                            "PYTORCH_NVML_BASED_CUDA_CHECK": "1"}

    # ---- the plan ----

    def run(self):
        """Whether it has come to its end: of the sets, or of its time."""
        began = time.monotonic()
        stop_at = began + self.arguments.stop_after_s
        done = {(line["set"], line["workload"]): line["took_s"] for line in self.output.lines if line["kind"] == "set"}
        end = began + 60 * self.arguments.minutes - sum(done.values())
        left = [(number, name) for number in range(max(w.sets for w in self.workloads.values()))
                for name, w in self.workloads.items() if number < w.sets and (number, name) not in done]
        if not left or done and began > end:
            return True
        members.become_subreaper()
        self.start_zygote([name for _, name in left])
        left = [(number, name) for number, name in left if name in self.workloads]
        tried = bool(done)
        try:
            while left:
                now = time.monotonic()
                if now > end and tried:
                    self.output.note("the time was up before " + ", ".join(f"{n} (set {s + 1})" for s, n in left))
                    return True
                shares_s = self.shares(left, max(0.0, end - now))
                place = next((i for i, s in enumerate(shares_s) if now + s + OVERSHOOT_S <= stop_at), None)
                if place is None:
                    self.output.note(f"--stop-after leaves no time for a set of {min(shares_s):.0f} s: fewer --minutes")
                    return False
                share_s = shares_s[place]
                number, name = left.pop(place)
                tried = True
                self.set_of(name, number, now + share_s)
                self.output.line(kind="set", workload=name, set=number, took_s=round(time.monotonic() - now, 1))
        finally:
            if self.zygote is not None:
                self.zygote.close()
        return True

    def shares(self, sets, time_s):
        weights = [self.workloads[name].weight / self.workloads[name].sets for _, name in sets]
        return [time_s * weight / sum(weights) for weight in weights]

    def start_zygote(self, names):
        modules = {name: w.module for name, w in self.workloads.items() if w.module and name in names}
        if modules and self.arguments.no_zygote:
            self.output.note("no zygote, as asked: every process is one of its own")
        elif modules:
            self.replace_zygote(modules.values(), preload=True)
        for name, path in modules.items():
            if self.zygote is not None and path.stem in self.zygote.missing:
                self.output.note(f"{name} is left out: {self.zygote.missing[path.stem]}")
                del self.workloads[name]

    def replace_zygote(self, modules, preload):
        self.zygote = None
        try:
            self.zygote = members.Zygote(modules, preload, self.environment, self.arguments.timeout_s)
        except members.Failed as failure:
            self.output.note(f"{failure}: every process is one of its own")
            return
        if self.zygote.threads != 1:
            self.output.note(f"the zygote has {self.zygote.threads} threads, one of which is in what it forks")
        if self.zygote.touched_cuda:
            self.output.note("the zygote has a GPU's device files open: what it forks may not be able to use CUDA")

    def forks_are_to_blame(self, group, failed):
        """Whether everything forked has failed, and nothing else."""
        return bool(self.zygote is not None and failed and all(m.forked for m in failed)
                    and not any(m.forked for m in group))

    def without_what_killed_forks(self):
        """The next best way after a set in which nothing that was forked lived."""
        self.zygote.close()
        if self.zygote.preload:
            self.output.note("nothing that was forked lives: once more without importing in advance what steps import")
            self.replace_zygote(self.zygote.modules, preload=False)
        else:
            self.output.note("nothing that was forked lives: from here on every process is one of its own")
            self.zygote = None

    def names_of(self, name, number):
        for profiler in self.arguments.profilers:
            kind = members.PROFILERS[profiler]
            workload = self.workloads[name]
            if kind.steps_only and not workload.module or kind.door == "nsys" and self.arguments.nsys is None:
                continue
            # Importing PyTorch and writing nsys's files takes longer than the turns of a set.
            if kind.own and number % 2 == 1 and (workload.module or kind.door == "nsys"):
                continue
            if self.failures.get((name, profiler), 0) < UNTRIED_AFTER:
                yield profiler

    # ---- a set ----

    def set_of(self, name, number, deadline):
        workload = self.workloads[name]
        if not any(line["kind"] == "workload" and line["workload"] == name for line in self.output.lines):
            self.output.line(kind="workload", workload=name, unit=workload.unit, yardsticks=workload.yardsticks)
        names = list(self.names_of(name, number))
        if self.arguments.alone and names:
            turn = number % len(names)
            groups = [[profiler] for profiler in names[turn:] + names[:turn]]
        else:
            groups = [names]
        for place, group in enumerate(groups):
            now = time.monotonic()
            self.group(name, number, group, now + (deadline - now) / (len(groups) - place))

    def group(self, name, number, profilers, deadline):
        """These members: started, measured in turns until the deadline, ended."""
        group, failed = [], []
        try:
            self.start(name, number, profilers, group, failed)
            while self.forks_are_to_blame(group, failed):
                again = [member.name for member in failed]
                for member in failed:
                    self.failures.pop((name, member.name), None)
                    member.close()
                failed.clear()
                self.without_what_killed_forks()
                self.start(name, number, again, group, failed)
            self.turns(name, number, group, failed, deadline)
            began = time.monotonic()
            self.end(name, number, group, failed)
            self.end_took_s[name] = time.monotonic() - began
        finally:
            for member in group + failed:
                member.close()

    def failed(self, member, number, failure, group, failed):
        self.output.note(f"{member.workload_name} under {member.name}, set {number + 1}: {failure}")
        key = member.workload_name, member.name
        self.failures[key] = self.failures.get(key, 0) + 1
        if member in group:
            group.remove(member)
        member.kill()
        failed.append(member)

    def start(self, name, number, profilers, group, failed):
        new = []
        for profiler in profilers:
            member = members.Member(profiler, name, self.workloads[name], self.arguments)
            group.append(member)
            try:
                member.start(self.zygote, self.environment)
                new.append(member)
            except (members.Failed, OSError) as failure:
                self.failed(member, number, failure, group, failed)
        for member in new:
            try:
                member.first_answer()
            except (members.Failed, ValueError) as failure:
                self.failed(member, number, failure, group, failed)

    def turns(self, name, number, group, failed, deadline):
        workload = self.workloads[name]
        reserve_s = self.end_took_s.get(name, 10.0 if workload.module else 4.0)
        took_s, turn = 0.0, -1  # turn -1: settling, not kept
        while turn < self.arguments.turns and group:
            began = time.monotonic()
            if turn > 0 and began + took_s + reserve_s > deadline:
                break
            for member in self.random.sample(group, len(group)):
                # A window of torch.profiler has no flushes, and takes long to read afterwards.
                count = workload.count if member.profiler.mode in ("plain", "off") else max(1, workload.count // 4)
                try:
                    answer = member.block(workload.ops, count if turn >= 0 else 1)
                except (members.Failed, ValueError) as failure:
                    self.failed(member, number, failure, group, failed)
                    continue
                if turn >= 0:
                    self.output.line(kind="block", workload=name, profiler=member.name, set=number, turn=turn, **answer)
            took_s = time.monotonic() - began
            turn += 1

    # ---- the end of a set ----

    def end(self, name, number, group, failed):
        """One after the other in the first set, where ends and reports are timed; all at once later."""
        timed = number == 0
        if not timed:
            for member in group:
                member.tell_end()
        for member in list(group):
            try:
                self.output.line(kind="end", workload=name, profiler=member.name, set=number,
                                 **self.end_of(member, timed))
            except (members.Failed, ValueError, OSError) as failure:
                self.failed(member, number, failure, group, failed)

    def end_of(self, member, timed):
        if timed:
            member.tell_end()
        last = member.read_answer()
        member.wait()
        found = {"ops": last["ops"], "rss_kib": member.seen["rss_kib"], "rss_before_kib": member.rss_before_kib}
        if timed:
            found["end_s"] = round(member.ended_at - last["end_at"], 3)
        door = member.profiler.door
        if door in ("gpuprobe", "preload"):
            if not member.traces().exists():
                raise members.Failed("gpuprobe recorded nothing")
            found.update(self.gpuprobe_trace(member, last, timed))
        elif door == "nsys":
            found.update(self.nsys_trace(member, last, timed))
        elif "bytes" in last:
            found.update(bytes=last["bytes"], ops_recorded=last["ops_recorded"], report_s=round(last["report_s"], 3))
        return found

    def gpuprobe_trace(self, member, last, timed):
        found = {"bytes": common.folder_bytes(member.traces()), "ops_recorded": last["ops"]}
        if timed:
            first_line_at = self.first_line([common.REPORT, "summary", member.traces()])
            found["report_s"] = round(first_line_at - last["end_at"], 3)
        report = subprocess.run([common.REPORT, "summary", "--format", "json", member.traces()],
                                stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=False,
                                timeout=self.arguments.timeout_s)
        if report.returncode in (0, 3) and report.stdout:
            found["kernels"] = sum(d["kernels"]["count"] for d in json.loads(report.stdout)["devices"])
        return found

    def nsys_trace(self, member, last, timed):
        files = sorted(member.folder.glob("out.*"))
        found = {"bytes": sum(f.stat().st_size for f in files), "ops_recorded": last["ops"]}
        if timed and files and member.workload.module and member.name == "nsys -t cuda":  # it takes long
            chatter = ("Generating", "Processing", "NOTICE")
            first_line_at = self.first_line([self.arguments.nsys, "stats", "--report", "cuda_gpu_kern_sum", files[0]],
                                            chatter)
            found["report_s"] = round(first_line_at - last["end_at"], 3)
        return found

    def first_line(self, command, chatter=()):
        """When the first line of a report was there."""
        with subprocess.Popen([str(c) for c in command], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as reader:
            for line in reader.stdout:
                text = line.decode(errors="replace").strip()
                if text and not text.startswith(chatter):
                    at = time.monotonic()
                    reader.stdout.read()
                    return at
        raise members.Failed(f"{command[0]} printed nothing, exit code {reader.returncode}")


def machine():
    gpu = ""
    try:
        gpu = subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"],
                             stdout=subprocess.PIPE, check=False, timeout=60).stdout.decode().strip()
    except (OSError, subprocess.TimeoutExpired):
        gpu = "no nvidia-smi"
    return {"gpu": gpu, "kernel": platform.release(), "python": platform.python_version(), "cores": os.cpu_count(),
            "measured_cores": len(common.measured_cores())}


def read_raw(paths):
    return [json.loads(line) for path in paths for line in path.read_text(encoding="utf-8").splitlines()
            if line.startswith("{")]


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--minutes", type=float, default=16, help="for everything; blocks are measured while it lasts")
    parser.add_argument("--workloads", help="default: " + ",".join(WORKLOADS))
    parser.add_argument("--profilers", help="names, separated by ';'; default: " + "; ".join(members.PROFILERS))
    parser.add_argument("--step", action="append", default=[], metavar="NAME=FILE",
                        help="one more workload: a module as stepper.py wants it")
    parser.add_argument("--tier", action="append", default=[], metavar="NAME:KEY=VALUE,...",
                        help="one more row: gpuprobe with these settings, or LIBRARY=PATH: another build of it")
    parser.add_argument("--sets", type=int, help="sets of processes a workload")
    parser.add_argument("--turns", type=int, help="at most, a set (default: while there is time; --alone: 6)")
    parser.add_argument("--count", type=int, help="how many times a block's operations are timed")
    parser.add_argument("--timeout", type=float, default=90, dest="timeout_s", help="seconds for one answer")
    parser.add_argument("--alone", action="store_true", help="one process at a time")
    parser.add_argument("--no-zygote", action="store_true", help="every process is one of its own")
    parser.add_argument("--no-stop", action="store_false", dest="stop", help="do not stop processes between blocks")
    parser.add_argument("--resume", action="store_true", help="without the sets that --raw has; their time counts")
    parser.add_argument("--stop-after", type=float, default=float("inf"), dest="stop_after_s", metavar="S",
                        help="seconds: start no set that does not fit; exit code 3 where some are left")
    parser.add_argument("--raw", type=pathlib.Path, help="append the raw lines there")
    parser.add_argument("--from", type=pathlib.Path, action="append", dest="sources", help="print their tables only")
    parser.add_argument("--short", action="store_true", help="with --from: a line for what one looks for first")
    arguments = parser.parse_args()
    for text in arguments.tier:
        members.add_tier(text)
    arguments.turns = arguments.turns or (6 if arguments.alone else sys.maxsize)
    arguments.profilers = [p.strip() for p in (arguments.profilers or ";".join(members.PROFILERS)).split(";")]
    unknown = [p for p in arguments.profilers if p not in members.PROFILERS]
    if unknown:
        parser.error(f"unknown profilers: {unknown}; known: {list(members.PROFILERS)}")
    return parser, arguments


def chosen_workloads(parser, arguments):
    known = dict(WORKLOADS)
    for text in arguments.step:
        name, _, path = text.partition("=")
        known[name] = Workload("ms a step", 2, 2, 4, 2, module=pathlib.Path(path).resolve())
    names = arguments.workloads.split(",") if arguments.workloads else list(known)
    unknown = [name for name in names if name not in known]
    if unknown:
        parser.error(f"unknown workloads: {unknown}; known: {list(known)}")
    for name in names:
        known[name].sets = arguments.sets or known[name].sets
        known[name].count = arguments.count or known[name].count
    return {name: known[name] for name in names}


def interrupt(*_):
    raise KeyboardInterrupt


def main():
    parser, arguments = parse_arguments()
    if arguments.sources:
        lines = read_raw(arguments.sources)
        chosen = arguments.workloads.split(",") if arguments.workloads else None
        print("\n".join(tables.short_table(lines) if arguments.short else tables.all_tables(lines, chosen)))
        return
    for needed in (common.LIBRARY, common.REPORT, common.FLOOR):
        if not needed.exists():
            parser.error(f"{needed} is not built")
    workloads = chosen_workloads(parser, arguments)
    resumed = arguments.resume and arguments.raw and arguments.raw.exists()
    output = Output(arguments.raw, read_raw([arguments.raw]) if resumed else [])
    output.line(kind="machine", **machine())
    if any(w.micro for w in workloads.values()):
        common.build_micro()
    signal.signal(signal.SIGTERM, interrupt)
    finished = False
    try:
        finished = Bench(arguments, workloads, output).run()
    except KeyboardInterrupt:
        output.note("interrupted")
    finally:
        print("\n".join(tables.all_tables(output.lines)), flush=True)
    if finished and not any(line["kind"] == "block" for line in output.lines):
        sys.exit("nothing was measured")
    sys.exit(0 if finished else TO_BE_CONTINUED)


if __name__ == "__main__":
    main()
