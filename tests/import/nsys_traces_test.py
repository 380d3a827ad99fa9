# SPDX-License-Identifier: Apache-2.0
# Copyright the gpuprobe authors.
"""Real exports of Nsight Systems against reference figures that were computed elsewhere, to the nanosecond."""
import json
import os
import re
import sys
import unittest

for folder in ("e2e", "import"):
    sys.path.insert(0, os.path.join(os.environ["GPUPROBE_TEST_SOURCE_DIR"], "tests", folder))
import expected_device  # noqa: E402
import harness  # noqa: E402

TRACES = os.path.join(harness.SHARED, "traces")
MIN_GAPS = ("1ms", "10us", "1us")


class TracesTest(harness.EndToEndTest):
    def setUp(self):
        super().setUp()
        if not os.path.exists(os.path.join(TRACES, "expected.json")):
            self.skipTest("no traces in " + TRACES)
        with open(os.path.join(TRACES, "expected.json"), encoding="utf-8") as file:
            self.files = json.load(file)["files"]

    def test_training_on_two_gpus(self):
        self.check("nsys_2gpu_training.sqlite", processes={"0": 144, "1": 145})

    def test_two_kernels(self):
        self.check("nsys_small_2kernels.sqlite", processes={"0": 91186})

    def check(self, name, processes):
        self.path, expected = os.path.join(TRACES, name), self.files[name]
        for min_gap in MIN_GAPS:
            summary = self.report_of("summary", "--min-gap", min_gap)
            self.assertFalse(summary["partial"])
            self.assertEqual([str(d["device"]) for d in summary["devices"]], sorted(expected["devices"]))
            for device in summary["devices"]:
                expected_device.check(self, device, expected["devices"][str(device["device"])], min_gap)
        self.check_processes(expected, processes)
        self.check_kernels(expected)
        self.check_waits(expected)
        self.check_coverage(expected)
        self.assertEqual(os.listdir(self.folder), [])

    def report_of(self, subcommand, *options):
        return self.report(subcommand, *options, paths=[self.path])

    def check_processes(self, expected, processes):
        """In these files each GPU is one process's: a process's share is all of its GPU, and none of the other."""
        for device, pid in processes.items():
            summary = self.report_of("summary", "--min-gap", "1us", "--process", str(pid))
            seen = {str(d["device"]): d for d in summary["devices"]}
            expected_device.check(self, seen.pop(device), expected["devices"][device], "1us")
            for other in seen.values():
                self.assertEqual(other["kernels"]["count"], 0)

    def check_kernels(self, expected):
        for number, device in expected["devices"].items():
            rows = [{"name": r["mangled"], "count": r["count"], "total_ns": r["total_ns"]}
                    for r in self.report_of("kernels", "--device", number)["kernels"]]
            rows.sort(key=lambda r: (-r["total_ns"], r["name"].encode()))
            self.assertEqual(len(rows), device["kernel_names"])
            self.assertEqual(rows[:3], device["top_kernels"])
            self.assertEqual(sum(r["total_ns"] for r in rows), device["kernel_sum_ns"])

    def check_waits(self, expected):
        totals = {}
        for row in self.report_of("waits")["waits"]:
            self.assertEqual(row["device_busy_ns"] + row["device_idle_ns"], row["total_ns"])
            if "Synchronize" in row["api"]:
                total = totals.setdefault(row["api"], {"count": 0, "total_ns": 0})
                total["count"] += row["count"]
                total["total_ns"] += row["total_ns"]
        self.assertEqual(totals, {re.sub(r"_v\d+$", "", name): total
                                  for name, total in expected["host_sync_calls"].items()})

    def check_coverage(self, expected):
        info = self.report_of("info")
        self.assertEqual({p["source"] for p in info["processes"]}, {"nsys"})
        self.assertIn("schema 3.2", info["processes"][0]["recorder"])
        without = sum(d["operations"] - d["operations_with_submission"] for d in info["devices"])
        rows = expected["rows"]
        self.assertEqual(sum(d["operations"] for d in info["devices"]),
                         sum(rows.get("CUPTI_ACTIVITY_KIND_" + t, 0) for t in ("KERNEL", "MEMCPY", "MEMSET")))
        # Kernels whose launch is not in the file, and the copies and sets of that kind.
        self.assertEqual(without - expected["kernels_without_host_row"], self.copies_without_call())

    def copies_without_call(self):
        import sqlite3
        database = sqlite3.connect("file:%s?immutable=1" % self.path, uri=True)
        calls = {(tid & ~0xffffff, correlation) for tid, correlation in
                 database.execute("SELECT globalTid, correlationId FROM CUPTI_ACTIVITY_KIND_RUNTIME")}
        tables = {name for name, in database.execute("SELECT name FROM sqlite_master")}
        missing = 0
        for table in {"CUPTI_ACTIVITY_KIND_MEMCPY", "CUPTI_ACTIVITY_KIND_MEMSET"} & tables:
            missing += sum(key not in calls for key in
                           database.execute("SELECT globalPid, correlationId FROM " + table))
        database.close()
        return missing


if __name__ == "__main__":
    unittest.main()
