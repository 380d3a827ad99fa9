# SPDX-License-Identifier: Apache-2.0
"""Where the trace goes, and what happens when it cannot go there."""

import os
import resource
import shutil
import subprocess
import sys
import time

import host
import traces

LAUNCH = host.host("contract_launch")
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
        # Not to be cut: the shorter path would be somebody else's.
        self.run_into(str(self.root / "long") + "/y" * 600)
        self.assertFalse((self.root / "long").exists())

    def test_a_long_relative_path_is_not_cut(self):
        name = "z" * 200
        result = self.run_host([LAUNCH, "ms=50"], sim=True, env={"GPUPROBE_OUT": f"{name}/{name}"})
        self.assertEqual(len(traces.in_folder(result.folder / name / name)), 1)

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
        process = self.start([LAUNCH, "ms=800", "pause_ms=1"], sim=True, out=out, env=QUICK, stdout=subprocess.PIPE,
                             stderr=subprocess.PIPE)
        deadline = time.monotonic() + 20
        while not list(out.glob("*.gpuprobe")) and time.monotonic() < deadline:
            time.sleep(0.01)
        shutil.rmtree(out)
        stdout, stderr = process.communicate(timeout=30)
        self.assertEqual((process.returncode, stderr), (0, b""))
        self.assertRegex(stdout, rb"\Alaunched=\d+\n\Z")

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
        """Runs the shell text `script` with a tmpfs at $M; LAUNCH stands for the host, started with the probe."""
        preload = f"LD_PRELOAD={host.LIBRARY} GPUPROBE_OUT=$M/out {LAUNCH} ms=600 pause_ms=1"
        text = f"mount -t tmpfs -o {options} none $M && " + script.replace("LAUNCH", preload)
        result = self.run_host(["unshare", "-m", "sh", "-c", text], "none", sim=True, env=dict(QUICK, M=self.mounted))
        self.assertEqual((result.status, result.stderr), (0, b""))
        self.assertRegex(result.stdout, rb"\Alaunched=\d+\n")
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
        self.run_mounted("size=48k", f"LAUNCH && cp -r $M/out {copy}")
        found = traces.in_folder(copy)
        self.assertEqual(len(found), 1)
        self.assertTrue(found[0].is_healthy, found[0].damage)
        self.assertEqual(found[0].torn, 0)
        self.assertFalse(found[0].is_closed)

    def test_there_are_no_inodes_left(self):
        self.run_mounted("size=1m,nr_inodes=2", "touch $M/last; LAUNCH")


class LimitTest(OutputTest):
    def test_a_limit_on_file_sizes_sends_the_host_no_signal(self):
        size = 16 << 10
        result = self.run_into(self.root / "out", ms=1000,
                               preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size)))
        trace = self.only_trace(result)
        self.assertEqual(trace.torn, 0)
        self.assertLessEqual(trace.path.stat().st_size, size)
        self.assertGreater(trace.kernels, 0)

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
