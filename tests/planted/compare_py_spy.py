#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright the gpuprobe authors.
"""The host sampler against py-spy (https://github.com/benfred/py-spy): the same Python program on the simulated
GPU under the one, under the other, and under neither, in turns.

    python3 tests/planted/compare_py_spy.py [--seconds S] [--rounds N] [--idle-threads N]

Run by hand; no part of `make test`. Needs build/dist and build/sim (GPUPROBE_DIST, GPUPROBE_BUILD_DIR) and py-spy
on the PATH (or --py-spy FILE). Both look a hundred times a second.

The program is five lines of plain bytecode in nested functions, which turn 5 : 4 : 3 : 2 : 1 times as often, and
measures itself how much CPU time each takes. It waits for a word before its loop and after it, so that what a profiler
needs to get started and to write its file is not in these figures.
"""

import argparse
import json
import math
import os
import pathlib
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path += [str(ROOT / "tests" / "sim"), str(ROOT / "tests" / "workloads")]
from workload import lines_marked  # noqa: E402

RATE_HZ = 100
LINES = ("half", "quarter", "parse", "decode", "train")
TURNS = dict(zip(LINES, (5, 4, 3, 2, 1)))
# A multiple of neither 10 ms nor a part of it, as the loop ought not to keep step with who looks at it.
TURNS_A_SHARE = 7_000
MODES = ("nothing", "gpuprobe", "py-spy", "py-spy --nonblocking")
SAMPLED = MODES[1:]
CLOCK_TICK_S = 1 / os.sysconf("SC_CLK_TCK")


# ---- the program ----


class Program:
    def __init__(self):
        self.took = dict.fromkeys(LINES, 0.0)

    def half(self, turns):
        begin, i = time.thread_time(), 0
        while i < turns: i += 1  # half
        self.took["half"] += time.thread_time() - begin

    def quarter(self, turns):
        self.half(TURNS["half"] * TURNS_A_SHARE)
        begin, i = time.thread_time(), 0
        while i < turns: i += 1  # quarter
        self.took["quarter"] += time.thread_time() - begin

    def parse(self, turns):
        begin, i = time.thread_time(), 0
        while i < turns: i += 1  # parse
        self.took["parse"] += time.thread_time() - begin

    def decode(self, turns):
        self.parse(TURNS["parse"] * TURNS_A_SHARE)
        begin, i = time.thread_time(), 0
        while i < turns: i += 1  # decode
        self.took["decode"] += time.thread_time() - begin

    def train(self, turns):
        self.quarter(TURNS["quarter"] * TURNS_A_SHARE)
        self.decode(TURNS["decode"] * TURNS_A_SHARE)
        begin, i = time.thread_time(), 0
        while i < turns: i += 1  # train
        self.took["train"] += time.thread_time() - begin


def voluntary_switches():
    """Of this thread: one that only computes has one for each time that somebody stopped it."""
    with open("/proc/thread-self/status", encoding="ascii") as file:
        return next(int(line.split()[1]) for line in file if line.startswith("voluntary_ctxt_switches"))


def run_program(seconds, idle_threads):
    from gpusim import Gpu  # only here: it loads the simulated GPU

    gpu, program = Gpu(), Program()
    stream, end = gpu.stream(), threading.Event()
    gpu.launch("a", 1_000, stream)
    gpu.sync(stream)
    threads = [threading.Thread(target=end.wait, daemon=True) for _ in range(1 + idle_threads)]
    for thread in threads:
        thread.start()
    print(json.dumps({"pid": os.getpid()}), flush=True)
    sys.stdin.readline()
    took, switches, cpu = [], voluntary_switches(), time.thread_time()
    begin = now = time.perf_counter()
    while now - begin < seconds:
        gpu.launch("a", 1_000, stream)
        program.train(TURNS["train"] * TURNS_A_SHARE)
        before, now = now, time.perf_counter()
        took.append(now - before)
    result = {
        "seconds": now - begin,
        "iterations": len(took),
        "cpu_s": time.thread_time() - cpu,
        "median_ms": 1e3 * statistics.median(took),
        "p99_ms": 1e3 * sorted(took)[len(took) * 99 // 100],
        "longest_ms": 1e3 * max(took),
        "switches": voluntary_switches() - switches,
        "took": program.took,
    }
    print(json.dumps(result), flush=True)
    sys.stdin.readline()
    end.set()
    gpu.sync(stream)


# ---- running it ----


def cpu_of_process_s(pid):
    fields = pathlib.Path("/proc/%d/stat" % pid).read_text(encoding="ascii").rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) * CLOCK_TICK_S


def cpu_of_our_threads_s(pid):
    total = 0
    for task in pathlib.Path("/proc/%d/task" % pid).iterdir():
        if (task / "comm").read_text(encoding="ascii").startswith("gpuprobe"):
            total += int((task / "schedstat").read_text(encoding="ascii").split()[0])
    return total * 1e-9


def environment(build, out):
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("GPUPROBE_", "GPUSIM_")) and k != "LD_PRELOAD"}
    return dict(kept, GPUPROBE_BUILD_DIR=str(build), GPUPROBE_OUT=str(out), PYTHONDONTWRITEBYTECODE="1")


def start_py_spy(options, mode, pid, out):
    command = [options.py_spy, "record", "--pid", str(pid), "--rate", str(RATE_HZ), "--format", "raw"]
    command += ["--output", str(out)] + mode.split()[1:]
    log = open(out.with_suffix(".log"), "w+", encoding="utf-8")
    process = subprocess.Popen(command, stdout=log, stderr=log)
    # What it says once it looks; its work until then (symbols of the interpreter) is not what is measured.
    for _ in range(300):
        time.sleep(0.1)
        if "Sampling process" in pathlib.Path(log.name).read_text(encoding="utf-8"):
            return process
        if process.poll() is not None:
            break
    raise SystemExit("py-spy: " + pathlib.Path(log.name).read_text(encoding="utf-8"))


def run_once(options, mode, idle_threads, folder):
    run_sim = [ROOT / "tests" / "sim" / "run-sim"] + ([] if mode == "gpuprobe" else ["--no-preload"])
    command = run_sim + ["--", sys.executable, __file__, "--program", str(options.seconds), str(idle_threads)]
    program = subprocess.Popen(
        command,
        env=environment(options.build, folder / "run"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    pid = json.loads(program.stdout.readline())["pid"]
    spy = start_py_spy(options, mode, pid, folder / "spy.raw") if mode.startswith("py-spy") else None

    def cpu_s():
        if spy:
            return cpu_of_process_s(spy.pid)
        return cpu_of_our_threads_s(pid) if mode == "gpuprobe" else 0.0

    time.sleep(0.5)
    before = cpu_s()
    program.stdin.write("go\n")
    program.stdin.flush()
    result = json.loads(program.stdout.readline())
    result["profiler_cpu_s"] = cpu_s() - before
    program.communicate("end\n")
    if program.returncode != 0:
        raise SystemExit("the program: exit code %d" % program.returncode)
    if spy:
        _, _, usage = os.wait4(spy.pid, 0)
        result["profiler_all_cpu_s"] = usage.ru_utime + usage.ru_stime
        result["samples"] = lines_of_py_spy(folder / "spy.raw")
        log = (folder / "spy.log").read_text(encoding="utf-8")
        said = [line for line in log.splitlines() if "behind" in line or "Errors: " in line]
        result["notes"] = [line for line in said if not line.endswith("Errors: 0")]
    elif mode == "gpuprobe":
        result.update(lines_of_gpuprobe(options, folder / "run"))
    return result


# ---- what the two say ----


def lines_of_py_spy(path):
    """Samples by place, of the innermost frame of threads that it took for active."""
    samples = {}
    for stack in path.read_text(encoding="utf-8").splitlines():
        frames, count = stack.rsplit(" ", 1)
        place = os.path.basename(frames.split(";")[-1].rsplit("(", 1)[-1].rstrip(")"))
        samples[place] = samples.get(place, 0) + int(count)
    return samples


def lines_of_gpuprobe(options, run):
    def report(*arguments):
        command = [options.dist / "bin" / "probe-report", *arguments, "--format", "json", run]
        return json.loads(subprocess.run(command, capture_output=True, check=True, text=True).stdout)

    samples, on_cpu = {}, {}
    for row in report("hot")["lines"]:
        place = row["where"].split(" in ")[0]
        samples[place] = samples.get(place, 0) + row["samples"]
        on_cpu[place] = on_cpu.get(place, 0) + row["on_cpu_ns"]
    sampler = report("info")["processes"][0]["sampler"]
    return {"samples": samples, "on_cpu_ns": on_cpu, "profiler_all_cpu_s": sampler["cpu_ns"] * 1e-9, "sampler": sampler}


# ---- tables ----


def table(rows):
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    for row in rows:
        cells = [row[0].ljust(widths[0])] + [c.rjust(w) for c, w in zip(row[1:], widths[1:])]
        print("  ".join(cells).rstrip())
    print()


def added(results, key):
    """Sums over the rounds, by place."""
    sums = {}
    for result in results:
        for place, value in result[key].items():
            sums[place] = sums.get(place, 0) + value
    return sums


def elsewhere_text(seen, places):
    """How much lies outside of the five lines, and where most of it."""
    whole = sum(seen.values())
    others = sorted(((value, place) for place, value in seen.items() if place not in places.values()), reverse=True)
    most = ", ".join("%s %.1f %%" % (place, 100 * value / whole) for value, place in others[:3])
    return "%.1f %% outside of the five lines: %s" % (100 * sum(value for value, _ in others) / whole, most)


def shares_table(by_mode):
    """Shares of the five lines, each with its distance from what the program measured in the same runs, in standard
    errors of as many looks at random times."""
    measured = {
        mode: {mark: sum(r["took"][mark] for r in by_mode[mode]) for mark in LINES} for mode in MODES
    }
    counts = {mode: added(by_mode[mode], "samples") for mode in SAMPLED}
    weights = dict(counts, gpuprobe=added(by_mode["gpuprobe"], "on_cpu_ns"))
    places = {mark: lines_marked(__file__, mark)[0] for mark in LINES}
    chi_squared = dict.fromkeys(SAMPLED, 0.0)
    rows = [["line", "measured %", "gpuprobe %", "error/se"]]
    for mode in SAMPLED[1:]:
        rows[0] += [mode + " %", "error/se"]
    rows[0].append("gpuprobe - py-spy, /se")
    for mark in LINES:
        unwatched, found = measured["nothing"][mark] / sum(measured["nothing"].values()), {}
        row = [mark, "%.2f" % (100 * unwatched)]
        for mode in SAMPLED:
            share = weights[mode].get(places[mark], 0) / sum(weights[mode].get(p, 0) for p in places.values())
            looks = sum(counts[mode].get(p, 0) for p in places.values())
            truth = measured[mode][mark] / sum(measured[mode].values())
            # The program is not quite the same in every run: errors are compared, not shares.
            found[mode] = share - truth, truth * (1 - truth) / looks
            row += ["%.2f" % (100 * share), "%+.1f" % (found[mode][0] / math.sqrt(found[mode][1]))]
            chi_squared[mode] += (share - truth) ** 2 * looks / truth
        (a, variance_a), (b, variance_b) = found["gpuprobe"], found["py-spy"]
        row.append("%+.1f" % ((a - b) / math.sqrt(variance_a + variance_b)))
        rows.append(row)
    rows.append(["chi-squared, %d degrees of freedom" % (len(LINES) - 1), ""])
    for mode in SAMPLED:
        rows[-1] += ["", "%.1f" % chi_squared[mode]]
    rows[-1].append("")
    looks = ["looks at these lines", ""]
    for mode in SAMPLED:
        looks += ["%d" % sum(counts[mode].get(p, 0) for p in places.values()), ""]
    rows.append(looks + [""])
    table(rows)
    for mode in SAMPLED:
        print("%s: %s" % (mode, elsewhere_text(weights[mode], places)))
    print()


def cost_table(by_mode):
    rows = [["", "iterations/s", "per CPU s", "profiler's CPU %", "start to end, s"]]
    rows[0] += ["median ms", "p99 ms", "longest ms", "voluntary switches/s"]
    for mode in MODES:
        results = by_mode[mode]

        def middle(value, results=results):
            return statistics.median(value(r) for r in results)

        rate = [r["iterations"] / r["seconds"] for r in results]
        rows.append(
            [
                mode,
                "%.1f (%.1f to %.1f)" % (statistics.median(rate), min(rate), max(rate)),
                "%.1f" % middle(lambda r: r["iterations"] / r["cpu_s"]),
                "%.2f" % middle(lambda r: 100 * r["profiler_cpu_s"] / r["seconds"]),
                "%.2f" % middle(lambda r: r.get("profiler_all_cpu_s", 0.0)),
                "%.2f" % middle(lambda r: r["median_ms"]),
                "%.2f" % middle(lambda r: r["p99_ms"]),
                "%.1f" % max(r["longest_ms"] for r in results),
                "%.1f" % middle(lambda r: r["switches"] / r["seconds"]),
            ]
        )
    table(rows)


def compare(options, idle_threads):
    by_mode = {mode: [] for mode in MODES}
    for number in range(options.rounds):
        order = MODES if number % 2 == 0 else MODES[::-1]
        for mode in order:
            folder = pathlib.Path(tempfile.mkdtemp(prefix="gpuprobe-py-spy-"))
            try:
                by_mode[mode].append(run_once(options, mode, idle_threads, folder))
            finally:
                shutil.rmtree(folder, ignore_errors=True)
    print("== %d threads asleep, %d rounds of %g s" % (1 + idle_threads, options.rounds, options.seconds))
    shares_table(by_mode)
    cost_table(by_mode)
    for mode in MODES:
        for result in by_mode[mode]:
            if result.get("sampler"):
                print("gpuprobe:", json.dumps(result["sampler"]))
            for note in result.get("notes", []):
                print("%s: %s" % (mode, note))
    print(flush=True)


def main():
    if sys.argv[1:2] == ["--program"]:
        run_program(float(sys.argv[2]), int(sys.argv[3]))
        return
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seconds", type=float, default=10)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--idle-threads", type=int, nargs="*", default=[0, 100], help="default: 0, then 100")
    parser.add_argument("--py-spy", default=shutil.which("py-spy"))
    options = parser.parse_args()
    options.build = pathlib.Path(os.environ.get("GPUPROBE_BUILD_DIR", ROOT / "build")).resolve()
    options.dist = pathlib.Path(os.environ.get("GPUPROBE_DIST", options.build / "dist")).resolve()
    if not options.py_spy:
        print("skipped: no py-spy on the PATH (pip install py-spy)")
        return
    version = subprocess.run([options.py_spy, "--version"], capture_output=True, check=True, text=True).stdout.strip()
    print("%s, Python %s, %d CPUs, load %.1f\n" % (version, sys.version.split()[0], os.cpu_count(), os.getloadavg()[0]))
    for idle_threads in options.idle_threads:
        compare(options, idle_threads)


if __name__ == "__main__":
    main()
