# SPDX-License-Identifier: Apache-2.0
# Copyright the gpuprobe authors.
"""Every report in every format, of traces that the shipped library has written: complete, torn, growing, several."""
import os
import shutil
import subprocess
import sys
import time
import unittest

import harness

EXIT_CODE = 23  # scenario.py

SUBCOMMANDS = ("summary", "gaps", "waits", "kernels", "copies", "api", "info", "dump")

# Columns of a terminal: the first screens fit any, tables of many columns want a wide one.
WIDTH = {"summary": 120, "info": 120}
WIDE = 150

# What readers of the JSON may count on.
EVERYWHERE = {"schema", "partial"}
KEYS = {
    "summary": {"run", "inputs", "unusable", "notices", "devices", "waits", "verdict", "trust", "loss"},
    "gaps": {"inputs", "min_gap_ns", "devices", "gaps", "loss"},
    "waits": {"inputs", "rows", "waits", "loss"},
    "kernels": {"inputs", "total_ns", "wall_ns", "rows", "kernels", "loss"},
    "copies": {"inputs", "total_ns", "wall_ns", "rows", "operations", "loss"},
    "api": {"inputs", "total_ns", "wall_ns", "rows", "calls", "loss"},
    "info": {"inputs", "devices", "damage", "blind", "processes", "loss"},
    "dump": {"records", "unusable"},
}
SUMMARY_DEVICE_KEYS = {
    "device", "uuid", "name", "window_ns", "kernels", "copies", "sets", "busy_ns", "idle_ns", "breakdown", "gaps",
    "idle_causes"}
WAIT_KEYS = {"api", "where", "count", "total_ns", "device_busy_ns", "device_idle_ns", "idle_after_ns"}
CAUSES = {
    "synchronisation", "blocking_api", "launch_bound", "pageable_copy", "dependency", "launch_latency", "profiler",
    "other_process", "start", "end", "host", "unknown"}
VERDICTS = {
    "gpu_bound", "busy_but_empty", "input_wait", "request_wait", "host", "host_python", "host_native", "gil_wait",
    "cpu_starved", "launch_bound", "synchronisation", "blocking_api", "pageable_copy", "dependency", "communication",
    "periodic_stall", "warmup", "other_process", "profiler", "not_enough_data", "no_gpu_work"}


class ReportsTest(harness.EndToEndTest):
    def record(self, script, *options, expect=0):
        return self.run_sim([*options, "--", sys.executable, script], expect=expect)

    def record_everything(self):
        """A little of everything that CUPTI reports, on two devices."""
        self.record(os.path.join(harness.SOURCE, "tests", "sim", "record_scenario.py"), "--clock", "virtual")

    def record_bursts(self):
        self.record(os.path.join(harness.SCENARIOS, "bursts.py"), expect=EXIT_CODE)

    def check_every_report(self, paths=None, expect=harness.COMPLETE, rows_at_least=0):
        for subcommand in SUBCOMMANDS:
            with self.subTest(subcommand=subcommand):
                self.check_text(subcommand, self.report_text(subcommand, paths=paths, expect=expect))
                table = harness.csv_rows(self.report_text(subcommand, "--format", "csv", paths=paths, expect=expect))
                self.assertGreaterEqual(len(table), rows_at_least)
                report = self.report(subcommand, paths=paths, expect=expect)
                self.assertEqual(report["schema"], "gpuprobe.%s/1" % subcommand)
                self.assertEqual(report["partial"], expect == harness.PARTIAL)
                self.assertEqual((KEYS[subcommand] | EVERYWHERE) - set(report), set())

    def check_text(self, subcommand, text):
        self.assertTrue(text.endswith("\n"))
        self.assertNotIn("\x1b", text)  # no colour
        if subcommand != "dump":
            lines = text.split("\n")
            self.assertEqual([line for line in lines if len(line) > WIDTH.get(subcommand, WIDE)], [])
            self.assertTrue(lines[0].startswith("gpuprobe: run "), lines[0])


class CompleteTest(ReportsTest):
    def test_every_report_in_every_format(self):
        self.record_everything()
        self.check_every_report(rows_at_least=1)

    def test_summary_says_what_is_documented(self):
        self.record_everything()
        summary = self.report("summary")
        self.assertEqual([d["device"] for d in summary["devices"]], [0, 1])
        for device in summary["devices"]:
            self.assertEqual(SUMMARY_DEVICE_KEYS - set(device), set())
            self.assertEqual(set(device["window_ns"]), {"start", "end", "span"})
            self.assertEqual({"count", "zero_length", "sum_ns", "union_ns"} - set(device["kernels"]), set())
            self.assertEqual({"count", "bytes", "union_ns"} - set(device["copies"]), set())
            self.assertEqual(set(device["breakdown"]), {"compute_ns", "communication_ns", "copy_ns", "idle_ns"})
            self.assertEqual({"min_gap_ns", "count", "total_ns"} - set(device["gaps"]), set())
            for cause in device["idle_causes"]:
                self.assertIn(cause["cause"], CAUSES)
                self.assertEqual({"cause", "total_ns", "count", "sites"} - set(cause), set())
                for site in cause["sites"]:
                    self.assertEqual({"where", "total_ns"} - set(site), set())
        self.assertGreater(len(summary["waits"]), 0)
        for wait in summary["waits"]:
            self.assertEqual(WAIT_KEYS - set(wait), set())
        self.assertIn(summary["verdict"]["kind"], VERDICTS)
        self.assertEqual({"kind", "text", "upper_bound_speedup"} - set(summary["verdict"]), set())
        self.assertEqual({"cupti_dropped", "ring_dropped", "damaged_bytes"} - set(summary["loss"]), set())
        self.check_numbers(summary)

    def check_numbers(self, value, key=""):
        """Times and bytes are integers: no reader loses the last digits of a nanosecond."""
        if isinstance(value, dict):
            for name, item in value.items():
                self.check_numbers(item, name)
        elif isinstance(value, list):
            for item in value:
                self.check_numbers(item, key)
        elif key.endswith("_ns") or key in ("bytes", "count", "start", "end", "span"):
            self.assertIsInstance(value, int, key)

    def test_formats_agree(self):
        self.record_everything()
        for subcommand, rows_key, name, count, total, mangled in (
                ("kernels", "kernels", "Name", "Instances", "Total Time (ns)", "Mangled"),
                ("api", "calls", "Name", "Num Calls", "Total Time (ns)", None),
                ("copies", "operations", "Operation", "Count", "Total Time (ns)", None)):
            rows = self.report(subcommand)[rows_key]
            table = harness.csv_rows(self.report_text(subcommand, "--format", "csv"))
            self.assertEqual([(r[name], int(r[count]), int(r[total]), r[mangled] if mangled else "") for r in table],
                             [(r["name"], r["count"], r["total_ns"], r.get("mangled", "")) for r in rows])
        waits = self.report("waits")["waits"]
        table = harness.csv_rows(self.report_text("waits", "--format", "csv"))
        self.assertEqual([{k: v if k in ("api", "where", "detail") else int(v) for k, v in r.items() if (k, v) != ("detail", "")}
                          for r in table], waits)
        self.assertEqual(waits, self.report("summary")["waits"])

    def test_text_names_graphs_and_shortens_kernels(self):
        self.record_everything()
        text = self.report_text("kernels")
        self.assertRegex(text, r"(?m)  CUDA graph \d+$")
        self.assertRegex(text, r"(?m)  cutlass::Kernel2<gemm>$")

    def test_output_goes_to_a_file(self):
        self.record_everything()
        path = os.path.join(self.folder, "report.json")
        self.assertEqual(self.report_text("summary", "--format", "json", "--output", path), "")
        with open(path, encoding="utf-8") as file:
            self.assertEqual(harness.strict_json(file.read()), self.report("summary"))


class SeveralTest(ReportsTest):
    def test_files_and_folders_at_once(self):
        first, second = os.path.join(self.folder, "first"), os.path.join(self.folder, "second")
        for folder, times in ((first, 2), (second, 1)):
            self.run_folder = folder
            for _ in range(times):
                self.record_bursts()
        self.run_folder = first
        one, other = self.traces()
        for paths, inputs in (([first], 2), ([first, second], 3), ([one, second], 2), ([one, other, second], 3),
                              ([self.folder], 3), ([first, one], 2)):
            with self.subTest(paths=paths):
                summary = self.report("summary", paths=paths)
                self.assertEqual(len(summary["inputs"]), inputs)
                # All on one device: what each has recorded adds up.
                (device,) = summary["devices"]
                self.assertEqual(device["kernels"]["count"], inputs * 180)
                self.assertEqual(len(self.report("info", paths=paths)["processes"]), inputs)
        self.check_every_report(paths=[first, second])

    def test_one_path_too_many_is_partial(self):
        self.record_bursts()
        missing = os.path.join(self.folder, "nothing-here")
        summary = self.report("summary", paths=[self.run_folder, missing], expect=harness.PARTIAL)
        self.assertEqual([u["path"] for u in summary["unusable"]], [missing])
        self.report_text("summary", paths=[missing], expect=harness.UNUSABLE)


class GrowingHostTest(ReportsTest):
    """A host that runs until it is told to end."""

    def start_host(self):
        host = subprocess.Popen(
            [harness.RUN_SIM, "--", sys.executable, os.path.join(harness.SCENARIOS, "growing.py")],
            env=self.environment(GPUPROBE_FLUSH_MS="20"), cwd=self.folder, text=True, stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(host.communicate)
        self.addCleanup(host.kill)
        self.assertEqual(host.stdout.readline(), "running\n")
        return host

    def end_host(self, host):
        """The number of kernels that it launched."""
        out, err = host.communicate(timeout=harness.TIMEOUT_S)  # ends its standard input
        self.assertEqual(host.returncode, EXIT_CODE, err)
        return int(out)

    def wait_for(self, enough):
        """The summary of the growing trace, once enough(summary); the host goes on meanwhile."""
        until = time.monotonic() + harness.TIMEOUT_S
        while time.monotonic() < until:
            if self.traces() and os.path.getsize(self.traces()[0]) > 0:
                summary = self.report("summary", expect=None)
                if summary["devices"] and enough(summary):
                    return summary
            time.sleep(0.02)
        return self.fail("the trace does not grow")

    @staticmethod
    def kernels_of(summary):
        return summary["devices"][0]["kernels"]["count"]


class GrowingTest(GrowingHostTest):
    def test_a_growing_file(self):
        host = self.start_host()
        summary = self.wait_for(lambda s: self.kernels_of(s) >= 50)
        self.assertTrue(summary["partial"])
        (given,) = summary["inputs"]
        self.assertFalse(given["complete"])
        self.assertIn("still running", given["problem"])
        text = self.report_text("summary", expect=harness.PARTIAL)
        self.assertIn("PARTIAL", text.split("\n")[0])
        self.assertIn("still running", " ".join(text.split()))
        self.check_every_report(expect=harness.PARTIAL)
        self.wait_for(lambda s: self.kernels_of(s) > self.kernels_of(summary))
        launched = self.end_host(host)
        summary = self.report("summary")
        self.assertEqual(self.kernels_of(summary), launched)
        self.check_every_report()


class TornTest(GrowingHostTest):
    def test_a_torn_file(self):
        host = self.start_host()
        self.wait_for(lambda s: s["inputs"][0]["frames"] >= 8)
        self.end_host(host)
        (whole,) = self.traces()
        torn = os.path.join(self.folder, "torn.gpuprobe")
        shutil.copy(whole, torn)
        size = os.path.getsize(whole)
        os.truncate(torn, size * 6 // 10)
        before, after = self.dump(paths=[whole]), self.dump(paths=[torn], expect=harness.PARTIAL)
        # Whole frames survive, with all that is in them.
        frames = after.get("frame", [])
        self.assertEqual(frames, before["frame"][:len(frames)])
        self.assertGreaterEqual(len(frames), 1)
        kept = sum(frame["bytes"] for frame in frames)
        self.assertLessEqual(kept, size * 6 // 10)
        self.assertGreater(kept + before["frame"][len(frames)]["bytes"], size * 6 // 10)
        self.assertEqual(after["kernel"], [k for k in before["kernel"] if k in after["kernel"]])
        self.assertEqual(sum(f["records"] for f in frames),
                         sum(len(after.get(k, [])) for k in ("kernel", "call", "sync", "overhead", "cuda_event")))
        # The reports say what is missing.
        self.check_every_report(paths=[torn], expect=harness.PARTIAL)
        summary = self.report("summary", paths=[torn], expect=harness.PARTIAL)
        (given,) = summary["inputs"]
        self.assertFalse(given["complete"])
        self.assertEqual(given["damaged_bytes"], size * 6 // 10 - kept)
        self.assertEqual(summary["loss"]["damaged_bytes"], given["damaged_bytes"])
        self.assertIn("offset %d" % kept, given["problem"])
        text = self.report_text("summary", paths=[torn], expect=harness.PARTIAL)
        self.assertIn("PARTIAL", text.split("\n")[0])
        self.assertIn("offset %d" % kept, " ".join(text.split()))


class ProbeRunTest(ReportsTest):
    def probe_run(self, *options):
        command = [harness.RUN_SIM, "--no-preload", "--", harness.PROBE_RUN, "-o", self.run_folder, *options, "--",
                   sys.executable, os.path.join(harness.SCENARIOS, "bursts.py")]
        return subprocess.run(command, env=self.environment(), cwd=self.folder, capture_output=True, text=True,
                              timeout=harness.TIMEOUT_S, check=False)

    def test_the_exit_code_is_passed_and_the_report_printed(self):
        done = self.probe_run()
        self.assertEqual(done.returncode, EXIT_CODE)
        self.assertEqual(done.stdout, "")  # the host's, which prints nothing
        # The report is the one that probe-report prints.
        report = self.report_text("summary")
        self.assertIn("\nVERDICT", report)
        self.assertIn(report, done.stderr)
        self.assertEqual(self.report("summary")["devices"][0]["kernels"]["count"], 180)

    def test_the_report_goes_where_it_is_told(self):
        done = self.probe_run("--report-to", "stdout")
        self.assertEqual(done.returncode, EXIT_CODE)
        self.assertIn(self.report_text("summary"), done.stdout)
        self.assertNotIn("VERDICT", done.stderr)


if __name__ == "__main__":
    unittest.main()
