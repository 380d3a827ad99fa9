# SPDX-License-Identifier: Apache-2.0
# Copyright the gpuprobe authors.
"""The judge of planted workloads passes what is right, and each thing that can be wrong fails by its name."""

import copy
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))
import judge  # noqa: E402

PLANTED = {
    "expected_kind": ["input_wait"],
    "expected_line": "train.py:88",
    "expected_lines": ["train.py:88", "train.py:90"],
    "behind_line": "train.py:12",
    "line_required": True,
    "share": 0.8,
    "steps": 50,
    "ms_per_step": 20.0,
}
SUMMARY = {
    "schema": "gpuprobe.summary/1",
    "partial": False,
    "devices": [
        {
            "window_ns": {"start": 0, "end": 1000, "span": 1000},
            "idle_ns": 900,
            "idle_causes": [
                {
                    "cause": "input_wait",
                    "total_ns": 780,
                    "sites": [
                        {"where": "train.py:88 in next_batch", "total_ns": 700},
                        {"where": "train.py:31 in warm_up", "total_ns": 80},
                    ],
                },
                {
                    "cause": "launch_bound",
                    "total_ns": 60,
                    "sites": [{"where": "train.py:41 in step", "total_ns": 60}],
                },
                {"cause": "unknown", "total_ns": 10, "sites": []},
                {"cause": "start", "total_ns": 50, "sites": []},
            ],
        }
    ],
    "verdict": {"kind": "input_wait", "text": "Input-bound.", "workers": ["train.py:12 in decode"]},
}


class JudgeTest(unittest.TestCase):
    def setUp(self):
        self.planted, self.summary = copy.deepcopy(PLANTED), copy.deepcopy(SUMMARY)
        self.causes = self.summary["devices"][0]["idle_causes"]

    def judge(self, text=""):
        return judge.judge(self.planted, self.summary, text)

    def problems(self, text=""):
        return self.judge(text).problems

    def test_what_is_right_has_no_problem(self):
        verdict = self.judge()
        self.assertEqual(verdict.problems, [])
        self.assertEqual(verdict.line_got, "train.py:88")
        self.assertAlmostEqual(verdict.idle_share, 0.9)
        self.assertAlmostEqual(verdict.explained, 840 / 850)
        self.assertAlmostEqual(verdict.reported_share, 0.78)

    def test_time_without_a_cpu_may_be_named_for_what_it_is(self):
        self.planted.update(share=1.0)
        self.assertEqual(self.problems(), ["share"])
        self.planted.update(starved=0.05)
        self.assertEqual(self.problems(), [])
        # It makes no share larger.
        self.planted.update(share=0.55, starved=0.5)
        self.assertEqual(self.problems(), ["share"])

    def test_another_kind_is_wrong(self):
        self.planted["expected_kind"] = ["cpu_starved", "host_python"]
        self.assertEqual(self.problems(), ["kind"])

    def test_every_kind_that_is_expected_is_right(self):
        self.planted["expected_kind"] = ["cpu_starved", "input_wait"]
        self.assertEqual(self.problems(), [])

    def test_another_line_is_wrong(self):
        self.causes[0]["sites"][0]["where"] = "train.py:89 in next_batch"
        self.assertEqual(self.problems(), ["line"])
        self.assertEqual(self.judge().line_got, "train.py:89")

    def test_a_line_that_begins_alike_is_another_line(self):
        self.causes[0]["sites"][0]["where"] = "train.py:888 in next_batch"
        self.assertEqual(self.problems(), ["line"])

    def test_another_file_that_ends_alike_is_another_file(self):
        self.causes[0]["sites"][0]["where"] = "pretrain.py:88 in next_batch"
        self.assertEqual(self.problems(), ["line"])

    def test_a_path_before_the_file_does_not_matter(self):
        self.causes[0]["sites"][0]["where"] = "src/models/train.py:88 in next_batch"
        self.assertEqual(self.problems(), [])

    def test_the_line_may_stand_in_the_verdict(self):
        self.causes[0]["sites"][0]["where"] = "queue.get (thread 17)"
        self.summary["verdict"]["text"] = "main thread waits (train.py:90 in next_batch)"
        self.assertEqual(self.problems(), [])

    def test_a_line_of_a_smaller_cause_or_site_does_not_count(self):
        self.planted["expected_lines"] = ["train.py:41", "train.py:31"]
        self.assertEqual(self.problems(), ["line"])

    def test_no_line_is_asked_for_where_none_is_required(self):
        self.planted.update(line_required=False, expected_line=None, expected_lines=[])
        self.causes[0]["sites"] = []
        self.assertEqual(self.problems(), [])

    def test_a_missing_behind_line_is_wrong(self):
        self.summary["verdict"]["workers"] = []
        self.assertEqual(self.problems(), ["behind train.py:12"])

    def test_the_behind_line_may_stand_below_any_key_about_others(self):
        del self.summary["verdict"]["workers"]
        for key in ("worker_stacks", "meanwhile", "gil_holders"):
            self.causes[0][key] = [{"who": "4 workers", "sites": [{"where": "train.py:12 in decode"}]}]
            self.assertEqual(self.problems(), [], key)
            del self.causes[0][key]
        self.causes[0]["example"] = "train.py:12 in decode"
        self.assertEqual(self.problems(), ["behind train.py:12"])

    def test_the_behind_line_may_stand_on_the_first_screen_only(self):
        self.summary["verdict"]["workers"] = []
        self.assertEqual(self.problems("\n\nmeanwhile train.py:12 decode"), [])
        self.assertEqual(self.problems("\n" * 40 + "train.py:12"), ["behind train.py:12"])

    def test_idle_time_of_host_and_unknown_is_not_explained(self):
        self.causes[1]["cause"] = "host"
        self.causes[2]["total_ns"] = 60
        self.assertEqual(self.problems(), ["explained"])

    def test_crumbs_of_idle_time_need_no_explanation(self):
        self.summary["devices"][0]["idle_ns"] = 10
        for cause in self.causes:
            cause.update(cause="unknown", total_ns=1, sites=[])
        self.planted.update(line_required=False, share=0.0)
        self.assertNotIn("explained", self.problems())

    def test_a_share_that_is_far_off_is_wrong(self):
        self.planted["share"] = 0.3
        self.assertEqual(self.problems(), ["share"])

    def test_launch_latency_counts_as_launch_bound(self):
        self.summary["verdict"]["kind"] = "launch_bound"
        self.causes[0]["cause"] = "launch_latency"
        self.assertAlmostEqual(self.judge().reported_share, 0.84)

    def test_native_code_that_a_line_of_python_calls_counts_with_it(self):
        self.summary["verdict"]["kind"] = "host_python"
        self.planted["expected_kind"] = ["host_python"]
        self.causes[0]["cause"], self.causes[1]["cause"] = "host_python", "host_native"
        self.assertAlmostEqual(self.judge().reported_share, 0.78)
        self.causes[1]["sites"][0]["where"] = "train.py:88 in next_batch"
        self.assertAlmostEqual(self.judge().reported_share, 0.84)
        # Once, also where both are what is expected.
        self.planted["expected_kind"] = ["host_python", "host_native"]
        self.assertAlmostEqual(self.judge().reported_share, 0.84)

    def test_a_verdict_that_is_no_cause_is_held_against_the_time_of_its_lines(self):
        self.summary["verdict"]["kind"] = "warmup"
        self.planted["expected_kind"] = ["warmup"]
        self.assertAlmostEqual(self.judge().reported_share, 0.7)

    def test_a_stall_is_held_against_all_idle_time(self):
        self.summary["verdict"]["kind"] = "periodic_stall"
        self.planted["expected_kind"] = ["periodic_stall"]
        self.assertAlmostEqual(self.judge().reported_share, 0.9)

    def test_busy_kinds_are_not_held_against_idle_time(self):
        self.summary["verdict"]["kind"] = "busy_but_empty"
        self.planted.update(expected_kind=["busy_but_empty"], share=0.1)
        self.assertIsNone(self.judge().reported_share)

    def test_a_partial_report_is_named(self):
        self.summary["partial"] = True
        self.assertEqual(self.problems(), ["partial"])

    def test_a_report_without_gpu_work_is_named(self):
        self.summary["devices"] = []
        self.assertIn("no GPU work", self.problems())


if __name__ == "__main__":
    unittest.main()
