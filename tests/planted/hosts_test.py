# SPDX-License-Identifier: Apache-2.0
# Copyright the gpuprobe authors.
"""Hosts that are hard to watch cannot tell that they are watched: a Python program that is hostile to
readers of its stacks, under every CPython that is found here, and a program full of blocking calls that
do not retry."""

import fcntl
import functools
import glob
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
import run_planted  # noqa: E402

SOURCE = pathlib.Path(os.environ["GPUPROBE_TEST_SOURCE_DIR"])
BUILD = pathlib.Path(os.environ["GPUPROBE_TEST_BUILD_DIR"])
RUN_SIM = SOURCE / "tests" / "sim" / "run-sim"
EINTR_HOST = BUILD / "tests" / "planted" / "eintr_host"
HOSTILE = HERE / "hostile_python.py"
SIM_PLANTED = HERE / "sim_planted.py"
HOSTILE_EXIT_CODE = 23
TIMEOUT_S = 120
OLDEST = (3, 9)


@functools.lru_cache(maxsize=None)
def interpreters():
    """{(3, 12): path, ...}: on the PATH, and where pyenv keeps them."""
    found = {}
    names = glob.glob(os.path.expanduser("~/.pyenv/versions/*/bin/python3"))
    for minor in range(OLDEST[1], 20):
        names.append(shutil.which("python3.%d" % minor))
    for name in [sys.executable, *filter(None, names)]:
        question = "import sys; print(*sys.version_info[:2])"
        done = subprocess.run([name, "-c", question], stdout=subprocess.PIPE, check=False)
        version = tuple(int(part) for part in done.stdout.split())
        if done.returncode == 0 and version >= OLDEST:
            found.setdefault(version, name)
    return found


def counts_by_call(stdout):
    """{call: {"calls": n, "interrupted": n, "early": n, "wrong": n}} of what eintr_host prints."""
    by_call = {}
    for line in stdout.splitlines():
        name, *words = line.split()
        by_call[name] = {key: int(value) for key, value in (word.split("=") for word in words)}
    return by_call


class HostCase(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        if not (BUILD / "sim" / "lib" / "libcuda.so.1").exists():
            self.skipTest("the simulated GPU was not built")
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="gpuprobe-hosts-"))
        self.addCleanup(shutil.rmtree, self.folder, ignore_errors=True)

    def arguments(self, command, probe):
        """The command line and environment of a host, watched or not."""
        environment = run_planted.clean_environment()
        environment.update(
            GPUPROBE_BUILD_DIR=str(BUILD),
            GPUPROBE_OUT=str(self.folder / "run"),
            PYTHONDONTWRITEBYTECODE="1",
        )
        options = [] if probe else ["--no-preload"]
        return [str(word) for word in (RUN_SIM, *options, "--", *command)], environment

    def run_host(self, command, probe):
        return run_planted.run_bounded(*self.arguments(command, probe), TIMEOUT_S)

    def start(self, command, probe):
        command_line, environment = self.arguments(command, probe)
        process = subprocess.Popen(command_line, env=environment, stdout=subprocess.PIPE, text=True)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.kill)
        return process

    def assert_readable(self):
        """The trace is there and whole."""
        done = subprocess.run(
            [BUILD / "dist" / "bin" / "probe-report", self.folder / "run"],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )
        self.assertEqual(done.returncode, 0, done.stdout)


class HostsTest(HostCase):
    def check_python(self, version):
        if version not in interpreters():
            self.skipTest("no CPython %d.%d here" % version)
        command = [interpreters()[version], HOSTILE, "--seconds", "0.2"]
        without, watched = self.run_host(command, False), self.run_host(command, True)
        self.assertEqual(without[0], HOSTILE_EXIT_CODE, without)
        self.assertEqual(watched, without)
        self.assert_readable()

    def unknown_python(self):
        """(path, home) of an interpreter that says it is 3.99: where its table of offsets begins stands the version."""
        for version, path in sorted(interpreters().items(), reverse=True):
            if version < (3, 13):
                break
            ask = "import sys; print(sys.executable, sys.base_prefix, sys.base_exec_prefix)"
            program, *home = subprocess.check_output([path, "-c", ask], text=True).split()
            image = pathlib.Path(program).resolve().read_bytes()
            table = re.compile(rb"xdebugpy[\x00-\xff]{2}" + bytes([version[1], 3, 0, 0, 0, 0]))
            if len(table.findall(image)) != 1:
                continue  # it is in a library of its own
            at = table.search(image).end() - 6
            copy = self.folder / "python3.99"
            copy.write_bytes(image[:at] + b"\x63" + image[at + 1 :])
            copy.chmod(0o755)
            return copy, ":".join(home)
        return None, None

    def test_a_report_on_a_python_of_unknown_version_says_so(self):
        python, home = self.unknown_python()
        if python is None:
            self.skipTest("no CPython here that publishes its offsets and is one file")
        command, environment = self.arguments([python, SIM_PLANTED, "tokenizing", "1"], True)
        environment.update(PYTHONHOME=home, PYTHONPATH=str(SOURCE / "tests" / "sim"))
        code, _, stderr = run_planted.run_bounded(command, environment, TIMEOUT_S)
        self.assertEqual(code, 0, stderr)
        report = [BUILD / "dist" / "bin" / "probe-report", self.folder / "run"]
        summary = json.loads(subprocess.check_output([*report, "--format", "json"]))
        [notice] = [n for n in summary["notices"] if n.startswith("no lines of Python: ")]
        self.assertRegex(notice, r"^no lines of Python: this Python version \(3\.99\.\d+\) is not known$")
        self.assertIn("Python whose lines could not be read", summary["verdict"]["headline"])
        self.assertIn("! " + notice, subprocess.check_output(report, text=True))

    def test_no_blocking_call_is_cut_short(self):
        code, stdout, stderr = self.run_host([EINTR_HOST], True)
        self.assertEqual((code, stderr), (0, ""))
        by_call = counts_by_call(stdout)
        self.assertGreater(len(by_call), 20)
        for name, counts in by_call.items():
            self.assertGreater(counts.pop("calls"), 0, name)
            self.assertEqual(counts, {"interrupted": 0, "early": 0, "wrong": 0}, name)
        self.assert_readable()

    def test_the_host_notices_when_its_calls_are_cut_short(self):
        """Stopping and continuing a process interrupts some of its calls, without any handler."""
        process = self.start([EINTR_HOST], False)
        for _ in range(10):
            time.sleep(0.1)
            process.send_signal(signal.SIGSTOP)
            # SIGCONT takes back a SIGSTOP that has not arrived.
            os.waitid(os.P_PID, process.pid, os.WSTOPPED)
            process.send_signal(signal.SIGCONT)
        stdout, _ = process.communicate(timeout=TIMEOUT_S)
        by_call = counts_by_call(stdout)
        self.assertGreater(by_call["total"]["interrupted"], 0)
        for name in ("epoll_wait", "sigtimedwait", "recv_limit"):
            self.assertGreater(by_call[name]["interrupted"], 0, stdout)


class HeldUpTest(HostCase):
    """What an unmodified host cannot know of itself: its waits for whoever holds it up from outside."""

    HELD_UP_S = 1.0

    def causes(self, *arguments, hold, let_go):
        """{(cause, place): seconds}, and the text of the report, of a host that is held up for a second."""
        process = self.start([sys.executable, HERE / "held_up_host.py", *arguments], True)
        self.assertEqual(process.stdout.readline(), "ready\n")
        hold(process)
        time.sleep(self.HELD_UP_S)
        let_go(process)
        process.communicate(timeout=TIMEOUT_S)
        self.assertEqual(process.returncode, 0)
        report = [BUILD / "dist" / "bin" / "probe-report", self.folder / "run"]
        done = subprocess.run([*report, "--format", "json"], stdout=subprocess.PIPE, check=True)
        causes = json.loads(done.stdout)["devices"][0]["idle_causes"]
        seconds = {
            (cause["cause"], site["where"]): site["total_ns"] / 1e9
            for cause in causes for site in cause["sites"]
        }
        text = subprocess.run(report, stdout=subprocess.PIPE, text=True, check=True).stdout
        return seconds, " ".join(text.split())

    def test_a_stopped_process_is_not_asleep(self):
        def stop(process):
            process.send_signal(signal.SIGSTOP)
            os.waitid(os.P_PID, process.pid, os.WSTOPPED)

        seconds, text = self.causes(
            "stop", hold=stop, let_go=lambda process: process.send_signal(signal.SIGCONT))
        stopped = [s for (cause, where), s in seconds.items() if cause == "unknown" and "was stopped" in where]
        self.assertEqual(len(stopped), 1, seconds)
        self.assertGreater(stopped[0], 0.9 * self.HELD_UP_S, seconds)
        self.assertIn("the process was stopped", text)

    def test_a_lock_of_a_file_is_no_slow_disk(self):
        path = self.folder / "lock"
        path.touch()
        with open(path) as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            _, text = self.causes(
                "flock", path, hold=lambda _: None, let_go=lambda _: fcntl.flock(held, fcntl.LOCK_UN))
        self.assertIn("waiting in flock for the lock of %s" % path, text)
        self.assertIn("waited for the lock of a file", text)
        self.assertNotIn("storage", text)
        self.assertNotIn("disk", text)


def add_python_tests():
    versions = set(interpreters()) | {(3, minor) for minor in range(OLDEST[1], 16)}
    for version in sorted(versions):

        def test(self, version=version):
            self.check_python(version)

        setattr(HostsTest, "test_hostile_python_%d_%d_cannot_tell" % version, test)


add_python_tests()


if __name__ == "__main__":
    unittest.main()
