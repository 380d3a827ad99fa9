#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright the gpuprobe authors.
"""Everything that is measured on a GPU machine, in order of importance, in one call or in several.

    python3 bench/gpu/all.py [--out DIR] [--seconds S] [--only a,b | --skip a,b] [-- OPTIONS OF side_by_side.py]

Parts: planted (tests/planted/run_planted.py), sides (side_by_side.py), split (bench_host_sampler), sampler
(sampler_cost.py), drain (bench_drain), knobs (knobs.py on graph replays). Each has its own limit of time, and a part
that fails, hangs or is not built does not keep the others from running. --seconds is for the whole call: a part that
does not fit is left for the next call with the same DIR, which does what has not been done (exit code 3 where something
is left). DIR (build/bench-gpu-results): PART.txt, side_by_side.jsonl, state.json, which to delete is to begin anew.
Short tables come last."""
import argparse
import json
import pathlib
import os
import signal
import subprocess
import sys
import time

import common
import side_by_side
import tables

AT_THE_END_S = 15  # for tables and for what has to be killed


class Part:
    """command: without Python in front where python is False. box_s: it is ended after that; needs_s: it is not
    started with less left."""

    def __init__(self, name, command, box_s, needs_s, tail_lines):
        self.name, self.command, self.box_s, self.needs_s, self.tail_lines = name, command, box_s, needs_s, tail_lines


def parts(arguments):
    python, gpu, bench = sys.executable, common.HERE, common.BUILD / "bench"
    recordings = [arguments.recordings] if arguments.recordings and arguments.recordings.is_dir() else []
    return [
        Part("planted", [python, common.ROOT / "tests" / "planted" / "run_planted.py", "--json",
                         arguments.out / "planted.json"], 420, 300, 20),
        Part("sides", [python, gpu / "side_by_side.py", "--minutes", arguments.minutes, "--raw",
                       arguments.out / "side_by_side.jsonl", "--resume", *arguments.options],
             60 * arguments.minutes + 180, 60, 0),
        Part("split", [bench / "bench_host_sampler", "2"], 120, 60, 40),
        Part("sampler", [python, gpu / "sampler_cost.py", "--seconds", "8"], 120, 70, 10),
        Part("drain", [bench / "bench_drain", "--records", "300000", "--rounds", "3", *recordings], 90, 20, 25),
        Part("knobs", [python, gpu / "knobs.py", "graph", "--workload", "graph", "--rounds", "4", "--blocks", "10",
                       "--ops", "256"], 240, 90, 20),
    ]


def end_group(process):
    """SIGTERM first: side_by_side.py prints its tables then."""
    for number, patience_s in ((signal.SIGTERM, 10), (signal.SIGKILL, 10)):
        try:
            os.killpg(process.pid, number)
            process.wait(patience_s)
            return
        except ProcessLookupError:
            return
        except subprocess.TimeoutExpired:
            continue


def run(part, left_s, out):
    """How it went: its exit code, or in words why there is none."""
    command = [str(word) for word in part.command]
    limit_s = min(part.box_s, left_s)
    if part.name == "sides":
        command[2:2] = ["--stop-after", f"{limit_s - AT_THE_END_S:.0f}"]
    with open(out / f"{part.name}.txt", "a", encoding="utf-8") as output:
        output.write("$ " + " ".join(command) + "\n")
        output.flush()
        try:
            process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, cwd=out,
                                       start_new_session=True)
        except OSError as error:
            output.write(f"{error}\n")
            return f"not started: {error.strerror}"
        try:
            return process.wait(limit_s)
        except subprocess.TimeoutExpired:
            return f"ended after {limit_s:.0f} s"
        finally:
            if process.poll() is None:
                end_group(process)


def print_results(chosen, state, out):
    for part in chosen:
        how = state.get(part.name)
        print(f"\n# {part.name}: " + ("left for the next call" if how is None else how["how"]))
        raw = out / "side_by_side.jsonl"
        if part.name == "sides" and raw.exists():
            print("\n".join(tables.short_table(side_by_side.read_raw([raw]))))
        elif how is not None:
            text = (out / f"{part.name}.txt").read_text(encoding="utf-8", errors="replace")
            print("\n".join(text.rstrip().splitlines()[-part.tail_lines:]))


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--out", type=pathlib.Path, default=common.BUILD / "bench-gpu-results")
    parser.add_argument("--seconds", type=float, default=1e9, help="for the whole call")
    parser.add_argument("--minutes", type=float, default=16, help="for side_by_side.py, over all calls")
    parser.add_argument("--only", help="parts, separated by commas")
    parser.add_argument("--skip", default="", help="parts, separated by commas")
    parser.add_argument("--recordings", type=pathlib.Path, help="bench_drain's; default: those beside the project")
    parser.add_argument("options", nargs="*", help="of side_by_side.py, after --")
    arguments = parser.parse_args()
    arguments.out = arguments.out.resolve()
    if arguments.recordings is None:
        beside = [base / "shared" / "cupti-recordings" for base in (common.ROOT, common.ROOT.parent)]
        arguments.recordings = next((path for path in beside if path.is_dir()), None)
    else:
        arguments.recordings = arguments.recordings.resolve()
    known = [part.name for part in parts(arguments)]
    only, skip = arguments.only.split(",") if arguments.only else known, [n for n in arguments.skip.split(",") if n]
    unknown = [name for name in (*only, *skip) if name not in known]
    if unknown:
        parser.error(f"unknown parts: {unknown}; there are {known}")
    return arguments, [part for part in parts(arguments) if part.name in only and part.name not in skip]


def main():
    arguments, chosen = parse_arguments()
    end = time.monotonic() + arguments.seconds
    arguments.out.mkdir(parents=True, exist_ok=True)
    state_path = arguments.out / "state.json"
    state = json.loads(state_path.read_text()) if state_path.exists() else {}
    left_over = False
    for part in chosen:
        if state.get(part.name, {}).get("done"):
            continue
        left_s = end - time.monotonic() - AT_THE_END_S
        if left_s < part.needs_s:
            left_over = True
            continue
        print(f"# {part.name} ...", file=sys.stderr, flush=True)
        began = time.monotonic()
        how = run(part, left_s, arguments.out)
        # What side_by_side.py was interrupted in goes on in the next call.
        done = part.name != "sides" or isinstance(how, int) and how != side_by_side.TO_BE_CONTINUED
        left_over = left_over or not done
        words = f"exit code {how}" if isinstance(how, int) else how
        state[part.name] = {"done": done, "how": f"{words}, {time.monotonic() - began:.0f} s"}
        state_path.write_text(json.dumps(state, indent=1) + "\n")
    print_results(chosen, state, arguments.out)
    sys.exit(side_by_side.TO_BE_CONTINUED if left_over else 0)


if __name__ == "__main__":
    main()
