# SPDX-License-Identifier: Apache-2.0
# Copyright the gpuprobe authors.
"""A training step for bench/gpu/stepper.py on the simulated GPU: one kernel a step."""
import os
import pathlib
import signal
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "sim"))
import gpusim  # noqa: E402

PRELOAD = ["json", "no_such_module"]
gpu = None


def make_step():
    global gpu
    gpu = gpusim.Gpu()

    def step():
        gpu.launch("step_kernel", 20_000)

    return step


def drain():
    gpu.sync()
    hang = os.environ.get("SIM_STEPS_HANG_UNDER")
    if hang and hang in os.environ.get("CUDA_INJECTION64_PATH", ""):
        signal.pause()
