# SPDX-License-Identifier: Apache-2.0
"""Runs a script under torch.profiler and exports its Chrome trace, as a user would who edits the script.

Usage: under_torch_profiler.py cuda|cpu+cuda|stacks TRACE.json SCRIPT [ARGUMENTS]"""
import runpy
import sys

from torch.profiler import ProfilerActivity, profile


def main():
    mode, trace, script = sys.argv[1:4]
    sys.argv = sys.argv[3:]
    activities = [ProfilerActivity.CUDA] if mode == "cuda" else [ProfilerActivity.CPU, ProfilerActivity.CUDA]
    with profile(activities=activities, with_stack=mode == "stacks") as prof:
        runpy.run_path(script, run_name="__main__")
    prof.export_chrome_trace(trace)


if __name__ == "__main__":
    main()
