# SPDX-License-Identifier: Apache-2.0
"""probe-run as a user meets it: the real program, a stand-in library and a stand-in probe-report."""

import os
import pty
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

PROBE_RUN = os.environ["PROBE_RUN"]
FAKE_LIBRARY = os.environ["FAKE_LIBRARY"]

REPORT = """#!/bin/sh
echo "report of $*"
echo "report preload [$LD_PRELOAD]"
"""

# A child that counts the signals it gets and says so; ready when it has printed "ready".
COUNTER = """
import signal, sys, time
counts = {}
def count(number, frame):
    counts[number] = counts.get(number, 0) + 1
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP):
    signal.signal(number, count)
print("ready", flush=True)
deadline = time.monotonic() + 60
while not counts and time.monotonic() < deadline:
    time.sleep(0.01)
time.sleep(0.3)
print("counts", sorted((int(k), v) for k, v in counts.items()), flush=True)
sys.exit(7)
"""


class LauncherTest(unittest.TestCase):
    def setUp(self):
        self.root = tempfile.mkdtemp(prefix="probe-run-test-")
        self.addCleanup(shutil.rmtree, self.root)
        self.tree = self.install(os.path.join(self.root, "tree"))
        self.work = os.path.join(self.root, "work")
        os.mkdir(self.work)
        self.environment = {k: v for k, v in os.environ.items()
                            if k not in ("LD_PRELOAD", "GPUPROBE_OUT", "CUDA_INJECTION64_PATH")}
        # For a probe-run that is itself built with AddressSanitizer.
        self.environment["ASAN_OPTIONS"] = "verify_asan_link_order=0"

    def install(self, tree):
        os.makedirs(os.path.join(tree, "bin"))
        os.makedirs(os.path.join(tree, "lib"))
        shutil.copy(PROBE_RUN, os.path.join(tree, "bin/probe-run"))
        shutil.copy(FAKE_LIBRARY, os.path.join(tree, "lib/libgpuprobe.so"))
        report = os.path.join(tree, "bin/probe-report")
        with open(report, "w", encoding="ascii") as file:
            file.write(REPORT)
        os.chmod(report, 0o755)
        return tree

    def our_lib(self, tree=None):
        return os.path.realpath(os.path.join(tree or self.tree, "lib/libgpuprobe.so"))

    def command(self, *arguments):
        return [os.path.join(self.tree, "bin/probe-run"), *arguments]

    def run_it(self, *arguments, env=None, program=None, **more):
        command = self.command(*arguments)
        if program:
            command[0] = program
        return subprocess.run(command, cwd=self.work, env=dict(self.environment, **(env or {})),
                              capture_output=True, text=True, timeout=60, check=False, **more)

    def preload_of(self, *options, **more):
        result = self.run_it("-q", *options, "--", "sh", "-c", 'printf %s "$LD_PRELOAD"', **more)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout

    # The environment of the command.

    def test_library_beside_the_program_is_preloaded(self):
        self.assertEqual(self.preload_of(), self.our_lib())

    def test_other_preloads_keep_their_bytes_and_order(self):
        # Entries that do not exist: ld.so says so on the stderr of sh, which is not looked at here.
        self.assertEqual(self.preload_of(env={"LD_PRELOAD": "libx.so liby.so:libz.so"}),
                         "libx.so liby.so:libz.so:" + self.our_lib())

    def test_preload_given_by_option_is_the_one_extended(self):
        self.assertEqual(self.preload_of("-e", "LD_PRELOAD=libx.so", env={"LD_PRELOAD": "liby.so"}),
                         "libx.so:" + self.our_lib())

    def test_library_can_be_named(self):
        other = os.path.join(self.work, "libother.so")
        shutil.copy(FAKE_LIBRARY, other)
        self.assertEqual(self.preload_of("--lib", "libother.so"), os.path.realpath(other))

    def test_started_through_a_symbolic_link_it_finds_its_own_library(self):
        link = os.path.join(self.work, "pr")
        os.symlink(os.path.join(self.tree, "bin/probe-run"), link)
        self.assertEqual(self.preload_of(program=link), self.our_lib())

    def test_path_that_the_loader_would_split_gets_an_alias_that_goes_away(self):
        tree = self.install(os.path.join(self.root, "my tools: new"))
        result = self.run_it("--", sys.executable, "-c",
                             "import os; p = os.environ['LD_PRELOAD']; print(p); print(os.path.realpath(p));"
                             "print(os.path.realpath(p) in open('/proc/self/maps').read())",
                             program=os.path.join(tree, "bin/probe-run"), env={"TMPDIR": self.root})
        alias, target, mapped = result.stdout.splitlines()
        self.assertNotRegex(alias, "[ :]")
        self.assertEqual(target, self.our_lib(tree))
        self.assertEqual(mapped, "True")
        self.assertFalse(os.path.exists(os.path.dirname(alias)))

    def test_injection_door_leaves_preload_alone(self):
        result = self.run_it("-q", "--door=injection", "--", "sh", "-c",
                             'printf "%s %s" "$LD_PRELOAD" "$CUDA_INJECTION64_PATH"',
                             env={"LD_PRELOAD": "libx.so"})
        self.assertEqual(result.stdout, "libx.so " + self.our_lib())

    def test_injection_door_that_another_tool_uses_is_not_taken(self):
        result = self.run_it("--door=injection", "--", "echo", "ran",
                             env={"CUDA_INJECTION64_PATH": "/opt/other.so"})
        self.assertEqual((result.returncode, result.stdout), (125, ""))
        self.assertIn("/opt/other.so", result.stderr)

    def test_variables_are_passed_on(self):
        result = self.run_it("-q", "-e", "GPUPROBE_X=1", "-e", "GPUPROBE_X=2", "--", "sh", "-c",
                             'printf %s "$GPUPROBE_X"')
        self.assertEqual(result.stdout, "2")

    def output_of(self, *options, **more):
        return self.run_it("-q", *options, "--", "sh", "-c", 'printf %s "$GPUPROBE_OUT"', **more).stdout

    def test_output_is_a_new_name_in_the_working_directory(self):
        self.assertRegex(self.output_of(),
                         "^" + re.escape(os.path.realpath(self.work)) + r"/gpuprobe-\d{8}T\d{6}-\d+$")

    def test_output_that_is_given_becomes_absolute(self):
        work = os.path.realpath(self.work)
        self.assertEqual(self.output_of("-o", "mine"), work + "/mine")
        self.assertEqual(self.output_of(env={"GPUPROBE_OUT": "theirs"}), work + "/theirs")
        self.assertEqual(self.output_of("-o", "/abs", env={"GPUPROBE_OUT": "theirs"}), "/abs")
        self.assertEqual(self.output_of("-e", "GPUPROBE_OUT=third", env={"GPUPROBE_OUT": "theirs"}),
                         work + "/third")

    def test_nothing_is_created_by_the_launcher(self):
        self.run_it("true")
        self.assertEqual(os.listdir(self.work), [])

    # What the command sees besides: descriptors, signal mask, ignored signals, process group, input.

    def test_command_sees_the_process_state_that_it_would_see_alone(self):
        script = ("import os, signal\n"
                  "print(sorted(os.listdir('/proc/self/fd')))\n"
                  "for line in open('/proc/self/status'):\n"
                  "    name, _, value = line.partition(':')\n"
                  # Without 32 and 33, glibc's own, which a sanitizer's runtime resets.
                  "    if name in ('SigBlk', 'SigIgn', 'SigCgt'): print(name, hex(int(value, 16) & ~(3 << 31)))\n"
                  "print(os.getpgrp(), os.getcwd(), signal.getsignal(signal.SIGCHLD))\n")
        ignoring = {"preexec_fn": lambda: (signal.signal(signal.SIGCHLD, signal.SIG_IGN),
                                           signal.signal(signal.SIGHUP, signal.SIG_IGN),
                                           signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR2]))}
        plain = subprocess.run([sys.executable, "-c", script], cwd=self.work, env=self.environment,
                               capture_output=True, text=True, check=True, **ignoring)
        watched = self.run_it("--", sys.executable, "-c", script, **ignoring)
        self.assertEqual(watched.returncode, 0)
        self.assertEqual(watched.stdout, plain.stdout)

    def test_standard_input_and_output_are_the_commands(self):
        result = self.run_it("-q", "cat", input="through\n")
        self.assertEqual((result.stdout, result.stderr), ("through\n", ""))

    # How it ends.

    def test_exit_code_is_the_commands(self):
        for code in (0, 1, 3, 125, 126, 127, 255):
            self.assertEqual(self.run_it("sh", "-c", f"exit {code}").returncode, code)

    def test_death_by_signal_is_the_commands(self):
        for number in (signal.SIGTERM, signal.SIGKILL, signal.SIGABRT, signal.SIGINT, signal.SIGSEGV):
            result = self.run_it("sh", "-c", f"kill -{int(number)} $$")
            self.assertEqual(result.returncode, -number)

    def test_status_survives_an_ignored_sigchld(self):
        result = self.run_it("sh", "-c", "exit 9",
                             preexec_fn=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN))
        self.assertEqual(result.returncode, 9)

    def test_command_not_found_is_127_and_not_executable_126(self):
        result = self.run_it("no-such-command-here")
        self.assertEqual(result.returncode, 127)
        self.assertIn("no-such-command-here", result.stderr)
        plain = os.path.join(self.work, "plain")
        with open(plain, "w", encoding="ascii"):
            pass
        self.assertEqual(self.run_it("./plain").returncode, 126)
        self.assertEqual(self.run_it(self.work).returncode, 126)

    def test_own_failures_are_125_and_the_command_does_not_run(self):
        for arguments in (["--nonsense", "echo", "ran"], [], ["--lib", "/no/such.so", "echo", "ran"],
                          ["--report-to", "/no/such/folder/file", "echo", "ran"]):
            result = self.run_it(*arguments)
            self.assertEqual((result.returncode, result.stdout), (125, ""))
            self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)

    def test_output_that_is_a_file_is_an_own_failure(self):
        file = os.path.join(self.work, "a-file")
        with open(file, "w", encoding="utf-8"):
            pass
        result = self.run_it("-o", file, "echo", "ran")
        self.assertEqual((result.returncode, result.stdout), (125, ""))
        self.assertIn("Not a directory", result.stderr)

    def test_a_working_directory_that_is_gone_is_an_own_failure(self):
        script = 'mkdir gone && cd gone && rmdir ../gone && exec "$@"'
        command = ["sh", "-c", script, "sh", *self.command("echo", "ran")]
        result = subprocess.run(command, cwd=self.work, env=self.environment, capture_output=True, text=True,
                                timeout=60, check=False)
        self.assertEqual((result.returncode, result.stdout), (125, ""))
        self.assertIn("working directory is gone", result.stderr)

    def test_help_and_version_go_to_standard_output(self):
        self.assertIn("usage: probe-run", self.run_it("--help").stdout)
        self.assertRegex(self.run_it("--version").stdout, r"^probe-run \d+\.\d+\.\d+\n$")

    # Signals.

    def start_counter(self):
        process = subprocess.Popen(self.command("-q", "--", sys.executable, "-u", "-c", COUNTER),
                                   cwd=self.work, env=self.environment, stdout=subprocess.PIPE, text=True,
                                   start_new_session=True)
        self.addCleanup(process.stdout.close)
        self.assertEqual(process.stdout.readline(), "ready\n")
        return process

    def test_signals_sent_to_the_launcher_reach_the_command_once(self):
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGUSR1, signal.SIGHUP):
            process = self.start_counter()
            process.send_signal(number)
            self.assertEqual(process.stdout.readline(), f"counts [({int(number)}, 1)]\n")
            self.assertEqual(process.wait(timeout=60), 7)

    def test_interrupt_from_the_terminal_reaches_the_command_once(self):
        pid, terminal = pty.fork()
        if pid == 0:
            os.chdir(self.work)
            command = self.command("-q", "--", sys.executable, "-u", "-c", COUNTER)
            os.execve(command[0], command, self.environment)
        self.addCleanup(os.close, terminal)
        output = self.read_until(terminal, b"ready")
        os.write(terminal, b"\x03")
        output += self.read_until(terminal, b"counts [(2, 1)]")
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 7)

    def read_until(self, terminal, text):
        output = b""
        deadline = time.monotonic() + 60
        while text not in output:
            self.assertLess(time.monotonic(), deadline, output)
            try:
                output += os.read(terminal, 4096)
            except OSError:  # the other side is closed
                self.fail(f"{text!r} did not come: {output!r}")
        return output

    # The report.

    def record(self, *options, **more):
        return self.run_it("-o", "run", "-e", "FAKE_RECORD=1", *options, "--", "/bin/echo", "data", **more)

    def test_report_goes_to_standard_error(self):
        result = self.record()
        self.assertEqual(result.stdout, "data\n")
        self.assertEqual(result.stderr.splitlines()[0],
                         "report of " + os.path.realpath(self.work) + "/run")

    def test_report_runs_without_the_library(self):
        self.assertIn("report preload []", self.record().stderr)

    def test_report_can_go_to_standard_output_or_a_file(self):
        result = self.record("--report-to=stdout")
        self.assertRegex(result.stdout, "^data\nreport of ")
        self.assertEqual(result.stderr, "")
        shutil.rmtree(os.path.join(self.work, "run"))
        target = os.path.join(self.work, "report.txt")
        with open(target, "w", encoding="ascii") as file:
            file.write("x" * 100000)
        result = self.record("--report-to", "report.txt")
        self.assertEqual((result.stdout, result.stderr), ("data\n", ""))
        with open(target, encoding="ascii") as file:
            self.assertRegex(file.read(), r"\Areport of \S+\nreport preload \[\]\n\Z")

    def test_standard_error_that_is_a_file_is_appended_to_not_cut(self):
        log = os.path.join(self.work, "log")
        with open(log, "wb") as file:
            subprocess.run(self.command("-o", "run", "-e", "FAKE_RECORD=1", "sh", "-c", "echo before >&2"),
                           cwd=self.work, env=self.environment, stderr=file, check=True)
        with open(log, encoding="ascii") as file:
            self.assertRegex(file.read(), r"\Abefore\nreport of ")

    def test_no_report_names_the_directory(self):
        result = self.record("--no-report")
        self.assertEqual(result.stderr, f"probe-run: the trace is in {os.path.realpath(self.work)}/run\n")
        shutil.rmtree(os.path.join(self.work, "run"))
        self.assertEqual(self.record("--no-report", "--quiet").stderr, "")

    def test_report_is_printed_also_when_the_command_failed(self):
        result = self.run_it("-o", "run", "-e", "FAKE_RECORD=1", "--", "sh", "-c", "kill -9 $$")
        self.assertEqual(result.returncode, -9)
        self.assertIn("report of", result.stderr)

    def test_missing_report_program_is_said_and_the_status_kept(self):
        os.remove(os.path.join(self.tree, "bin/probe-report"))
        result = self.record(env={"PATH": "/nowhere"})
        self.assertEqual(result.returncode, 0)
        self.assertIn("cannot run probe-report", result.stderr)

    def test_nothing_recorded_is_one_line(self):
        result = self.run_it("/bin/echo", "data")
        self.assertEqual((result.returncode, result.stdout), (0, "data\n"))
        self.assertEqual(len(result.stderr.splitlines()), 1)
        self.assertIn("nothing was recorded", result.stderr)

    def test_older_traces_in_the_directory_are_mentioned(self):
        self.record()
        self.assertIn("held 1 trace files before", self.record().stderr)


if __name__ == "__main__":
    unittest.main()
