# SPDX-License-Identifier: Apache-2.0
# Copyright the gpuprobe authors.
"""Every shape that an export of Nsight Systems can have: what is missing is named, what is there is read."""
import os
import sqlite3
import sys
import unittest

sys.path.insert(0, os.path.join(os.environ["GPUPROBE_TEST_SOURCE_DIR"], "tests", "e2e"))
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import harness  # noqa: E402
import nsys_export  # noqa: E402

PREFIX = "CUPTI_ACTIVITY_KIND_"
# Of nsys_export.training(), in ns: union of each GPU's operations.
BUSY = {0: 321_000, 1: 221_000}
IDLE = {0: 79_000, 1: 60_000}
# Without these no operation of that kind can be placed in time.
NEEDED = {(PREFIX + t, c) for t in ("KERNEL", "MEMCPY", "MEMSET", "GRAPH_TRACE") for c in ("start", "end")}
OPERATIONS = {"KERNEL": ("kernels", 4), "MEMCPY": ("copies", 2), "MEMSET": ("sets", 2), "GRAPH_TRACE": ("graphs", 1)}


class NsysTest(harness.EndToEndTest):
    def setUp(self):
        super().setUp()
        self.path = os.path.join(self.folder, "trace.sqlite")

    def write(self, export, **options):
        return export.write(self.path, **options)

    def read(self, subcommand, *options, expect=harness.COMPLETE, paths=None):
        return self.report(subcommand, *options, expect=expect, paths=paths or [self.path])

    def absent(self, expect=harness.COMPLETE):
        return "; ".join(self.read("info", expect=expect)["processes"][0]["absent"])

    def counts(self, expect=harness.COMPLETE):
        totals = {"kernels": 0, "copies": 0, "sets": 0, "graphs": 0}
        for device in self.read("summary", expect=expect)["devices"]:
            for kind in totals:
                totals[kind] += device[kind]["count"]
        return totals

    def check_training(self, export, **options):
        """All of the scenario's figures."""
        self.write(export, **options)
        devices = self.read("summary")["devices"]
        self.assertEqual({d["device"]: d["busy_ns"] for d in devices}, BUSY)
        self.assertEqual({d["device"]: d["idle_ns"] for d in devices}, IDLE)
        self.assertEqual(self.counts(), {"kernels": 4, "copies": 2, "sets": 2, "graphs": 1})
        info = self.read("info")
        self.assertEqual(sum(d["operations_with_submission"] for d in info["devices"]), 9)
        self.assertEqual(info["folded_driver_calls"], 2)


class FullExportTest(NsysTest):
    def test_all_figures(self):
        self.check_training(nsys_export.training())
        info = self.read("info")
        self.assertEqual(info["processes"][0]["absent"], [])
        self.assertEqual([(p["pid"], p["host"], p["executable"], p["driver_version"]) for p in info["processes"]],
                         [(100, "box", "python3", 13000), (200, "box", "python3", 13000)])
        self.assertEqual([d["uuid"] for d in info["devices"]],
                         ["GPU-00000000-0000-0000-0000-%012d" % n for n in (0, 1)])
        self.assertEqual([d["sm_count"] for d in info["devices"]], [132, 132])
        self.assertIn("something is odd", " ".join(info["processes"][0]["warnings"]))
        self.assertEqual(os.listdir(self.folder), ["trace.sqlite"])

    def test_causes_and_waits(self):
        self.write(nsys_export.training())
        for device in self.read("summary")["devices"]:
            causes = {c["cause"]: c["total_ns"] for c in device["idle_causes"]}
            self.assertEqual(causes["synchronisation"], 40_000)
            self.assertEqual(causes["launch_latency"], IDLE[device["device"]] - 40_000)
        waits = [w for w in self.read("waits")["waits"] if w["api"] == "cudaStreamSynchronize"]
        self.assertEqual(sorted((w["count"], w["total_ns"], w["device_busy_ns"]) for w in waits),
                         [(1, 90_000, 80_000), (1, 90_000, 80_000)])

    def test_collectives_are_told_by_name(self):
        self.write(nsys_export.training())
        for device in self.read("summary")["devices"]:
            self.assertEqual(device["breakdown"]["communication_ns"], 100_000)

    def test_a_process_alone(self):
        self.write(nsys_export.training())
        seen = self.read("summary", "--process", "200")["devices"]
        self.assertEqual([d["busy_ns"] for d in seen if d["kernels"]["count"]], [BUSY[1]])

    def test_names_that_a_uri_gives_a_meaning(self):
        self.path = os.path.join(self.folder, "a?immutable=0#b%20c d.sqlite")
        self.check_training(nsys_export.training())


class MissingTest(NsysTest):
    def test_each_table_in_turn(self):
        for table in nsys_export.TABLES:
            with self.subTest(table=table):
                export = nsys_export.training()
                export.drop_table(table)
                self.write(export)
                kind = table.removeprefix(PREFIX)
                if kind in OPERATIONS:
                    counts = self.counts(expect=None)
                    self.assertEqual(counts.pop(OPERATIONS[kind][0]), 0)
                    self.assertEqual(sum(counts.values()), 9 - OPERATIONS[kind][1])
                else:
                    self.assertEqual(sum(self.counts().values()), 9)
                if table in {PREFIX + t for t in (*OPERATIONS, "RUNTIME", "SYNCHRONIZATION", "CUDA_EVENT", "OVERHEAD")}:
                    self.assertIn("no table " + table, self.absent(expect=None))

    def test_each_column_in_turn(self):
        for table, columns in nsys_export.TABLES.items():
            for column in columns.split():
                with self.subTest(table=table, column=column):
                    self.check_without_column(table, column)

    def check_without_column(self, table, column):
        export = nsys_export.training()
        export.drop_column(table, column)
        self.write(export)
        self.report_text("gaps", paths=[self.path], expect=None)
        counts = self.counts()
        if (table, column) in NEEDED:
            kind, count = OPERATIONS[table.removeprefix(PREFIX)]
            self.assertEqual(counts[kind], 0)
            self.assertEqual(sum(counts.values()), 9 - count)
        else:
            self.assertEqual(sum(counts.values()), 9)
        read = {PREFIX + "KERNEL": {"start", "end", "deviceId", "streamId", "globalPid", "demangledName", "gridX"},
                PREFIX + "RUNTIME": {"start", "end", "nameId", "globalTid", "correlationId", "returnValue"},
                PREFIX + "SYNCHRONIZATION": {"start", "end", "contextId", "syncType"},
                PREFIX + "GRAPH_TRACE": {"start", "graphId"}}
        if column in read.get(table, ()):
            absent = self.absent()
            self.assertIn(table, absent)
            self.assertRegex(absent, r"\b%s\b" % column)

    def test_launches_without_kernels_give_no_idle_figures(self):
        export = nsys_export.training()
        export.drop_table(PREFIX + "KERNEL")
        export.drop_table(PREFIX + "GRAPH_TRACE")
        self.write(export)
        info = self.read("info", expect=harness.PARTIAL)
        self.assertEqual(info["kernel_records"], "unavailable")
        self.assertIn("imported", info["kernel_records_reason"])

    def test_without_calls_all_causes_are_unknown(self):
        export = nsys_export.training()
        export.drop_table(PREFIX + "RUNTIME")
        self.write(export)
        summary = self.read("summary")
        for device in summary["devices"]:
            self.assertEqual({c["cause"] for c in device["idle_causes"] if c["total_ns"]}, {"unknown"})
        self.assertIn("no host calls", " ".join(summary["notices"]))
        self.assertEqual(self.read("waits")["waits"], [])

    def test_an_export_without_gpu_work(self):
        export = nsys_export.Export()
        export.drop_table(PREFIX + "KERNEL")
        self.write(export)
        self.assertEqual(self.read("summary")["devices"], [])

    def test_rows_without_a_process_go_to_the_one_whose_call_has_the_id(self):
        export = nsys_export.training()
        for row in export.rows[PREFIX + "RUNTIME"]:
            row["correlationId"] += 1000 * (row["globalTid"] >> 24 & 0xffffff)
        for kind in OPERATIONS:
            for row in export.rows[PREFIX + kind]:
                row["correlationId"] += 1000 * (row["globalPid"] >> 24 & 0xffffff)
            export.drop_column(PREFIX + kind, "globalPid")
        self.write(export)
        info = self.read("info")
        self.assertEqual(sorted(p["pid"] for p in info["processes"]), [100, 200])
        self.assertEqual(sum(d["operations_with_submission"] for d in info["devices"]), 9)

    def test_calls_without_a_thread_belong_to_the_only_process(self):
        export = nsys_export.many_kernels(5)
        export.drop_column(PREFIX + "RUNTIME", "globalTid")
        self.write(export)
        info = self.read("info")
        self.assertEqual([p["pid"] for p in info["processes"]], [300])
        self.assertEqual(info["devices"][0]["operations_with_submission"], 5)

    def test_names_that_the_table_of_strings_lacks(self):
        export = nsys_export.training()
        export.rows["StringIds"] = []
        self.write(export)
        names = {r["name"] for r in self.read("kernels")["kernels"]}
        self.assertTrue(any(n.startswith("kernel#") for n in names), names)


class VariantTest(NsysTest):
    def test_tables_with_a_version(self):
        export = nsys_export.training()
        for table in list(export.columns):
            export.rename(table, table + "_V2")
        self.check_training(export)

    def test_the_plain_name_wins_over_a_version(self):
        export = nsys_export.training()
        old = dict(export.rows[PREFIX + "KERNEL"][0])
        export.columns[PREFIX + "KERNEL_V3"] = nsys_export.columns_of(PREFIX + "KERNEL")
        export.rows[PREFIX + "KERNEL_V3"] = [old] * 3
        self.check_training(export)

    def test_views(self):
        self.check_training(nsys_export.training(), views=tuple(nsys_export.TABLES))

    def test_other_letters(self):
        export = nsys_export.training()
        for table in list(export.columns):
            export.rename(table, table.lower())
        self.check_training(export)

    def test_columns_in_another_order_and_new_ones(self):
        export = nsys_export.training()
        for table, columns in export.columns.items():
            export.columns[table] = ["inventedBefore"] + columns[::-1] + ["inventedAfter"]
        self.check_training(export)

    def test_numbers_as_text_and_as_floating_point(self):
        for declared in ("TEXT", "REAL"):
            with self.subTest(declared=declared):
                types = {c: declared for c in ("start", "end", "correlationId", "deviceId", "streamId", "nameId")}
                self.check_training(nsys_export.training(), types=types)

    def test_schema_of_2021(self):
        """No META_DATA tables, no green contexts, no clusters, no graphs, no event class for synchronisation."""
        export = nsys_export.training()
        for table in ("META_DATA_EXPORT", "META_DATA_CAPTURE", "DIAGNOSTIC_EVENT", "TARGET_INFO_CUDA_CONTEXT_INFO",
                      "TARGET_INFO_CUDA_DEVICE", PREFIX + "CUDA_EVENT", PREFIX + "OVERHEAD"):
            export.drop_table(table)
        for table in export.columns:
            for column in ("greenContextId", "clusterX", "clusterY", "clusterZ", "graphId", "graphExecId",
                           "deprecatedSyncType", "eventSyncId", "overheadType"):
                export.drop_column(table, column)
        export.drop_column("TARGET_INFO_GPU", "uuid")
        self.check_training(export)
        self.assertIn("schema not named", self.read("info")["processes"][0]["recorder"])

    def test_row_order_does_not_matter(self):
        export = nsys_export.training()
        for rows in export.rows.values():
            rows.reverse()
        self.check_training(export)


class IdentityTest(NsysTest):
    def test_correlation_ids_that_repeat_in_another_process(self):
        """Taken for the other process's, the launch would lie elsewhere: 7 us make the difference."""
        self.write(nsys_export.training())
        for gap in self.read("gaps", "--min-gap", "45us")["gaps"]:
            self.assertEqual(gap["next"]["pid"], {0: 100, 1: 200}[gap["device"]])
            self.assertEqual({p["cause"]: p["ns"] for p in gap["parts"]},
                             {"synchronisation": 40_000, "launch_latency": 10_000})

    def test_visible_devices_renumber(self):
        """Both processes call their GPU 0."""
        export = nsys_export.training()
        for table, rows in export.rows.items():
            for row in rows:
                if table.startswith(PREFIX) and "deviceId" in row:
                    row["deviceId"] = 0
        for row in export.rows["TARGET_INFO_CUDA_DEVICE"] + export.rows["TARGET_INFO_CUDA_CONTEXT_INFO"]:
            row["deviceId" if "deviceId" in row else "cudaId"] = 0
        self.check_training(export)

    def test_one_gpu_of_two_processes(self):
        export = nsys_export.training()
        for table, rows in export.rows.items():
            for row in rows:
                if table.startswith(PREFIX) and "deviceId" in row:
                    row["deviceId"] = 0
        export.drop_table("TARGET_INFO_CUDA_DEVICE")
        self.write(export)
        devices = self.read("summary")["devices"]
        self.assertEqual([d["kernels"]["count"] for d in devices], [4])

    def test_rows_without_correlation_are_no_pair(self):
        export = nsys_export.training()
        for table in (PREFIX + "RUNTIME", PREFIX + "KERNEL"):
            for row in export.rows[table]:
                row["correlationId"] = None
        self.write(export)
        info = self.read("info")
        self.assertEqual(sum(d["operations_with_submission"] for d in info["devices"]), 0)
        self.assertEqual(info["folded_driver_calls"], 0)

    def test_sessions_of_one_host_are_on_one_clock(self):
        other = os.path.join(self.folder, "other.sqlite")
        self.write(nsys_export.training())
        export = nsys_export.training()
        export.rows["TARGET_INFO_SESSION_START_TIME"][0]["utcEpochNs"] += 5_000_000
        export.write(other)
        summary = self.read("summary", paths=[self.path, other])
        self.assertEqual([d["window_ns"]["span"] for d in summary["devices"]], [5_400_000, 5_281_000])
        self.assertEqual([d["kernels"]["count"] for d in summary["devices"]], [4, 4])
        self.assertTrue(self.read("info", paths=[self.path, other])["aligned"])
        self.assertEqual([d["idle_ns"] for d in self.read("summary", paths=[other, self.path])["devices"]],
                         [d["idle_ns"] for d in summary["devices"]])

    def test_sessions_of_two_hosts_are_not_aligned(self):
        other = os.path.join(self.folder, "other.sqlite")
        self.write(nsys_export.training())
        export = nsys_export.training()
        export.rows["TARGET_INFO_SYSTEM_ENV"][0]["value"] = "another"
        export.write(other)
        self.assertFalse(self.read("info", paths=[self.path, other])["aligned"])


class VirtualTableTest(NsysTest):
    def test_names_made_by_code_are_not_read_and_that_is_said(self):
        self.write(nsys_export.training())
        database = sqlite3.connect(self.path)
        database.execute("DROP TABLE StringIds")
        database.execute("PRAGMA writable_schema=ON")
        database.execute("INSERT INTO sqlite_master VALUES ('table', 'StringIds', 'StringIds', 0, "
                         "'CREATE VIRTUAL TABLE StringIds USING fts4(id, value)')")
        database.commit()
        database.close()
        problem = self.read("info", expect=harness.PARTIAL)["inputs"][0]["problem"]
        self.assertIn("StringIds: a virtual table", problem)


class MarkersTest(NsysTest):
    def steps(self, mark, expect=harness.COMPLETE):
        self.write(nsys_export.marked_steps(mark))
        return self.read("steps", expect=expect)["devices"][0]

    def check(self, mark, marker):
        steps = self.steps(mark)
        self.assertEqual((steps["source"], steps["marker"], steps["count"]), ("nvtx", marker, 5))
        self.assertEqual([s["begin_ns"] for s in steps["steps"]],
                         [nsys_export.START + 1_000_000 + 100_000 * i for i in range(5)])

    def test_text_in_the_row(self):
        self.check(lambda e, step, begin, end: e.nvtx(100, begin, end, "step %d" % step), "step #")

    def test_registered_strings_and_start_end(self):
        self.check(lambda e, step, begin, end: e.nvtx(100, begin, end, registered="train_step",
                                                      kind=nsys_export.START_END), "train_step")

    def test_report_says_so(self):
        self.write(nsys_export.marked_steps(lambda e, step, begin, end: e.nvtx(100, begin, end, "train_step")))
        text = self.report_text("steps", paths=[self.path])
        self.assertIn("steps from NVTX range 'train_step'", text)

    def test_marks_and_unfinished_ranges_are_none(self):
        def mark(export, step, begin, end):
            export.nvtx(100, begin, None, "step")
            export.nvtx(100, begin, begin, "step", kind=34)
        self.assertEqual(self.steps(mark)["count"], 0)

    def test_processes_without_cuda_get_no_entry(self):
        def mark(export, step, begin, end):
            export.nvtx(900, begin, end, "step")
        self.assertEqual(self.steps(mark)["count"], 0)
        self.assertEqual([p["pid"] for p in self.read("info")["processes"]], [100])

    def test_impossible_times_are_said(self):
        def mark(export, step, begin, end):
            export.nvtx(100, begin, end, "step")
            export.nvtx(100, end, begin, "step")
        self.assertEqual(self.steps(mark, expect=harness.PARTIAL)["source"], "nvtx")
        self.assertIn("NVTX_EVENTS", self.read("info", expect=harness.PARTIAL)["inputs"][0]["problem"])

    def test_dump_has_them(self):
        def mark(export, step, begin, end):
            export.nvtx(100, begin, end, "step", domain=3)
        export = nsys_export.marked_steps(mark)
        export.nvtx(100, 0, None, "mine", kind=nsys_export.DOMAIN, domain=3)
        self.write(export)
        markers = [r for r in self.read("dump")["records"] if r["kind"] == "marker"]
        self.assertEqual([(m["name"], m["domain"], m["thread"]) for m in markers], [("step", "mine", 100)] * 5)


if __name__ == "__main__":
    unittest.main()
