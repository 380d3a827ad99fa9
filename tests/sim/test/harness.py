# SPDX-License-Identifier: Apache-2.0
# Copyright the gpuprobe authors.
"""Runs scenarios in processes of their own on the simulated GPU and collects what came out."""

import json
import os
import subprocess
import sys
import tempfile
import textwrap
import unittest

TEST = os.path.dirname(os.path.abspath(__file__))
SIM = os.path.dirname(TEST)
ROOT = os.path.dirname(os.path.dirname(SIM))
BUILD = os.path.abspath(os.environ.get("GPUPROBE_BUILD_DIR", os.path.join(ROOT, "build")))
RUN_SIM = os.path.join(SIM, "run-sim")
RECORDER = os.path.join(BUILD, "sim", "lib", "libsim_recorder.so")
RECORDINGS = os.path.join(ROOT, "tests", "testdata", "recordings")
sys.path.insert(0, SIM)
import recording  # noqa: E402

# Nothing blocks for ever without a test failing.
TIMEOUT_S = 120


class Outcome:
    def __init__(self, process, folder, version):
        self.code, self.stdout, self.stderr = process.returncode, process.stdout, process.stderr
        self.truth = self._json(os.path.join(folder, "truth.json"))
        path = os.path.join(folder, "out.cuptibuf")
        self.buffers = (
            recording.split_buffers(recording.read_raw(path)) if os.path.exists(path) else []
        )
        self.names = recording.read_names(os.path.join(folder, "out.names"))
        self._version = version

    @staticmethod
    def _json(path):
        if not os.path.exists(path):
            return None
        with open(path, encoding="utf-8") as file:
            return json.load(file)

    @property
    def records(self):
        return [
            recording.fields(kind, record)
            for buffer in self.buffers
            for kind, record in recording.split_records(buffer, self._version)
        ]

    @property
    def result(self):
        """The JSON that the scenario printed last."""
        return json.loads(self.stdout.strip().splitlines()[-1])

    def ops(self, kind=None):
        return [op for op in self.truth["ops"] if kind is None or op["kind"] == kind]


class SimTestCase(unittest.TestCase):
    maxDiff = None

    def run_command(
        self,
        command,
        *options,
        recorder=True,
        env=None,
        code=0,
        version=130001,
        clock="virtual",
        timeout=TIMEOUT_S,
    ):
        with tempfile.TemporaryDirectory() as folder:
            environment = {
                k: v
                for k, v in os.environ.items()
                if not k.startswith(("GPUSIM_", "SIM_RECORDER_"))
            }
            environment.update(
                GPUPROBE_BUILD_DIR=BUILD,
                GPUPROBE_LIB=RECORDER,
                PYTHONPATH=SIM + os.pathsep + TEST,
                SCENARIO_DIR=folder,
            )
            if recorder:
                environment["SIM_RECORDER_OUT"] = os.path.join(folder, "out")
            environment.update(env or {})
            arguments = [
                RUN_SIM,
                "--clock",
                clock,
                "--truth",
                os.path.join(folder, "truth.json"),
                "--cupti",
                str(version),
                *options,
            ]
            if not recorder:
                arguments.append("--no-preload")
            if command:
                arguments += ["--", *command]
            process = subprocess.run(
                arguments,
                env=environment,
                capture_output=True,
                text=True,
                timeout=timeout,
                check=False,
            )
            if code is not None:
                self.assertEqual(process.returncode, code, process.stdout + process.stderr)
            return Outcome(process, folder, version)

    def scenario(self, source, *options, **keywords):
        """Runs Python source that has `gpu` and prints JSON with out(...), if anything."""
        prelude = (
            "import ctypes, json, os, sys, threading, time\nfrom gpusim import Gpu, CudaError\n"
            "def out(value): print(json.dumps(value), flush=True)\n"
        )
        if "from cupti_client" not in source:
            prelude += "gpu = Gpu()\n"
        return self.run_command(
            [sys.executable, "-c", prelude + textwrap.dedent(source)], *options, **keywords
        )
