# SPDX-License-Identifier: Apache-2.0
# Copyright the gpuprobe authors.
"""A run without any capture beside one with it, as a measurement of what recording costs; and a gate for CI.

The runs are on the real clock. What must hold is a lower bound: a program that sleeps for a second takes one, however
busy the machine is. What must not hold has room for a machine that stands still for a while.
"""
import os
import sys
import unittest

import harness

EXIT_CODE = 23  # scenario.py
CONDITION_HOLDS = 4
STEPS = 10
MS = 1_000_000
RECORDED = ("kernel", "call", "sync", "context", "device", "stream", "sample", "sampled_process")


class DiffTest(harness.EndToEndTest):
    def record(self, name, sleep_ms, compute_ms, **extra):
        """Runs scenarios/paced.py; returns the folder of its run."""
        folder = os.path.join(self.folder, name)
        script = os.path.join(harness.SCENARIOS, "paced.py")
        self.run_sim(["--", sys.executable, script, str(sleep_ms), str(compute_ms)], expect=EXIT_CODE,
                     GPUPROBE_OUT=folder, **extra)
        return folder

    def record_off(self, name, sleep_ms, compute_ms):
        return self.record(name, sleep_ms, compute_ms, GPUPROBE_CAPTURE="off")

    def diff(self, a, b, *conditions, expect=harness.COMPLETE):
        options = ["--fail-if=" + condition for condition in conditions]
        report = self.report("diff", *options, paths=[a, b], expect=expect)
        self.assertEqual(report["schema"], "gpuprobe.diff/1")
        self.assertEqual([c["condition"] for c in report["conditions"]], list(conditions))
        return report

    def figures(self, report):
        return {figure["figure"]: figure for figure in report["figures"]}

    def check_lower_bounds(self, figure, side, at_least_ns):
        self.assertEqual(figure["unit"], "ns")
        self.assertGreaterEqual(figure[side], at_least_ns)


class CaptureOffTest(DiffTest):
    def test_off_leaves_a_file_that_lies_beside_a_recorded_run(self):
        off, on = self.record_off("off", 10, 10), self.record("on", 10, 10)
        self.assertEqual([name.endswith(".gpuprobe") for name in os.listdir(off)], [True])
        report = self.diff(off, on, "wall>+1000%", "cpu>+1000%")
        self.assertEqual([c["holds"] for c in report["conditions"]], [False, False])
        figures = self.figures(report)
        for side in ("a", "b"):
            self.check_lower_bounds(figures["wall"], side, STEPS * 20 * MS)
            self.check_lower_bounds(figures["cpu"], side, STEPS * 10 * MS)
        # What was not captured is not known, and is not 0.
        for name in ("window", "idle", "kernels"):
            self.assertIsNone(figures.get(name, {}).get("a"), name)
            self.assertIsNotNone(figures[name]["b"], name)

    def test_off_records_neither_gpu_nor_host(self):
        off = self.record_off("off", 1, 1)
        by_kind = self.dump(paths=[off])
        self.assertEqual(sum(frame["records"] for frame in by_kind["frame"]), 0)
        self.assertEqual([kind for kind in RECORDED if kind in by_kind], [])
        info = self.report("info", paths=[off])
        self.assertEqual(info["processes"][0]["off_reason"], "GPUPROBE_CAPTURE is off")

    def test_two_runs_without_capture_are_compared_by_their_duration(self):
        fast, slow = self.record_off("fast", 1, 1), self.record_off("slow", 150, 1)
        report = self.diff(fast, slow, "wall>1500ms", expect=CONDITION_HOLDS)
        self.assertTrue(report["conditions"][0]["holds"])
        self.assertFalse(report["partial"])
        self.assertEqual(set(self.figures(report)), {"wall", "cpu"})

    def test_a_figure_that_one_run_lacks_decides_nothing(self):
        off, on = self.record_off("off", 1, 1), self.record("on", 1, 1)
        self.assertEqual(self.report_text("diff", "--fail-if=window>+5%", paths=[off, on],
                                          expect=harness.UNUSABLE), "")


class GateTest(DiffTest):
    def test_a_slower_run_fails_on_what_must_hold(self):
        fast, slow = self.record("fast", 1, 1), self.record("slow", 150, 1)
        # Asleep for 1.5 s between the first kernel and the end, and 1.35 s before the last kernel.
        report = self.diff(fast, slow, "wall>1500ms", "window>1350ms", "wall>+100000%", expect=CONDITION_HOLDS)
        self.assertEqual([c["holds"] for c in report["conditions"]], [True, True, False])
        self.assertEqual(self.figures(report)["wall"]["improved"], False)

    def test_one_that_computes_longer_fails_on_cpu_time(self):
        off, slow = self.record_off("off", 1, 1), self.record("slow", 1, 60)
        self.diff(off, slow, "cpu>600ms", expect=CONDITION_HOLDS)
        self.diff(off, slow, "cpu<600ms", expect=harness.COMPLETE)


if __name__ == "__main__":
    unittest.main()
