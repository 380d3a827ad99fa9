#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""What each profiler costs, side by side on one GPU: every round runs all profilers once, in turning order,
and what is compared is the ratio within a round; the table gives its median and a 95 % interval.

    python3 bench/gpu/side_by_side.py [--rounds N] [--workloads a,b] [--profilers 'a;b'] [--seconds S] [--raw FILE]
    python3 bench/gpu/side_by_side.py --from FILE [--from FILE ...]      # the tables of raw figures once more

Needs a GPU, nvcc, build/dist and build/bench/gpu/libgpuprobe_floor.so; PyTorch for the steps; nsys where it is
found. Prints the raw figures while it runs and the tables last.

The profilers: none; floor (a bare CUPTI client that asks for the same kinds and drops its buffers); gpuprobe as it
comes; gpuprobe in its smaller tiers; torch.profiler; nsys. "of none" and "of floor" are ratios of the time of one
operation or step, each in units of a fixed piece of work that was timed beside it where the workload does so (a
virtual machine's core is a third slower while its neighbour computes). Lines that begin with '#' say what was left
out, and why."""
import argparse
import json
import os
import pathlib
import random
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
DIST = pathlib.Path(os.environ.get("GPUPROBE_DIST", ROOT / "build" / "dist"))
LIBRARY = DIST / "lib" / "libgpuprobe.so"
REPORT = DIST / "bin" / "probe-report"
FLOOR = ROOT / "build" / "bench" / "gpu" / "libgpuprobe_floor.so"
WORKLOADS = ROOT / "tests" / "workloads"
# Cores for the measured process: always the same ones, enough for a profiler's own threads.
CORES = 6

# name: (command by seconds, the figure's unit)
MICRO = {
    "storm-1": ("launch", 1, 4000, "ns a launch"),
    "storm-8": ("launch", 8, 1500, "ns a launch"),
    "sync": ("sync", 1, 1500, "ns a launch and wait"),
    "copy": ("copy", 1, 4000, "ns a 4 KiB copy"),
    "graph": ("graph", 1, 1000, "ns a replay of 20 kernels"),
}
STEPS = {
    "gpt-step": ("torch_launch_bound.py", 60, "ms a step"),
    "gpu-bound-step": ("torch_gpu_bound.py", 600, "ms a product"),
    "loader-starved-step": ("torch_loader_starved.py", 20, "ms a step"),
}
GPUPROBE_TIERS = {
    "gpuprobe": {},
    "gpuprobe, no sampler": {"GPUPROBE_SAMPLE_HZ": "0"},
    "gpuprobe, GPU work only": {"GPUPROBE_RUNTIME_API": "0", "GPUPROBE_DRIVER_API": "0", "GPUPROBE_OVERHEAD": "0",
                                "GPUPROBE_SAMPLE_HZ": "0"},
    "gpuprobe, capture off": {"GPUPROBE_CAPTURE": "0"},
}
TORCH = {"torch.profiler CUDA": "cuda", "torch.profiler CPU+CUDA": "cpu+cuda", "torch.profiler stacks": "stacks"}
NSYS = {"nsys -t cuda": ["-t", "cuda", "--sample=none", "--cpuctxsw=none"], "nsys defaults": []}
ALL = ["none", "floor", "floor, GPU work only", *GPUPROBE_TIERS, *TORCH, *NSYS]


def find_nsys():
    found = shutil.which("nsys")
    if found:
        return found
    for base in ("/opt/nvidia", "/usr/local/cuda"):
        for path in sorted(pathlib.Path(base).rglob("nsys")) if pathlib.Path(base).is_dir() else ():
            if path.is_file() and os.access(path, os.X_OK):
                return str(path)
    return None


def build_micro():
    program = ROOT / "build" / "gpu-bench" / "micro"
    source = HERE / "micro.cu"
    if not program.exists() or program.stat().st_mtime < source.stat().st_mtime:
        program.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(["nvcc", "-O2", "-arch=native", "-o", program, source], check=True)
    return program


def folder_bytes(folder):
    return sum(f.stat().st_size for f in folder.rglob("*") if f.is_file())


def figures_of(text, name):
    found = re.search(rf"^{name} (.*)$", text, re.M)
    return [float(x) for x in found.group(1).split()] if found else []


def in_yardsticks(figures, yardsticks):
    """The median of the blocks, each over the yardstick beside it; None where there is none."""
    if not yardsticks or len(yardsticks) != len(figures):
        return None
    return statistics.median(f / y for f, y in zip(figures, yardsticks))


class Bench:
    def __init__(self, arguments):
        self.arguments = arguments
        self.micro = None
        self.nsys = find_nsys()
        self.raw = []
        cores = sorted(os.sched_getaffinity(0))
        self.cores = set(cores[-CORES:])

    def command(self, workload):
        if workload in MICRO:
            if self.micro is None:
                self.micro = build_micro()
            mode, threads, ops, _ = MICRO[workload]
            return [str(self.micro), mode, str(threads), str(self.arguments.blocks), str(ops)], False
        script, steps, _ = STEPS[workload]
        return [str(WORKLOADS / script), str(max(4, int(steps * self.arguments.scale)))], True

    def run(self, workload, profiler, folder):
        command, python = self.command(workload)
        environment = {k: v for k, v in os.environ.items()
                       if k not in ("LD_PRELOAD", "CUDA_INJECTION64_PATH") and not k.startswith("GPUPROBE_")}
        if profiler in TORCH:
            command = [sys.executable, str(HERE / "under_torch_profiler.py"), TORCH[profiler],
                       str(folder / "trace.json"), *command]
        elif python:
            command = [sys.executable, *command]
        if profiler.startswith("floor"):
            environment["CUDA_INJECTION64_PATH"] = str(FLOOR)
            environment["GPUPROBE_FLOOR_KINDS"] = "gpu" if "GPU" in profiler else "all"
        elif profiler in GPUPROBE_TIERS:
            environment.update(GPUPROBE_TIERS[profiler])
            environment["LD_PRELOAD"] = str(LIBRARY)
            environment["GPUPROBE_OUT"] = str(folder / "run")
        elif profiler in NSYS:
            command = [self.nsys, "profile", *NSYS[profiler], "-o", str(folder / "out"), *command]
        output = open(folder / "output", "w+b")
        begin = time.monotonic()
        child = subprocess.Popen(command, env=environment, stdout=output, stderr=subprocess.STDOUT,
                                 preexec_fn=lambda: os.sched_setaffinity(0, self.cores), cwd=folder)
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
        wall = time.monotonic() - begin
        output.seek(0)
        text = output.read().decode(errors="replace")
        output.close()
        (folder / "output").unlink()
        if child.returncode != 0:
            raise RuntimeError(f"{workload} under {profiler}: exit {child.returncode}\n{text[-2000:]}")
        result = {"workload": workload, "profiler": profiler, "wall_s": wall, "rss_kib": usage.ru_maxrss,
                  "cpu_s": usage.ru_utime + usage.ru_stime}
        if workload in MICRO:
            figures = figures_of(text, "ns_per_op")
            result["figure"] = statistics.median(figures)
            result["rss_kib"] = int(re.search(r"^rss_kib (\d+)", text, re.M).group(1))
            result["cpu_s"] = float(re.search(r"^cpu_s ([\d.]+)", text, re.M).group(1))
        else:
            figures = figures_of(text, "ms_per_block")
            result["figure"] = float(re.search(r"ms_per_\w+=([\d.]+)", text).group(1))
        yardsticks = figures_of(text, "yardstick_us")
        result["yardsticks"] = in_yardsticks(figures, yardsticks)
        if profiler in GPUPROBE_TIERS and (folder / "run").exists():
            result["bytes"] = folder_bytes(folder / "run")
            begin = time.monotonic()
            report = subprocess.run([REPORT, "summary", "--format", "json", folder / "run"], stdout=subprocess.PIPE,
                                    check=False)
            result["report_s"] = time.monotonic() - begin
            if report.returncode in (0, 3) and report.stdout:
                devices = json.loads(report.stdout)["devices"]
                result["kernels"] = sum(d["kernels"]["count"] for d in devices)
        elif profiler in TORCH or profiler in NSYS:
            result["bytes"] = folder_bytes(folder)
        return result

    def usable(self, profiler, workload):
        if profiler in TORCH:
            return workload in STEPS
        if profiler in NSYS:
            return self.nsys is not None
        return True

    def keep(self, result):
        self.raw.append(result)
        line = json.dumps(result)
        print(line, flush=True)
        if self.arguments.raw:
            with open(self.arguments.raw, "a", encoding="utf-8") as file:
                file.write(line + "\n")

    def measure(self, workload, profilers, end):
        names = [p for p in profilers if self.usable(p, workload)]
        for round_number in range(self.arguments.rounds):
            turn = round_number % len(names)
            for profiler in names[turn:] + names[:turn]:
                if time.monotonic() > end:
                    print(f"# {workload}: the time was up in round {round_number + 1}", flush=True)
                    return
                folder = pathlib.Path(tempfile.mkdtemp(prefix="gpuprobe-bench-"))
                try:
                    result = self.run(workload, profiler, folder)
                except (RuntimeError, OSError, AttributeError) as error:
                    print(f"# {workload} under {profiler}: {error}", flush=True)
                    continue
                finally:
                    shutil.rmtree(folder, ignore_errors=True)
                result["round"] = round_number
                self.keep(result)


def interval(values, seed=1):
    """Median and the 95 % interval of it, by resampling."""
    if not values:
        return None
    generator = random.Random(seed)
    medians = sorted(statistics.median(generator.choices(values, k=len(values))) for _ in range(2000))
    return statistics.median(values), medians[50], medians[1949]


def ratios(raw, workload, profiler, base):
    figures = {(r["profiler"], r["round"]): r.get("yardsticks") or r["figure"] for r in raw if r["workload"] == workload}
    return [figure / figures[(base, round_number)] for (name, round_number), figure in figures.items()
            if name == profiler and figures.get((base, round_number))]


def middle(raw, workload, profiler, key):
    values = [r[key] for r in raw if r["workload"] == workload and r["profiler"] == profiler and key in r]
    return statistics.median(values) if values else None


def text_of(found):
    return "-" if found is None else f"{found[0]:.3f} [{found[1]:.3f}, {found[2]:.3f}]"


def table(raw, workload, profilers):
    unit = MICRO[workload][3] if workload in MICRO else STEPS[workload][2]
    print(f"\n## {workload} ({unit})\n")
    print("| profiler | median | of none | of floor | bytes a kernel | MB on disk | RSS +MiB | CPU +s | report s |")
    print("|---|---|---|---|---|---|---|---|---|")
    rss, cpu = middle(raw, workload, "none", "rss_kib"), middle(raw, workload, "none", "cpu_s")
    # Tools that do not count kernels recorded the same run: their bytes are over gpuprobe's count.
    kernels = middle(raw, workload, "gpuprobe", "kernels")
    for profiler in profilers:
        figure = middle(raw, workload, profiler, "figure")
        if figure is None:
            continue
        size = middle(raw, workload, profiler, "bytes")
        own = middle(raw, workload, profiler, "kernels") or kernels
        added_rss, added_cpu = middle(raw, workload, profiler, "rss_kib"), middle(raw, workload, profiler, "cpu_s")
        report = middle(raw, workload, profiler, "report_s")
        print("| " + " | ".join([
            profiler, f"{figure:.2f}" if figure < 1000 else f"{figure:.0f}",
            text_of(interval(ratios(raw, workload, profiler, "none"))),
            text_of(interval(ratios(raw, workload, profiler, "floor"))),
            f"{size / own:.1f}" if size and own else "-", f"{size / 1e6:.2f}" if size else "-",
            f"{(added_rss - rss) / 1024:.0f}" if rss else "-", f"{added_cpu - cpu:.2f}" if cpu is not None else "-",
            f"{report:.2f}" if report is not None else "-"]) + " |")


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--blocks", type=int, default=30, help="blocks a run of a micro workload")
    parser.add_argument("--scale", type=float, default=1.0, help="of the steps' count")
    parser.add_argument("--workloads", default=",".join([*MICRO, *STEPS]))
    parser.add_argument("--profilers", default=";".join(ALL), help="names, separated by ';'")
    parser.add_argument("--seconds", type=float, default=1e9, help="stop measuring a workload after this long")
    parser.add_argument("--raw", type=pathlib.Path, help="append the raw figures there, one JSON object a line")
    parser.add_argument("--from", type=pathlib.Path, action="append", dest="sources", help="print their tables only")
    arguments = parser.parse_args()
    profilers = [p.strip() for p in arguments.profilers.split(";")]
    unknown = [p for p in profilers if p not in ALL]
    if unknown:
        sys.exit(f"unknown profilers: {unknown}; known: {ALL}")
    if arguments.sources:
        raw = [json.loads(line) for source in arguments.sources for line in source.read_text().splitlines()]
        for workload in arguments.workloads.split(","):
            if any(r["workload"] == workload for r in raw):
                table(raw, workload, profilers)
        return
    for needed in (LIBRARY, REPORT, FLOOR):
        if not needed.exists():
            sys.exit(f"{needed} is not built")
    bench = Bench(arguments)
    if bench.nsys is None and any(p in NSYS for p in profilers):
        print("# nsys was not found")
    for workload in arguments.workloads.split(","):
        bench.measure(workload, profilers, time.monotonic() + arguments.seconds)
    for workload in arguments.workloads.split(","):
        table(bench.raw, workload, profilers)


if __name__ == "__main__":
    main()
