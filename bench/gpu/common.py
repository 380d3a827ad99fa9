# SPDX-License-Identifier: Apache-2.0
# Copyright the gpuprobe authors.
"""What the programs of this folder share: where things lie, on which cores is measured, and how a run's output is
read. Standard library only."""
import os
import pathlib
import re
import shutil
import statistics
import subprocess

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
BUILD = pathlib.Path(os.environ.get("GPUPROBE_BUILD_DIR", ROOT / "build"))
DIST = pathlib.Path(os.environ.get("GPUPROBE_DIST", BUILD / "dist"))
LIBRARY = DIST / "lib" / "libgpuprobe.so"
REPORT = DIST / "bin" / "probe-report"
FLOOR = pathlib.Path(os.environ.get("GPUPROBE_FLOOR", BUILD / "bench" / "gpu" / "libgpuprobe_floor.so"))
WORKLOADS = ROOT / "tests" / "workloads"
# Cores for the measured process: always the same ones, enough for a profiler's own threads.
CORES = 6


def measured_cores():
    return set(sorted(os.sched_getaffinity(0))[-CORES:])


def clean_environment():
    """This process's environment without any profiler's doors and settings."""
    return {k: v for k, v in os.environ.items() if k not in ("LD_PRELOAD", "CUDA_INJECTION64_PATH")
            and (not k.startswith("GPUPROBE_") or k == "GPUPROBE_BUILD_DIR")}


def build_micro():
    """The program of micro.cu; GPUPROBE_MICRO names one that is built."""
    if "GPUPROBE_MICRO" in os.environ:
        return pathlib.Path(os.environ["GPUPROBE_MICRO"])
    program = BUILD / "gpu-bench" / "micro"
    source = HERE / "micro.cu"
    if not program.exists() or program.stat().st_mtime < source.stat().st_mtime:
        program.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(["nvcc", "-O2", "-std=c++17", "-arch=native", "-o", program, source], check=True)
    return program


def find_nsys():
    found = shutil.which("nsys")
    if found:
        return found
    for base in ("/opt/nvidia", "/usr/local/cuda"):
        for path in sorted(pathlib.Path(base).rglob("nsys")) if pathlib.Path(base).is_dir() else ():
            if path.is_file() and os.access(path, os.X_OK):
                return str(path)
    return None


def folder_bytes(folder):
    return sum(f.stat().st_size for f in pathlib.Path(folder).rglob("*") if f.is_file())


def figures_of(text, name):
    """The numbers of the line of micro's output that begins with this name."""
    found = re.search(rf"^{name} (.*)$", text, re.M)
    return [float(x) for x in found.group(1).split()] if found else []


def in_yardsticks(figures, yardsticks):
    """The median of the blocks, each over the yardstick beside it; None where there is none."""
    if not yardsticks or len(yardsticks) != len(figures):
        return None
    return statistics.median(f / y for f, y in zip(figures, yardsticks))
