# SPDX-License-Identifier: Apache-2.0
"""Where the trace goes, and what happens when it cannot go there."""

import errno
import os
import pathlib
import resource
import shutil
import subprocess
import sys
import time

import host
import traces

LAUNCH = host.host("contract_launch")
OUTAGE = host.host("contract_outage")
QUICK = {"GPUPROBE_FLUSH_MS": "20"}


class OutputTest(host.ContractTest):
    def setUp(self):
        super().setUp()
        self.need_simulation()

    def run_into(self, out, ms=300, env=None, options=("pause_ms=1",), **more):
        """A host that works for some flush periods; it must not notice where its trace goes."""
        result = self.run_host([LAUNCH, f"ms={ms}", *options], sim=True, out=out,
                               env=dict(QUICK, **(env or {})), **more)
        self.assertEqual((result.status, result.stderr), (0, b""))
        self.assertRegex(result.stdout, rb"\Alaunched=\d+\n\Z")
        return result


class DirectoryTest(OutputTest):
    def test_it_is_made_with_its_parents(self):
        out = self.root / "a/b/c d"
        trace = self.only_trace(self.run_into(out))
        self.assertEqual(trace.path.parent, out)
        self.assertEqual(trace.end_reason, "exit")

    def test_by_default_it_stands_in_the_working_directory_and_is_named_by_time_and_process(self):
        result = self.run_host([LAUNCH, "ms=50"], sim=True, env={"GPUPROBE_OUT": None})
        directories = [name for name in result.files if name.endswith("/")]
        self.assertEqual(len(directories), 1)
        self.assertRegex(directories[0], r"\Agpuprobe-\d{8}T\d{6}-\d+/\Z")
        self.assertEqual(len([name for name in result.files if name.endswith(".gpuprobe")]), 1)

    def test_an_existing_file_is_never_overwritten(self):
        out = self.root / "out"
        for _ in range(3):
            self.run_host([LAUNCH, "ms=30"], sim=True, out=out, folder=self.folder())
        self.assertEqual(len(traces.in_folder(out)), 3)

    def test_a_file_stands_in_its_place(self):
        out = self.folder("place") / "out"
        out.write_text("not a directory")
        self.run_into(out)
        self.assertEqual(out.read_text(), "not a directory")

    def test_it_lies_below_a_file(self):
        self.run_into("/etc/hostname/traces")

    def test_it_cannot_be_made(self):
        self.run_into("/proc/traces")
        self.run_into("/sys/traces")

    def test_its_name_is_too_long(self):
        self.run_into(self.root / ("x" * 300))

    # What the name of the file needs.
    FILE_NAME_BYTES = 200
    PATH_MAX = 4096

    def path_of(self, length):
        """A path of so many bytes below the test's folder."""
        path = f"{self.root}/long"
        while len(path) < length:
            path += "/" + "y" * min(200, max(length - len(path) - 1, 1))
        return path[:length]

    def test_a_path_up_to_the_limit_of_the_system_works(self):
        for length in (999, 1001, 1023, 1024, 1025, 2000, self.PATH_MAX - self.FILE_NAME_BYTES):
            with self.subTest(length=length):
                out = self.path_of(length)
                trace = self.only_trace(self.run_into(out, ms=50, env={"GPUPROBE_VERBOSE": "0"}))
                self.assertEqual(str(trace.path.parent), out)
                self.assertEqual(trace.settings["GPUPROBE_OUT"], out)

    def test_a_path_beyond_it_is_refused_with_the_reason_and_never_cut(self):
        # Not to be cut: the shorter path would be somebody else's.
        for length in (self.PATH_MAX - 30, self.PATH_MAX - 1, self.PATH_MAX, self.PATH_MAX + 1, 9000):
            with self.subTest(length=length):
                result = self.run_host([LAUNCH, "ms=50"], sim=True, out=self.path_of(length),
                                       env={"GPUPROBE_VERBOSE": "1"})
                self.assertEqual(result.stderr, b"gpuprobe: off: the trace cannot be written: "
                                                b"the path of GPUPROBE_OUT is too long\n")
                self.assertFalse((self.root / "long").exists())

    def test_a_relative_path_that_gets_too_long_is_not_shorter_for_a_child_elsewhere(self):
        name = "/".join(["z" * 200] * 20)
        script = f"cd / && exec {LAUNCH} ms=50"
        folder = self.folder("f" * 100)
        result = self.run_host(["sh", "-c", script], sim=True, folder=folder,
                               env={"GPUPROBE_OUT": name, "GPUPROBE_VERBOSE": "1"})
        self.assertRegex(result.stderr, rb"\Agpuprobe: off: the trace cannot be written \(errno 20, [^\n]*\n\Z")
        self.assertFalse(pathlib.Path("/", "z" * 200).exists())

    def test_a_long_relative_path_is_not_cut(self):
        name = "/".join(["z" * 200] * 8)
        result = self.run_host([LAUNCH, "ms=50"], sim=True, env={"GPUPROBE_OUT": name})
        self.assertEqual(len(traces.in_folder(result.folder / name)), 1)

    def test_there_is_no_working_directory(self):
        before = set(os.listdir("/"))
        for name in (None, "relative"):
            with self.subTest(out=name):
                script = f"mkdir gone && cd gone && rmdir ../gone && exec {LAUNCH} ms=50"
                result = self.run_host(["sh", "-c", script], sim=True, env={"GPUPROBE_OUT": name})
                self.assertEqual((result.status, result.stderr), (0, b""))
        added = set(os.listdir("/")) - before
        self.assertEqual([name for name in added if "gpuprobe" in name or name == "relative"], [])

    def test_it_goes_away_while_the_host_runs(self):
        out = self.root / "out"
        process = self.start([LAUNCH, "ms=800", "pause_ms=1"], sim=True, out=out,
                             env=dict(QUICK, GPUPROBE_VERBOSE="1"), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        deadline = time.monotonic() + 20
        while not list(out.glob("*.gpuprobe")) and time.monotonic() < deadline:
            time.sleep(0.01)
        shutil.rmtree(out)
        stdout, stderr = process.communicate(timeout=30)
        self.assertRegex(stderr, rb"\Agpuprobe: recorded, but the trace was moved or removed meanwhile: "
                                 rb"[^\n]*\.gpuprobe\n\Z")
        self.assertEqual(process.returncode, 0)
        self.assertRegex(stdout, rb"\Alaunched=\d+\n\Z")

    def test_the_line_at_the_end_is_one_line_without_control_bytes(self):
        out = self.root / "a\x1b[31m\nb\x7f"
        result = self.run_host([LAUNCH, "ms=50"], sim=True, out=out, env={"GPUPROBE_VERBOSE": "1"})
        self.assertEqual(len(traces.in_folder(out)), 1)
        self.assertRegex(result.stderr, rb"\Agpuprobe: recorded; [^\x00-\x1f\x7f]*a\?\[31m\?b\?\n\Z")

    def test_the_host_changes_its_working_directory(self):
        script = f"cd /; exec {LAUNCH} ms=50"
        result = self.run_host(["sh", "-c", script], sim=True, env={"GPUPROBE_OUT": "mine"})
        self.assertEqual(len(traces.in_folder(result.folder / "mine")), 1)


class FileSystemTest(OutputTest):
    """Mounts of their own, in a namespace of their own."""

    def setUp(self):
        super().setUp()
        if os.geteuid() != 0:
            self.skipTest("mounting wants root")
        mounts = self.run_host(["unshare", "-m", "mount", "-t", "tmpfs", "none", "/mnt"], "none")
        if mounts.status != 0:
            self.skipTest("no mount namespaces here: " + mounts.stderr.decode().strip())
        self.mounted = self.folder("mounted")

    def run_mounted(self, options, script):
        """Runs the shell text `script` with a tmpfs at $M. LAUNCH stands for a host that is started with the probe,
        UNTIL for one that works until the file exists that is named next."""
        probe = f"LD_PRELOAD={host.LIBRARY} GPUPROBE_OUT=$M/out"
        script = script.replace("LAUNCH", f"{probe} {LAUNCH} ms=600 pause_ms=1")
        script = script.replace("UNTIL", f"{probe} {OUTAGE} none 0 -1 until")
        text = f"mount -t tmpfs -o {options} none $M && " + script
        result = self.run_host(["unshare", "-m", "sh", "-c", text], "none", sim=True, env=dict(QUICK, M=self.mounted))
        self.assertEqual((result.status, result.stderr), (0, b""))
        self.assertRegex(result.stdout, rb"\Alaunched=\d+")
        return result

    def test_the_file_system_is_read_only(self):
        self.run_mounted("size=1m,ro", "LAUNCH && ls -A $M")

    def test_the_file_system_becomes_read_only(self):
        # Only a file system without open writers becomes so: the trace is opened once and stays open.
        self.run_mounted("size=1m", "LAUNCH & P=$!; sleep 0.2; mount -o remount,ro $M 2>/dev/null; wait $P")

    def test_the_disk_is_full_from_the_start(self):
        self.run_mounted("size=64k", "head -c 60k /dev/zero > $M/fill; LAUNCH")

    def test_the_disk_fills_up_and_what_was_written_stays_readable(self):
        copy = self.root / "copy"
        result = self.run_mounted("size=48k", f"LAUNCH && cp -r $M/out {copy}")
        found = traces.in_folder(copy)
        self.assertEqual(len(found), 1)
        self.assertEqual((found[0].damage, found[0].torn), ([], 0))
        self.assertGreater(found[0].kernels, 0)
        # The closing frame is small: it may find room where the others did not.
        if found[0].is_closed:
            lost = found[0].losses[traces.WRITE_FAILED]
            self.assertGreaterEqual(found[0].records + lost, 2 * result.fields()["launched"])

    def test_a_full_disk_that_gets_room_again_is_written_to_again(self):
        copy = self.root / "copy"
        go = self.root / "go"
        self.run_mounted("size=1m", f"head -c 1m /dev/zero > $M/fill; UNTIL {go} & P=$!; "
                         "until ls $M/out/*.gpuprobe >$M/../ls 2>&1; do sleep 0.1; done; "
                         f"sleep 1; rm $M/fill; touch {go}; wait $P && cp -r $M/out {copy}")
        [trace] = traces.in_folder(copy)
        self.assertEqual((trace.damage, trace.torn, trace.end_reason), ([], 0, "exit"))
        self.assertIn(f"errno {errno.ENOSPC}, no space left", trace.warnings[0])
        self.assertGreater(trace.kernels, 0)

    def test_there_are_no_inodes_left(self):
        self.run_mounted("size=1m,nr_inodes=2", "touch $M/last; LAUNCH")


class OutageTest(OutputTest):
    """Calls on the trace file that fail for a while (the host stands in front of libc)."""

    FOREVER = 0

    def outage(self, call, number, failures, *more):
        result = self.run_host([OUTAGE, call, number, failures, *more], sim=True, env=QUICK)
        self.assertEqual((result.status, result.stderr), (0, b""))
        return result, result.fields()

    def assert_told(self, trace, number, times=1):
        told = [warning for warning in trace.warnings if "could not be written" in warning]
        self.assertIn(f"{times} time", told[-1])
        self.assertIn(f"errno {number},", told[-1])

    def test_without_a_descriptor_for_a_while_nothing_is_lost(self):
        for number in (errno.EMFILE, errno.ENFILE, errno.ENOSPC, errno.EIO, errno.EINTR):
            with self.subTest(errno=errno.errorcode[number]):
                result, fields = self.outage("open", number, 3)
                self.assertEqual(fields["failed"], 3)
                trace = self.only_trace(result)
                self.assertEqual((trace.kernels, dict(trace.losses), trace.end_reason),
                                 (fields["launched"], {}, "exit"))
                self.assert_told(trace, number)
                self.assertEqual(trace.settings["GPUPROBE_FLUSH_MS"], "20")

    def test_a_host_that_closes_the_trace_and_takes_all_descriptors_for_a_second(self):
        result, fields = self.outage("none", 0, 1000, "hold")
        trace = self.only_trace(result)
        self.assertEqual((trace.kernels, dict(trace.losses), trace.end_reason), (fields["launched"], {}, "exit"))
        self.assert_told(trace, errno.EMFILE)

    def check_written_again(self, call, number, failures):
        result, fields = self.outage(call, number, failures)
        self.assertEqual(fields["failed"], failures)
        [trace] = result.traces
        self.assertEqual((trace.damage, trace.torn, trace.end_reason), ([], 0, "exit"))
        # The one frame that was refused is a hole, and counted, where there was something in it; every kernel comes
        # with the call that launched it.
        lost = trace.losses[traces.WRITE_FAILED]
        self.assertGreaterEqual(trace.records + lost, 2 * fields["launched"])
        self.assertEqual([header["sequence"] for header in trace.headers],
                         list(range(1, len(trace.headers) + 1)))
        self.assertGreater(trace.kernels, 0)
        self.assert_told(trace, number)
        self.assertEqual(trace.settings["GPUPROBE_FLUSH_MS"], "20")

    def test_what_a_failing_write_costs_is_counted_and_the_rest_is_there(self):
        for number in (errno.ENOSPC, errno.EIO, errno.EDQUOT, errno.ENOMEM):
            with self.subTest(errno=errno.errorcode[number]):
                self.check_written_again("write", number, 3)

    def test_half_a_frame_is_cut_off_as_soon_as_that_can_be_done(self):
        # The rest of the frame, the cutting, and once more the cutting.
        self.check_written_again("half", errno.ENOSPC, 3)

    def test_a_failure_that_lasts_is_tried_with_growing_pauses(self):
        for call in ("open", "write"):
            with self.subTest(call=call):
                result, fields = self.outage(call, errno.ENOSPC, self.FOREVER)
                # 100 flush periods and more; ten doublings are 51 s.
                self.assertGreater(fields["failed"], 2)
                self.assertLess(fields["failed"], 12)
                self.assertEqual([trace.headers for trace in result.traces], [[]] if call == "write" else [])

    def test_a_failure_for_good_is_not_tried_again(self):
        for call, number in (("open", errno.EACCES), ("open", errno.EROFS), ("write", errno.EFBIG),
                             ("write", errno.EPERM)):
            with self.subTest(call=call, errno=errno.errorcode[number]):
                _, fields = self.outage(call, number, self.FOREVER)
                self.assertEqual(fields["calls"], 1)

    def test_a_disk_that_is_full_until_the_end_has_room_for_what_was_lost(self):
        # One frame at the start, none in between: all that was recorded is in the one that finds no room.
        result = self.run_host([OUTAGE, "space", errno.ENOSPC, self.FOREVER], sim=True,
                               env={"GPUPROBE_FLUSH_MS": "5000"})
        [trace], fields = result.traces, result.fields()
        self.assertEqual((trace.damage, trace.torn, trace.end_reason), ([], 0, "exit"))
        self.assertEqual(trace.kernels, 0)
        self.assertGreaterEqual(trace.losses[traces.WRITE_FAILED], 2 * fields["launched"])
        self.assert_told(trace, errno.ENOSPC)

    def test_the_end_of_the_host_is_the_last_chance_and_the_line_says_that_it_was_missed(self):
        result = self.run_host([OUTAGE, "write", errno.ENOSPC, self.FOREVER], sim=True,
                               env=dict(QUICK, GPUPROBE_VERBOSE="1"))
        self.assertRegex(result.stderr, rb"\Agpuprobe: off: the trace cannot be written \(errno 28, no space[^\n]*\n\Z")


class LimitTest(OutputTest):
    def test_a_limit_on_file_sizes_sends_the_host_no_signal(self):
        size = 16 << 10
        result = self.run_into(self.root / "out", ms=1000,
                               preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size)))
        [trace] = result.traces
        self.assertEqual((trace.damage, trace.torn, trace.end_reason), ([], 0, "exit"))
        self.assertLessEqual(trace.path.stat().st_size, size)
        self.assertGreater(trace.kernels, 0)

    def test_a_limit_that_even_the_closing_frame_exceeds_is_named(self):
        size = 512
        result = self.run_host([LAUNCH, "ms=300"], sim=True, env=dict(QUICK, GPUPROBE_VERBOSE="1"),
                               preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size)))
        self.assertRegex(result.stderr, rb"\Agpuprobe: off: the trace cannot be written "
                                        rb"\(errno 27, over the limit of file sizes\): [^\n]*\n\Z")
        self.assertEqual(result.status, 0)

    def test_what_a_limit_on_file_sizes_cost_is_in_the_closing_frame(self):
        size = 128 << 10
        result = self.run_into(self.root / "out", ms=2000, options=("threads=2", "batch=500"),
                               env={"GPUSIM_SET": "kernel_ns=100"},
                               preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size)))
        [trace], launched = result.traces, result.fields()["launched"]
        self.assertLessEqual(trace.path.stat().st_size, size)
        self.assertEqual((trace.damage, trace.torn, trace.end_reason), ([], 0, "exit"))
        lost = trace.losses[traces.SIZE_CAP]
        self.assertGreater(lost, 0)
        self.assertGreaterEqual(trace.records + lost + trace.losses[traces.CUPTI_DROPPED], 2 * launched)

    def test_a_limit_that_the_host_hits_itself_still_signals_it(self):
        script = ("import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000)); import signal;"
                  "signal.signal(signal.SIGXFSZ, signal.SIG_DFL); open('f', 'wb', 0).write(b'x' * 5000);"
                  "open('f', 'ab', 0).write(b'x')")
        self.assert_cannot_tell([sys.executable, "-c", script])

    def limited_trace(self, **env):
        result = self.run_into(self.root / "out", ms=4000, options=("threads=2", "batch=500"),
                               env={"GPUPROBE_MAX_TRACE_MB": "1", "GPUSIM_SET": "kernel_ns=100", **env})
        [trace] = result.traces
        size, launched = trace.path.stat().st_size, result.fields()["launched"]
        if size < 700_000:
            self.skipTest(f"this machine makes {size} bytes of trace in 4 s, less than the limit")
        # The closing frame, which says what was lost, may go beyond it.
        self.assertLess(size, (1 << 20) + 16384)
        self.assertEqual((trace.damage, trace.torn, trace.end_reason), ([], 0, "exit"))
        self.assertLess(trace.kernels, launched)
        lost = trace.losses[traces.SIZE_CAP]
        self.assertGreater(lost, 0)
        # Every kernel comes with the call that launched it; on a busy machine some find no buffer.
        self.assertGreaterEqual(trace.records + lost + trace.losses[traces.CUPTI_DROPPED], 2 * launched)

    def test_the_size_limit_of_the_trace_is_kept_and_the_loss_recorded(self):
        self.limited_trace()

    def test_the_last_frame_is_within_the_size_limit_too(self):
        self.limited_trace(GPUPROBE_FLUSH_MS="1500")  # so that much is staged when the host exits


class SpecialFileTest(OutputTest):
    def test_a_fifo_in_the_place_of_the_directory_blocks_nobody(self):
        fifo = self.folder("place") / "out"
        os.mkfifo(fifo)
        self.run_into(fifo)

    def test_a_directory_on_a_pipe_of_dev_fd_leads_nowhere(self):
        self.run_into("/dev/fd/1")
        self.run_into("/dev/null")
        self.run_into("/dev/full")
