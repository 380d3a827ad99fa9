# SPDX-License-Identifier: Apache-2.0
"""What is said, where, and to whom: nothing, except one line on a terminal."""

import os
import subprocess

import host

LAUNCH = host.host("contract_launch")
DESCRIPTORS = host.host("contract_descriptors")


class QuietTest(host.ContractTest):
    def setUp(self):
        super().setUp()
        self.need_simulation()

    def on_terminal(self, command, probe="preload", env=None, fault=None):
        environment = self.environment(probe, env=env, sim=True, fault=fault)
        status, output = host.run_on_terminal(command, environment, self.folder())
        return status, output.replace(b"\r\n", b"\n").decode().splitlines()

    # The line belongs to the process that chooses the directory.
    ROOT = {"GPUPROBE_OUT": None}

    def ours(self, lines):
        return [line for line in lines if line.startswith("gpuprobe: ")]

    def test_nothing_on_stderr_that_is_no_terminal(self):
        result = self.run_host([LAUNCH, "ms=100"], sim=True, env=self.ROOT)
        self.assertEqual(result.stderr, b"")
        self.assertRegex(result.stdout, rb"\Alaunched=\d+\n\Z")

    def test_nothing_even_when_recording_fails(self):
        for fault in ("cuptiSubscribe:fail:39", "cuptiActivityRegisterCallbacks:fail:999",
                      "cuptiActivityEnable:fail:35"):
            with self.subTest(fault=fault):
                result = self.run_host([LAUNCH, "ms=100"], sim=True, fault=fault, env=self.ROOT)
                self.assertEqual((result.status, result.stderr), (0, b""))

    def test_one_line_on_a_terminal_that_names_the_report(self):
        status, lines = self.on_terminal([LAUNCH, "ms=100"])
        self.assertEqual(status, 0)
        self.assertEqual(len(lines), 2, lines)
        self.assertRegex(lines[1], r"\Agpuprobe: recorded; read it with: probe-report .*/gpuprobe-\d{8}T\d{6}-\d+\Z")

    def test_one_line_on_a_terminal_that_says_why_nothing_was_recorded(self):
        status, lines = self.on_terminal([LAUNCH, "ms=100"], fault="cuptiSubscribe:fail:39")
        self.assertEqual(status, 0)
        self.assertEqual(len(self.ours(lines)), 1, lines)
        self.assertIn("another profiler", self.ours(lines)[0])

    def test_one_line_for_a_whole_tree_of_processes(self):
        script = f"{LAUNCH} ms=50 & {LAUNCH} ms=50 & wait; {LAUNCH} ms=50; true"
        status, lines = self.on_terminal(["sh", "-c", script])
        self.assertEqual(status, 0)
        self.assertLessEqual(len(self.ours(lines)), 1, lines)

    def test_no_line_on_a_terminal_from_processes_without_cuda(self):
        status, lines = self.on_terminal(["sh", "-c", "ls /nonexistent; python3 -c pass; echo x"])
        self.assertEqual((status, self.ours(lines)), (0, []))

    def test_verbose_speaks_where_stderr_is_no_terminal(self):
        result = self.run_host([LAUNCH, "ms=50"], sim=True, env={"GPUPROBE_VERBOSE": "1"})
        self.assertRegex(result.stderr, rb"\Agpuprobe: recorded; [^\n]*\n\Z")
        self.assertRegex(result.stdout, rb"\Alaunched=\d+\n\Z")

    def test_the_line_does_not_promise_a_file_that_could_not_be_written(self):
        # Shorter than a flush period: the end of the process is what notices.
        result = self.run_host([LAUNCH, "ms=50"], sim=True, out="/dev/null/x", env={"GPUPROBE_VERBOSE": "1"})
        self.assertRegex(result.stderr, rb"\Agpuprobe: off: the trace cannot be written \(errno 20, [^\n]*\): /dev/null/x/[^\n]*\n\Z")

    def test_a_data_file_on_descriptor_2_stays_clean(self):
        for verbose in ("0", "1"):
            with self.subTest(verbose=verbose):
                result = self.run_host([DESCRIPTORS, "data", "stderr"], sim=True,
                                       env=dict(self.ROOT, GPUPROBE_FLUSH_MS="50", GPUPROBE_VERBOSE=verbose))
                self.assertEqual((result.status, result.stderr), (0, b""))
                self.assertNotIn(b"gpuprobe", (result.folder / "data").read_bytes())

    def test_a_terminal_whose_descriptor_2_became_a_data_file_gets_no_line(self):
        status, lines = self.on_terminal([DESCRIPTORS, "data", "stderr"], env={"GPUPROBE_VERBOSE": "1"})
        self.assertEqual((status, self.ours(lines)), (0, []))
        self.assertNotIn(b"gpuprobe", (self.root / "run/data").read_bytes())

    def test_closed_standard_descriptors_stay_closed_and_get_no_line(self):
        folder, out = self.folder(), self.root / "out"
        script = f"exec {LAUNCH} ms=100 0<&- 1>&- 2>&-"
        with open(folder / "strange", "wb") as strange:
            process = subprocess.Popen(["sh", "-c", script], cwd=folder, stdout=strange, stderr=strange,
                                       env=self.environment("preload", out, {"GPUPROBE_VERBOSE": "1"}, sim=True))
            process.wait(timeout=30)
        self.assertEqual(os.path.getsize(folder / "strange"), 0)
        self.assertEqual([t.is_healthy for t in host.traces.in_folder(out)], [True])

    def test_a_pipe_without_a_reader_kills_nobody(self):
        reader, writer = os.pipe()
        folder, out = self.folder(), self.root / "out"
        process = subprocess.Popen([LAUNCH, "ms=200"], cwd=folder, stdout=subprocess.DEVNULL, stderr=writer,
                                   env=self.environment("preload", out, {"GPUPROBE_VERBOSE": "1"}, sim=True))
        os.close(reader)
        os.close(writer)
        self.assertEqual(process.wait(timeout=30), 0)
