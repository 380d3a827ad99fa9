# SPDX-License-Identifier: Apache-2.0
# Copyright the gpuprobe authors.
"""Real traces of PyTorch's profiler against reference figures that were computed elsewhere, to the nanosecond.

They lie in $GPUPROBE_TEST_SHARED/traces and are skipped where that is absent.
"""
import collections
import json
import os
import sys
import unittest

for folder in ("e2e", "import"):
    sys.path.insert(0, os.path.join(os.environ["GPUPROBE_TEST_SOURCE_DIR"], "tests", folder))
import expected_device  # noqa: E402
import harness  # noqa: E402

TRACES = os.path.join(harness.SHARED, "traces")
MIN_GAPS = ("1ms", "10us", "1us")
SYNC_KINDS = {1: "Event Sync", 2: "Stream Wait Event", 3: "Stream Sync", 4: "Context Sync"}


def expected_files():
    path = os.path.join(TRACES, "expected.json")
    if not os.path.exists(path):
        return {}
    with open(path, encoding="utf-8") as file:
        files = json.load(file)["files"]
    return {name: expected for name, expected in files.items() if expected["format"] == "chrome-json"}


class TracesTest(harness.EndToEndTest):
    def report_of(self, name, subcommand, *options):
        return self.report(subcommand, *options, paths=[os.path.join(TRACES, name)])

    def check(self, name, expected):
        for min_gap in MIN_GAPS:
            summary = self.report_of(name, "summary", "--min-gap", min_gap)
            self.assertFalse(summary["partial"])
            self.assertEqual([i["records"] for i in summary["inputs"]], [expected["events_total"]])
            self.assertEqual(sorted(str(d["ordinal"]) for d in summary["devices"]), sorted(expected["devices"]))
            for device in summary["devices"]:
                expected_device.check(self, device, expected["devices"][str(device["ordinal"])], min_gap)
            if not expected["devices"]:
                self.assertEqual(summary["verdict"]["kind"], "no_gpu_work")
        for device in summary["devices"]:
            self.check_kernels(name, device, expected["devices"][str(device["ordinal"])])
        self.check_coverage(name, expected)
        dumped = self.dumped(name)
        self.check_syncs(expected, dumped)
        self.check_waits(name, expected, dumped)
        self.check_every_report(name)

    def check_kernels(self, name, device, expected):
        report = self.report_of(name, "kernels", "--device", str(device["device"]))
        rows = [{"name": r["mangled"], "count": r["count"], "total_ns": r["total_ns"]} for r in report["kernels"]]
        rows.sort(key=lambda r: (-r["total_ns"], r["name"].encode()))
        self.assertEqual(len(rows), expected["kernel_names"])
        self.assertEqual(rows[:3], expected["top_kernels"])
        self.assertEqual(sum(r["total_ns"] for r in rows), expected["kernel_sum_ns"])

    def check_coverage(self, name, expected):
        info = self.report_of(name, "info")
        kernels = sum(d["kernel_count"] for d in expected["devices"].values())
        others = sum(d["copy_set_count"] for d in expected["devices"].values())
        seen = sum(d["operations_with_submission"] for d in info["devices"])
        missing = expected["kernels_without_host_row"]
        self.assertLessEqual(seen, kernels + others - missing)
        self.assertGreaterEqual(seen, kernels - missing)
        self.assertEqual([p["source"] for p in info["processes"]], ["kineto"])

    def dumped(self, name):
        records = collections.defaultdict(list)
        for record in self.report_of(name, "dump")["records"]:
            records[record["kind"]].append(record)
        return records

    @staticmethod
    def totals(pairs):
        totals = {}
        for key, record in pairs:
            total = totals.setdefault(key, {"count": 0, "total_ns": 0})
            total["count"] += 1
            total["total_ns"] += record["end_ns"] - record["start_ns"]
        return totals

    def check_syncs(self, expected, dumped):
        self.assertEqual(self.totals((SYNC_KINDS[r["type"]], r) for r in dumped["sync"]), expected["sync_rows"])

    def check_waits(self, name, expected, dumped):
        calls = [r for r in dumped["call"] if "Synchronize" in r["name"]]
        self.assertEqual(self.totals((r["name"], r) for r in calls), expected["host_sync_calls"])
        waits = collections.defaultdict(lambda: {"count": 0, "total_ns": 0})
        for row in self.report_of(name, "waits", "--top", "0")["waits"]:
            self.assertEqual(row["device_busy_ns"] + row["device_idle_ns"], row["total_ns"])
            if "Synchronize" in row["api"]:
                waits[row["api"]]["count"] += row["count"]
                waits[row["api"]]["total_ns"] += row["total_ns"]
        if expected["devices"]:  # waits are of devices
            self.assertEqual(dict(waits), expected["host_sync_calls"])

    def check_every_report(self, name):
        for subcommand in ("summary", "gaps", "waits", "kernels", "copies", "api", "info", "dump"):
            for form in ("text", "csv"):
                text = self.report_text(subcommand, "--format", form, paths=[os.path.join(TRACES, name)])
                self.assertTrue(text.strip(), subcommand)


class RanksTest(harness.EndToEndTest):
    RANKS = ("kineto_nccl_rank0.json.gz", "kineto_nccl_rank1.json.gz")

    def setUp(self):
        super().setUp()
        self.expected = expected_files()
        if not self.expected:
            self.skipTest("no traces in " + TRACES)

    def test_two_ranks_are_two_processes_on_two_devices(self):
        summary = self.report("summary", paths=[os.path.join(TRACES, name) for name in self.RANKS])
        self.assertFalse(summary["partial"])
        self.assertEqual(len(summary["devices"]), 2)
        for name, device in zip(self.RANKS, summary["devices"]):
            expected, = self.expected[name]["devices"].values()
            self.assertEqual(device["busy_ns"], expected["busy_union_ns"])
            self.assertEqual(device["kernels"]["count"], expected["kernel_count"])
            self.assertGreater(device["breakdown"]["communication_ns"], 0)
        info = self.report("info", paths=[os.path.join(TRACES, name) for name in self.RANKS])
        self.assertEqual([(p["rank"], p["world_size"]) for p in info["processes"]], [(0, 128), (1, 128)])

    def test_files_of_different_jobs_are_refused(self):
        for names in (("kineto_nccl_rank0.json.gz", "kineto_nccl_metadata.json.gz"),
                      ("kineto_nccl_rank1.json.gz", "kineto_nccl_metadata.json.gz"),
                      ("kineto_event_sync.json.gz", "kineto_simple_add_16s.json.gz"),
                      ("kineto_triton_cuda_driver.json.gz", "kineto_h100_bert_small.json.gz"),
                      ("kineto_event_sync.json.gz", "nsys_small_2kernels.sqlite")):
            paths = [os.path.join(TRACES, name) for name in names]
            self.assertEqual(self.report_text("summary", paths=paths, expect=harness.UNUSABLE), "")


def add_tests():
    for name, expected in expected_files().items():
        def test(self, name=name, expected=expected):
            self.check(name, expected)
        setattr(TracesTest, "test_" + name.split(".")[0], test)
    if not expected_files():
        def test_traces(self):
            self.skipTest("no traces in " + TRACES)
        TracesTest.test_traces = test_traces


add_tests()

if __name__ == "__main__":
    unittest.main()
