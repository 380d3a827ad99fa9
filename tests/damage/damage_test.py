# SPDX-License-Identifier: Apache-2.0
"""probe-report on a small trace cut at every byte and with every byte flipped.

Each run must end by itself with one of the documented exit codes. 0 is allowed only for a report that equals
the whole one (or says that the file holds no record yet): a damaged file may never look like a shorter
healthy one. 3 must say what is missing, 1 must
name the file.
"""
import concurrent.futures
import json
import os
import pathlib
import subprocess
import tempfile
import unittest

SOURCE = pathlib.Path(os.environ["GPUPROBE_TEST_SOURCE_DIR"])
REPORT = pathlib.Path(os.environ["GPUPROBE_TEST_BUILD_DIR"]) / "dist" / "bin" / "probe-report"
BUILD = pathlib.Path(os.environ["GPUPROBE_TEST_BUILD_DIR"])


def record_small_trace(folder):
    """A trace of the shipped library: two frames, 20 kernels on the simulated GPU."""
    env = dict(os.environ, GPUPROBE_BUILD_DIR=str(BUILD), GPUPROBE_OUT=str(folder / "run"))
    subprocess.run([SOURCE / "tests" / "sim" / "run-sim", "--clock", "virtual", "--",
                    BUILD / "sim" / "bin" / "sim_storm", "--threads", "1", "--kernels", "20"],
                   env=env, stdout=subprocess.DEVNULL, check=True)
    [trace] = (folder / "run").iterdir()
    return trace.read_bytes()


def report(path):
    done = subprocess.run([REPORT, "summary", "--format", "json", path], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, timeout=60, check=False)
    return done.returncode, done.stdout, done.stderr.decode()


def content(stdout, path):
    """The report without what legitimately depends on the file's name."""
    return stdout.decode().replace(str(path), "FILE").replace(path.name, "FILE").replace(path.stem, "RUN")


class Damage(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        cls.root = pathlib.Path(cls.folder.name)
        cls.whole = record_small_trace(cls.root)
        path = cls.root / "whole.gpuprobe"
        path.write_bytes(cls.whole)
        code, stdout, stderr = report(path)
        assert code == 0, stderr
        cls.expected = content(stdout, path)

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def check(self, label, data):
        path = self.root / f"{label}.gpuprobe"
        path.write_bytes(data)
        code, stdout, stderr = report(path)
        path.unlink()
        if code == 0:
            # A file that ends before its first record is an empty capture, and is called that.
            empty = any("empty capture" in notice for notice in json.loads(stdout)["notices"])
            if content(stdout, path) != self.expected and not empty:
                return f"{label}: exit 0 with another report"
        elif code == 3:
            parsed = json.loads(stdout)
            problems = [i["problem"] for i in parsed["inputs"]]
            if parsed["partial"] is not True or not any(problems):
                return f"{label}: exit 3 without saying what is missing"
        elif code == 1:
            if str(path) not in stderr:
                return f"{label}: exit 1 without naming the file: {stderr!r}"
        else:
            return f"{label}: exit {code}: {stderr!r}"
        return None

    def run_all(self, cases):
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            problems = [p for p in pool.map(lambda c: self.check(*c), cases) if p]
        self.assertEqual([], problems[:20])

    def test_cut_at_every_byte(self):
        # Cut at 0 it is an empty capture, which is no damage.
        self.run_all([(f"cut{n}", self.whole[:n]) for n in range(1, len(self.whole))])

    def test_no_cut_looks_complete(self):
        for n in (1, len(self.whole) // 3, len(self.whole) - 5, len(self.whole) - 1):
            path = self.root / f"prefix{n}.gpuprobe"
            path.write_bytes(self.whole[:n])
            self.assertNotEqual(0, report(path)[0], n)

    def test_every_byte_flipped(self):
        def flipped(n, mask):
            return self.whole[:n] + bytes([self.whole[n] ^ mask]) + self.whole[n + 1:]
        self.run_all([(f"flip{n}", flipped(n, 0xFF)) for n in range(len(self.whole))])

    def test_every_low_bit_flipped(self):
        def flipped(n):
            return self.whole[:n] + bytes([self.whole[n] ^ 0x01]) + self.whole[n + 1:]
        self.run_all([(f"low{n}", flipped(n)) for n in range(len(self.whole))])


if __name__ == "__main__":
    unittest.main()
