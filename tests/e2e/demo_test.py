# SPDX-License-Identifier: Apache-2.0
# Copyright the gpuprobe authors.
"""What a newcomer sees first: scripts/demo on the simulated GPU, and verdicts on loops with a planted bottleneck."""
import os
import re
import subprocess
import sys
import unittest

import harness

SIM_TRAIN = os.path.join(harness.SOURCE, "tests", "sim", "sim_train.py")
BREAKDOWN = re.compile(r"GPU 0 +compute \S+ % +communication \S+ % +copies \S+ % +idle \S+ % +of ")


class FirstScreenTest(harness.EndToEndTest):
    def check_first_screen(self, report):
        """The first ten lines: what was recorded, why the GPU was idle, how its time divides."""
        lines = report.split("\n")[:16]
        self.assertRegex(lines[0], r"^gpuprobe: run \S+, 1 process(?: and \d+ children)?, 1 GPU \(Simulated GPU 0\), .*, complete, nothing lost$")
        self.assertTrue(lines[2].startswith("VERDICT  "), lines)
        self.assertTrue(any(BREAKDOWN.match(line) for line in lines), "\n".join(lines))
        self.assertRegex(report, r"(?m)^  sums to .*, all of the idle time$")


class DemoTest(FirstScreenTest):
    def test_the_demo_works_from_any_folder(self):
        done = subprocess.run([os.path.join(harness.SOURCE, "scripts", "demo"), "--sim"], env=self.environment(),
                              cwd=self.folder, capture_output=True, text=True, timeout=harness.TIMEOUT_S, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.check_first_screen(done.stdout)
        self.assertEqual(os.listdir(self.folder), [])
        # The trace that it names is there, and is the one reported on.
        run = re.search(r"The trace is in (\S+);", done.stderr).group(1)
        self.assertEqual(os.path.realpath(run), os.path.realpath(os.path.join(harness.BUILD, "demo-run")))
        summary = self.report("summary", paths=[run])
        # 800 steps of 24 layers: 48 kernels forward, 24 backward, the optimizer.
        self.assertEqual(summary["devices"][0]["kernels"]["count"], 800 * 73)


class PlantedTest(FirstScreenTest):
    """On the virtual clock, so that the verdict does not depend on how busy the machine is."""

    def verdict_of(self, *options):
        # The sampler lives on the real clock: what it sees has nothing to do with virtual time.
        self.run_sim(["--clock", "virtual", "--", sys.executable, SIM_TRAIN, "--quiet", *options],
                     GPUPROBE_SAMPLE_HZ="0")
        self.check_first_screen(self.report_text("summary"))
        return self.report("summary")["verdict"]["kind"]

    def test_a_slow_loader_is_the_host(self):
        self.assertEqual(self.verdict_of("--mode", "input"), "host")

    def test_short_kernels_are_launch_bound(self):
        self.assertEqual(self.verdict_of("--mode", "launch", "--steps", "80"), "launch_bound")

    def test_long_kernels_are_gpu_bound(self):
        self.assertEqual(self.verdict_of("--mode", "gpu"), "gpu_bound")

    def test_of_two_the_larger(self):
        self.assertEqual(self.verdict_of("--mode", "mixed"), "host")


if __name__ == "__main__":
    unittest.main()
