# SPDX-License-Identifier: Apache-2.0
# Copyright the gpuprobe authors.
"""Damaged and foreign databases: what is readable is read, what is not is named, and nothing else happens."""
import os
import random
import sqlite3
import subprocess
import sys
import unittest

sys.path.insert(0, os.path.join(os.environ["GPUPROBE_TEST_SOURCE_DIR"], "tests", "e2e"))
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import harness  # noqa: E402
import nsys_export  # noqa: E402

KERNEL = "CUPTI_ACTIVITY_KIND_KERNEL"
RUNTIME = "CUPTI_ACTIVITY_KIND_RUNTIME"
SYNC = "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION"
PAGE = 512
HUGE = 2 ** 63 - 1


class DamageTest(harness.EndToEndTest):
    def setUp(self):
        super().setUp()
        self.path = os.path.join(self.folder, "trace.sqlite")

    def summary(self, expect=harness.PARTIAL):
        return self.report("summary", paths=[self.path], expect=expect)

    def problem(self, summary):
        return summary["inputs"][0]["problem"]

    def refused(self):
        """The sentence with which probe-report refuses the file."""
        done = subprocess.run([harness.PROBE_REPORT, "summary", self.path], capture_output=True, text=True,
                              timeout=harness.TIMEOUT_S, check=False)
        self.assertEqual(done.returncode, harness.UNUSABLE, done.stdout + done.stderr)
        self.assertEqual(done.stdout, "")
        self.assertEqual(done.stderr.count("\n"), 1, done.stderr)
        self.assertIn(self.path, done.stderr)
        return done.stderr


class RowsTest(DamageTest):
    """Single rows that cannot be true."""

    def check_row(self, table, values, text):
        export = nsys_export.training()
        export.rows[table][0].update(values)
        export.write(self.path)
        summary = self.summary()
        self.assertIn(table + ": 1 " + text, self.problem(summary))
        return summary

    def check_kernel(self, text="row with unusable times", **values):
        summary = self.check_row(KERNEL, values, text)
        gpu = summary["devices"][0]
        self.assertEqual(gpu["untimed"]["count"], 1)
        self.assertEqual((gpu["kernels"]["count"], gpu["busy_ns"]), (1, 221_000))

    def test_kernel_that_ends_before_it_starts(self):
        self.check_kernel(end=nsys_export.START - 1)

    def test_kernel_without_end(self):
        self.check_kernel(end=None)

    def test_kernel_without_start(self):
        self.check_kernel(start=None)

    def test_kernel_of_three_hundred_years(self):
        self.check_kernel(end=HUGE)

    def test_kernel_before_all_time(self):
        self.check_kernel(start=-HUGE)

    def test_kernel_whose_start_is_a_word(self):
        self.check_kernel(start="soon")

    def test_kernel_whose_start_is_a_blob(self):
        self.check_kernel(start=b"\x00\x01")

    def test_kernel_whose_start_is_a_fraction(self):
        self.check_kernel(start=0.5)

    def test_kernel_whose_start_is_infinite(self):
        self.check_kernel(start=float("inf"))

    def test_kernel_without_times(self):
        """CUPTI's way to say so: no damage."""
        export = nsys_export.training()
        export.rows[KERNEL][0].update(start=0, end=0)
        export.write(self.path)
        self.assertEqual(self.summary(harness.COMPLETE)["devices"][0]["untimed"]["count"], 1)

    def test_call_that_ends_before_it_starts(self):
        self.check_row(RUNTIME, {"end": 0}, "row with unusable times")

    def test_sync_that_ends_before_it_starts(self):
        self.check_row(SYNC, {"end": 0}, "row with unusable times")

    def test_value_of_a_wrong_type(self):
        summary = self.check_row(KERNEL, {"streamId": "seven"}, "value of a wrong type")
        self.assertEqual(summary["devices"][0]["busy_ns"], 321_000)

    def test_numbers_that_fit_nowhere(self):
        for table, columns in nsys_export.TABLES.items():
            numbers = [c for c in columns.split() if c not in nsys_export.TEXTS and c not in ("start", "end")]
            for value in (HUGE, -1):
                for column in numbers:
                    self.check_number(table, [column], value)
            for value in (-HUGE - 1, 2 ** 32):
                self.check_number(table, numbers, value)

    def check_number(self, table, columns, value):
        with self.subTest(table=table, columns=columns, value=value):
            export = nsys_export.training()
            for row in export.rows[table]:
                row.update(dict.fromkeys(columns, value))
            export.write(self.path)
            summary = self.summary(expect=None)
            self.assertEqual(sum(d["kernels"]["count"] for d in summary["devices"]), 4)

    def test_null_everywhere(self):
        for table, columns in nsys_export.TABLES.items():
            for column in columns.split():
                with self.subTest(table=table, column=column):
                    export = nsys_export.training()
                    for row in export.rows[table]:
                        row[column] = None
                    export.write(self.path)
                    self.summary(expect=None)


class PagesTest(DamageTest):
    """Pages of the file."""

    def setUp(self):
        super().setUp()
        self.count = 400
        nsys_export.many_kernels(self.count).write(self.path, page_size=PAGE)
        with open(self.path, "rb") as file:
            self.content = bytearray(file.read())

    def leaves_of(self, table):
        """Pages of a table's rows, by the tree that SQLite's file format describes."""
        database = sqlite3.connect(self.path)
        root, = database.execute("SELECT rootpage FROM sqlite_master WHERE name=?", (table,)).fetchone()
        database.close()
        found, queue = [], [root]
        while queue:
            page = queue.pop(0)
            at = (page - 1) * PAGE
            kind, cells = self.content[at], int.from_bytes(self.content[at + 3:at + 5], "big")
            if kind == 13:
                found.append(page)
                continue
            self.assertEqual(kind, 5)
            for i in range(cells):
                cell = int.from_bytes(self.content[at + 12 + 2 * i:at + 14 + 2 * i], "big")
                queue.append(int.from_bytes(self.content[at + cell:at + cell + 4], "big"))
            queue.append(int.from_bytes(self.content[at + 8:at + 12], "big"))
        return found

    def spoil(self, page, byte=0xff):
        self.content[(page - 1) * PAGE:page * PAGE] = bytes([byte]) * PAGE

    def save(self):
        with open(self.path, "wb") as file:
            file.write(self.content)

    def test_a_page_of_kernels_is_lost_and_no_other(self):
        leaves = self.leaves_of(KERNEL)
        self.assertGreater(len(leaves), 20)
        for page, byte in ((leaves[0], 0xff), (leaves[len(leaves) // 2], 0xff), (leaves[-1], 0)):
            with self.subTest(page=page):
                kept = bytes(self.content)
                self.spoil(page, byte)
                self.save()
                summary = self.summary()
                self.assertIn(KERNEL + ": ", self.problem(summary))
                self.assertIn("malformed", self.problem(summary))
                read = summary["devices"][0]["kernels"]["count"]
                self.assertLess(read, self.count)
                self.assertGreaterEqual(read, self.count - 2 * self.count // len(leaves) - 2)
                self.content = bytearray(kept)

    def test_nothing_is_concluded_from_a_table_with_holes(self):
        leaves = self.leaves_of(KERNEL)
        self.spoil(leaves[len(leaves) // 2])
        self.save()
        gpu = self.summary()["devices"][0]
        self.assertEqual({c["cause"] for c in gpu["idle_causes"] if c["total_ns"]}, {"unknown"})

    def test_a_page_of_calls_is_lost(self):
        leaves = self.leaves_of(RUNTIME)
        self.spoil(leaves[len(leaves) // 2])
        self.save()
        summary = self.summary()
        self.assertIn(RUNTIME + ": ", self.problem(summary))
        self.assertEqual(summary["devices"][0]["kernels"]["count"], self.count)

    def test_two_tables_are_both_named(self):
        for table in (KERNEL, RUNTIME):
            self.spoil(self.leaves_of(table)[3])
        self.save()
        problem = self.problem(self.summary())
        self.assertIn(KERNEL + ": ", problem)
        self.assertIn(RUNTIME + ": ", problem)
        damage = self.report("info", paths=[self.path], expect=harness.PARTIAL)["damage"]
        self.assertEqual([d["kind"] for d in damage], ["corrupt", "corrupt"])

    def test_pages_that_point_at_each_other(self):
        leaves = self.leaves_of(KERNEL)
        first, last = leaves[2], leaves[-2]
        self.content[(last - 1) * PAGE:last * PAGE] = self.content[(first - 1) * PAGE:first * PAGE]
        self.save()
        self.summary(expect=None)

    def test_cut_anywhere(self):
        whole = self.content
        for part in range(0, 40):
            with self.subTest(part=part):
                self.content = whole[:len(whole) * part // 40]
                self.save()
                self.run_any()

    def test_bytes_changed_anywhere(self):
        generator = random.Random(7)
        whole = self.content
        for seed in range(150):
            with self.subTest(seed=seed):
                self.content = bytearray(whole)
                for _ in range(generator.choice((1, 3, 30))):
                    at = generator.choice((generator.randrange(PAGE * 2), generator.randrange(len(whole))))
                    self.content[at] = generator.randrange(256)
                self.save()
                self.run_any()

    def run_any(self):
        """A report, a partial one, or a refusal in words; never a signal, never a report that is no JSON."""
        done = subprocess.run([harness.PROBE_REPORT, "summary", "--format", "json", self.path], capture_output=True,
                              text=True, timeout=harness.TIMEOUT_S, check=False)
        self.assertIn(done.returncode, (harness.COMPLETE, harness.UNUSABLE, harness.PARTIAL), done.stderr)
        if done.returncode == harness.UNUSABLE:
            self.assertIn(self.path, done.stderr)
        else:
            harness.strict_json(done.stdout)


class ForeignTest(DamageTest):
    """What begins like a SQLite database and is no export."""

    def make(self, *statements):
        database = sqlite3.connect(self.path)
        for statement in statements:
            database.execute(statement)
        database.commit()
        database.close()

    def test_database_without_a_table(self):
        self.make("CREATE TABLE a (b)", "DROP TABLE a")
        self.assertIn("it has no table", self.refused())

    def test_database_of_something_else(self):
        self.make("CREATE TABLE moz_bookmarks (id, title)")
        self.assertIn("no export of Nsight Systems", self.refused())

    def test_database_of_nvprof(self):
        self.make("CREATE TABLE StringTable (_id_, value)",
                  "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (_id_, start, end, deviceId, name)")
        self.assertIn("nvprof", self.refused())

    def test_header_alone(self):
        for tail in (b"", b"\0" * 84, b"\xff" * 4000, os.urandom(4000)):
            with self.subTest(tail=len(tail)):
                with open(self.path, "wb") as file:
                    file.write(b"SQLite format 3\0" + tail)
                self.assertIn("SQLite", self.refused())

    def test_encrypted(self):
        with open(self.path, "wb") as file:
            file.write(random.Random(1).randbytes(8192))
        self.assertIn("no gpuprobe trace", self.refused())

    def test_empty_file(self):
        open(self.path, "wb").close()
        self.assertIn("an empty file, no trace", self.refused())

    def test_one_export_among_others_that_are_none(self):
        good = os.path.join(self.folder, "good.sqlite")
        nsys_export.training().write(good)
        self.make("CREATE TABLE moz_bookmarks (id, title)")
        summary = self.report("summary", paths=[self.path, good], expect=harness.PARTIAL)
        self.assertEqual(summary["devices"][0]["busy_ns"], 321_000)
        self.assertIn("no export", summary["unusable"][0]["message"])

    def test_view_without_end(self):
        """Its rows never end; reading does."""
        nsys_export.training().write(self.path)
        self.make("DROP TABLE " + KERNEL,
                  "CREATE VIEW %s AS WITH RECURSIVE n(start, end) AS (SELECT 1, 2 UNION ALL SELECT start + 1, end + 1 "
                  "FROM n) SELECT start, end, 0 AS deviceId FROM n" % KERNEL)
        self.assertIn("more work than its size accounts for", self.problem(self.summary()))

    def test_view_that_searches_for_ever(self):
        nsys_export.training().write(self.path)
        self.make("DROP TABLE " + KERNEL,
                  "CREATE VIEW %s AS WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) "
                  "SELECT i AS start, i AS end FROM n WHERE i < 0" % KERNEL)
        self.assertIn("more work than its size accounts for", self.problem(self.summary()))

    def test_view_of_a_table_that_is_gone(self):
        nsys_export.training().write(self.path, views=(KERNEL,))
        self.make("DROP TABLE %s_STORED" % KERNEL)
        summary = self.summary(expect=None)
        self.assertIn(KERNEL, self.problem(summary) + " ".join(summary["notices"]))

    def test_virtual_table(self):
        nsys_export.training().write(self.path)
        try:
            self.make("DROP TABLE " + KERNEL, "CREATE VIRTUAL TABLE %s USING fts5(start, end)" % KERNEL)
        except sqlite3.OperationalError:
            self.skipTest("this Python's SQLite has no full-text search")
        self.assertEqual(sum(d["kernels"]["count"] for d in self.summary(expect=None)["devices"]), 0)


class UntouchedTest(DamageTest):
    """The user's file and its folder stay as they are."""

    def state(self):
        return {name: (os.stat(os.path.join(self.folder, name)).st_mtime_ns,
                       os.stat(os.path.join(self.folder, name)).st_size) for name in os.listdir(self.folder)}

    def test_log_beside_the_file(self):
        nsys_export.training().write(self.path)
        writer = sqlite3.connect(self.path)
        writer.execute("PRAGMA journal_mode=WAL")
        writer.execute("DELETE FROM %s WHERE start > 1100000" % KERNEL)
        writer.commit()
        self.addCleanup(writer.close)
        before = self.state()
        self.assertIn("trace.sqlite-wal", before)
        summary = self.summary()
        self.assertIn("trace.sqlite-wal lies beside it", self.problem(summary))
        self.assertEqual(sum(d["kernels"]["count"] for d in summary["devices"]), 4)
        self.assertEqual(self.state(), before)

    def test_write_ahead_mode_without_a_log(self):
        nsys_export.training().write(self.path)
        database = sqlite3.connect(self.path)
        database.execute("PRAGMA journal_mode=WAL")
        database.close()
        before = self.state()
        self.assertEqual(list(before), ["trace.sqlite"])
        self.summary(harness.COMPLETE)
        self.assertEqual(self.state(), before)

    def test_locked_by_a_writer(self):
        nsys_export.training().write(self.path)
        writer = sqlite3.connect(self.path, isolation_level=None)
        self.addCleanup(writer.close)
        writer.execute("BEGIN EXCLUSIVE")
        self.summary(harness.COMPLETE)
        writer.execute("DELETE FROM " + KERNEL)
        summary = self.summary()
        self.assertIn("trace.sqlite-journal lies beside it", self.problem(summary))

    def test_folder_and_file_that_cannot_be_written(self):
        nsys_export.training().write(self.path)
        os.chmod(self.path, 0o444)
        os.chmod(self.folder, 0o555)
        self.addCleanup(os.chmod, self.folder, 0o755)
        before = self.state()
        self.summary(harness.COMPLETE)
        self.assertEqual(self.state(), before)


if __name__ == "__main__":
    unittest.main()
