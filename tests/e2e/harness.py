# SPDX-License-Identifier: Apache-2.0
# Copyright the gpuprobe authors.
"""What the end-to-end tests share: the shipped programs run as a user runs them, their output parsed strictly.

A test case gets a folder of its own below the system's, removed afterwards; nothing is written elsewhere.
"""
import csv
import glob
import io
import json
import os
import shutil
import subprocess
import sys
import tempfile
import unittest

SOURCE = os.environ["GPUPROBE_TEST_SOURCE_DIR"]
BUILD = os.environ["GPUPROBE_TEST_BUILD_DIR"]
SHARED = os.environ.get("GPUPROBE_TEST_SHARED", os.path.join(SOURCE, "..", "shared"))
RUN_SIM = os.path.join(SOURCE, "tests", "sim", "run-sim")
PROBE_REPORT = os.path.join(BUILD, "dist", "bin", "probe-report")
PROBE_RUN = os.path.join(BUILD, "dist", "bin", "probe-run")
SIM_STORM = os.path.join(BUILD, "sim", "bin", "sim_storm")
SCENARIOS = os.path.join(SOURCE, "tests", "e2e", "scenarios")

sys.path.insert(0, os.path.join(SOURCE, "tests", "sim"))

# Long enough for a machine that is busy with something else; nothing here takes more than seconds.
TIMEOUT_S = 120

COMPLETE, UNUSABLE, PARTIAL = 0, 1, 3  # probe-report's exit codes


def _reject_duplicates(pairs):
    keys = [key for key, _ in pairs]
    if len(keys) != len(set(keys)):
        raise ValueError("duplicate keys: %s" % keys)
    return dict(pairs)


def strict_json(text):
    """No NaN, no infinity, no key twice in one object."""
    def reject(constant):
        raise ValueError("not JSON: " + constant)
    return json.loads(text, parse_constant=reject, object_pairs_hook=_reject_duplicates)


def csv_rows(text):
    """Rows of a table as dictionaries; every line must have as many columns as the header."""
    lines = list(csv.reader(io.StringIO(text), strict=True))
    for line in lines:
        if len(line) != len(lines[0]):
            raise ValueError("%d columns under a header of %d: %s" % (len(line), len(lines[0]), line))
    return [dict(zip(lines[0], line)) for line in lines[1:]]


class EndToEndTest(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="gpuprobe-e2e-")
        self.addCleanup(shutil.rmtree, self.folder)
        self.run_folder = os.path.join(self.folder, "run")

    def environment(self, **extra):
        kept = {k: v for k, v in os.environ.items()
                if not k.startswith(("GPUPROBE_", "GPUSIM_", "CUDA_")) and k not in ("LD_PRELOAD", "GTEST_OUTPUT")}
        kept.update(GPUPROBE_BUILD_DIR=BUILD, GPUPROBE_OUT=self.run_folder, PYTHONDONTWRITEBYTECODE="1")
        kept.update(extra)
        return kept

    def run_sim(self, arguments, expect=0, **extra):
        """tests/sim/run-sim with these arguments; the host's exit code must be what it is without us."""
        done = subprocess.run([RUN_SIM] + arguments, env=self.environment(**extra), cwd=self.folder,
                              capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
        self.assertEqual(done.returncode, expect, done.stdout + done.stderr)
        return done

    def traces(self):
        return sorted(glob.glob(os.path.join(self.run_folder, "*.gpuprobe")))

    def report_text(self, *arguments, paths=None, expect=COMPLETE):
        """What probe-report prints; expect=None: of a trace that may or may not be complete."""
        done = subprocess.run([PROBE_REPORT] + list(arguments) + (paths or [self.run_folder]),
                              cwd=self.folder, capture_output=True, text=True, timeout=TIMEOUT_S, check=False)
        expected = (COMPLETE, PARTIAL) if expect is None else (expect,)
        self.assertIn(done.returncode, expected, done.stdout[-2000:] + done.stderr)
        return done.stdout

    def report(self, subcommand, *options, paths=None, expect=COMPLETE):
        """A report as parsed JSON."""
        text = self.report_text(subcommand, "--format", "json", *options, paths=paths, expect=expect)
        return strict_json(text)

    def dump(self, paths=None, expect=COMPLETE):
        """Records of the trace by kind."""
        by_kind = {}
        for record in self.report("dump", paths=paths, expect=expect)["records"]:
            by_kind.setdefault(record["kind"], []).append(record)
        return by_kind
