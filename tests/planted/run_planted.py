#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright the gpuprobe authors.
"""Runs the planted workloads under the library and says of each whether the report finds what was planted.

    python3 tests/planted/run_planted.py [WORKLOAD...]       PyTorch on a GPU: tests/workloads/planted_*.py
    python3 tests/planted/run_planted.py --sim [CLASS...]    the same classes on the simulated GPU

Needs build/dist (GPUPROBE_DIST names another folder), with --sim build/sim, too. One after the other, because
timing is what they are about. The table comes last; exit code 0: everything was found.
"""

import argparse
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import judge

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
WORKLOADS = ROOT / "tests" / "workloads"
PREFIX = "planted_"
SIM_PROGRAM = HERE / "sim_planted.py"
COMPLETE, PARTIAL = 0, 3  # probe-report's exit codes with a report


class Failed(Exception):
    """A workload or the report on it did not get to its end."""


def torch_workloads():
    return sorted(path.stem[len(PREFIX) :] for path in WORKLOADS.glob(PREFIX + "*.py"))


def sim_classes():
    listed = subprocess.run(
        [sys.executable, SIM_PROGRAM, "--list"], stdout=subprocess.PIPE, check=True, text=True
    )
    return listed.stdout.split()


def clean_environment():
    ours = ("LD_PRELOAD", "CUDA_INJECTION64_PATH")
    return {
        k: v
        for k, v in os.environ.items()
        if k not in ours and not k.startswith(("GPUPROBE_", "GPUSIM_"))
    }


def run_bounded(command, environment, timeout_s):
    """(exit code, stdout, stderr); past the timeout the process group that was started here ends."""
    process = subprocess.Popen(
        [str(word) for word in command],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
        text=True,
    )
    try:
        stdout, stderr = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate()
        raise Failed(f"not done after {timeout_s} s") from None
    return process.returncode, stdout, stderr


def record_torch(name, seconds, dist, traces, timeout_s):
    environment = clean_environment()
    environment.update(LD_PRELOAD=str(dist / "lib" / "libgpuprobe.so"), GPUPROBE_OUT=str(traces))
    command = [sys.executable, WORKLOADS / f"{PREFIX}{name}.py"]
    return run_bounded(command + ([seconds] if seconds else []), environment, timeout_s)


def record_sim(name, seconds, dist, traces, timeout_s):
    environment = clean_environment()
    # As a framework is: outside of the user's own code.
    framework = traces.parent / "site-packages"
    framework.mkdir(exist_ok=True)
    for name_of_module in ("gpusim.py", "sim_loader.py"):
        (framework / name_of_module).symlink_to(ROOT / "tests" / "sim" / name_of_module)
    environment.update(
        GPUPROBE_OUT=str(traces),
        GPUPROBE_BUILD_DIR=str(dist.parent),
        PYTHONPATH=str(framework),
        PYTHONDONTWRITEBYTECODE="1",
    )
    command = [ROOT / "tests" / "sim" / "run-sim", "--", sys.executable, SIM_PROGRAM, name]
    return run_bounded(command + ([seconds] if seconds else []), environment, timeout_s)


def last_json_line(stdout):
    for line in reversed(stdout.splitlines()):
        if line.startswith("{"):
            return json.loads(line)
    raise Failed("printed no line of JSON")


def report(dist, traces, *options):
    command = [dist / "bin" / "probe-report", "summary", *options, traces]
    code, stdout, stderr = run_bounded(command, clean_environment(), 60)
    if code not in (COMPLETE, PARTIAL):
        raise Failed(f"probe-report: exit code {code}, {stderr.strip()[-200:]}")
    return stdout


def run_one(name, options, record, folder):
    """One workload: everything that is known about it, as a dictionary."""
    traces = folder / "run"
    begin = time.monotonic()
    code, stdout, stderr = record(name, options.seconds, options.dist, traces, options.timeout)
    wall_s = time.monotonic() - begin
    if code != 0:
        raise Failed(f"exit code {code}: {stderr.strip()[-300:]}")
    planted = last_json_line(stdout)
    summary_json = report(options.dist, traces, "--format", "json", "--top", "100")
    text = report(options.dist, traces)
    if options.keep:
        options.keep.mkdir(parents=True, exist_ok=True)
        (options.keep / f"{name}.summary.json").write_text(summary_json)
        (options.keep / f"{name}.summary.txt").write_text(text)
        (options.keep / f"{name}.planted.json").write_text(json.dumps(planted) + "\n")
    summary = json.loads(summary_json)
    return {
        "workload": name,
        "wall_s": round(wall_s, 2),
        "planted": planted,
        "verdict": summary["verdict"],
        "judged": vars(judge.judge(planted, summary, text)),
    }


def percent(share):
    return "-" if share is None else "%.1f" % (100 * share)


def table(results):
    header = ("workload", "expected", "got", "line expected", "line got", "idle %", "expl. %")
    header += ("planted %", "reported %", "wrong")
    rows = [header]
    for result in results:
        if "failed" in result:
            rows.append((result["workload"],) + ("-",) * 8 + (result["failed"],))
            continue
        judged = result["judged"]
        rows.append(
            (
                result["workload"],
                judged["expected"][0],
                judged["got"],
                judged["line_expected"].replace(PREFIX, ""),
                judged["line_got"].replace(PREFIX, ""),
                percent(judged["idle_share"]),
                percent(judged["explained"]),
                percent(judged["planted_share"]),
                percent(judged["reported_share"]),
                ", ".join(judged["problems"]) or "ok",
            )
        )
    widths = [max(len(row[i]) for row in rows) for i in range(len(header) - 1)]
    numbers = range(5, 9)
    for row in rows:
        cells = [
            cell.rjust(width) if i in numbers else cell.ljust(width)
            for i, (cell, width) in enumerate(zip(row, widths))
        ]
        yield "  ".join(cells + [row[-1]])


def is_right(result):
    return "failed" not in result and not result["judged"]["problems"]


def parse_options():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("workloads", nargs="*", help="names without planted_; default: all")
    parser.add_argument("--sim", action="store_true", help="on the simulated GPU")
    parser.add_argument("--seconds", help="length of each loop; default: the workload's own")
    parser.add_argument("--timeout", type=float, default=60, help="seconds for one workload")
    parser.add_argument("--keep", type=pathlib.Path, metavar="DIR", help="reports stay there")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="all results")
    parser.add_argument(
        "--dist",
        type=pathlib.Path,
        default=os.environ.get("GPUPROBE_DIST", ROOT / "build" / "dist"),
    )
    options = parser.parse_args()
    options.dist = pathlib.Path(options.dist).resolve()
    known = sim_classes() if options.sim else torch_workloads()
    unknown = [name for name in options.workloads if name not in known]
    if unknown:
        parser.error(f"no such workload: {', '.join(unknown)}; there are {', '.join(known)}")
    for needed in ("lib/libgpuprobe.so", "bin/probe-report"):
        if not (options.dist / needed).exists():
            parser.error(f"{options.dist / needed} is not built")
    options.workloads = options.workloads or known
    return options


def main():
    options = parse_options()
    results = []
    for name in options.workloads:
        folder = pathlib.Path(tempfile.mkdtemp(prefix="gpuprobe-planted-"))
        try:
            record = record_sim if options.sim else record_torch
            results.append(run_one(name, options, record, folder))
            print(f"{name}: {results[-1]['wall_s']} s", file=sys.stderr, flush=True)
        except Failed as failure:
            results.append({"workload": name, "failed": str(failure).replace("\n", " ")})
            print(f"{name}: {failure}", file=sys.stderr, flush=True)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
    if options.json:
        options.json.write_text(json.dumps(results, indent=1) + "\n")
    print("\n".join(table(results)))
    wrong = [result["workload"] for result in results if not is_right(result)]
    print(f"{len(results) - len(wrong)} of {len(results)} found" + (": not " if wrong else ""), end="")
    print(", ".join(wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
