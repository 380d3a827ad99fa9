#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Tests on a real GPU: what was recorded is what was launched, and the host cannot tell.

Needs an NVIDIA GPU, nvcc for the CUDA C++ hosts and PyTorch for the others; what is missing is skipped, with
the reason. Runs the programs of build/dist in place (GPUPROBE_DIST names another folder).

    python3 tests/gpu/gpu_tests.py [-v] [TestClass[.test]]     GPUPROBE_TEST_KEEP=DIR keeps reports there
"""
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
DIST = pathlib.Path(os.environ.get("GPUPROBE_DIST", ROOT / "build" / "dist"))
LIBRARY = DIST / "lib" / "libgpuprobe.so"
REPORT = DIST / "bin" / "probe-report"
WORKLOADS = HERE.parent / "workloads"
KEEP = os.environ.get("GPUPROBE_TEST_KEEP")


def have_gpu():
    try:
        return b"GPU 0" in subprocess.run(["nvidia-smi", "-L"], stdout=subprocess.PIPE, check=False).stdout
    except FileNotFoundError:
        return False


def have_torch():
    return subprocess.run([sys.executable, "-c", "import torch; assert torch.cuda.is_available()"],
                          stderr=subprocess.DEVNULL, check=False).returncode == 0


def setUpModule():
    if not have_gpu():
        raise unittest.SkipTest("no NVIDIA GPU here")
    if not LIBRARY.exists() or not REPORT.exists():
        raise unittest.SkipTest(f"{DIST} is not built")


class Run:
    """One run of a host and what was recorded of it."""

    def __init__(self, test, command, door="preload", env=None, timeout=300):
        self.out = pathlib.Path(tempfile.mkdtemp(prefix="gpuprobe-test-"))
        test.addCleanup(shutil.rmtree, self.out, ignore_errors=True)
        self.traces = self.out / "run"
        environment = {k: v for k, v in os.environ.items()
                       if k not in ("LD_PRELOAD", "CUDA_INJECTION64_PATH") and not k.startswith("GPUPROBE_")}
        environment.update(env or {})
        environment["GPUPROBE_OUT"] = str(self.traces)
        if door in ("preload", "both"):
            environment["LD_PRELOAD"] = str(LIBRARY)
        if door in ("injection", "both"):
            environment["CUDA_INJECTION64_PATH"] = str(LIBRARY)
        begin = time.monotonic()
        done = subprocess.run([str(c) for c in command], env=environment, stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, timeout=timeout, check=False)
        self.seconds = time.monotonic() - begin
        self.code, self.stdout, self.stderr = done.returncode, done.stdout.decode(), done.stderr.decode()
        if KEEP and door != "none":
            name = test.id().split(".", 1)[1] + "-" + door
            for report in ("summary", "info", "kernels", "waits", "gaps", "api"):
                text = subprocess.run([REPORT, report, self.traces], stdout=subprocess.PIPE,
                                      stderr=subprocess.STDOUT, check=False).stdout
                (pathlib.Path(KEEP) / f"{name}.{report}.txt").write_bytes(text)

    def report(self, name="summary", *options, expect=0):
        done = subprocess.run([REPORT, name, "--format", "json", *options, self.traces],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
        if done.returncode != expect:
            raise AssertionError(f"probe-report {name}: exit {done.returncode}, {done.stderr.decode()}")
        return json.loads(done.stdout)

    def fields(self):
        """KEY=VALUE words of stdout, numbers as int or float."""
        words = (w.split("=", 1) for w in self.stdout.split() if "=" in w)
        return {k: float(v) if "." in v else int(v) for k, v in words}


def build_cuda(name):
    if shutil.which("nvcc") is None:
        raise unittest.SkipTest("no nvcc")
    binary = pathlib.Path(tempfile.gettempdir()) / f"gpuprobe-{name}-{os.getpid()}"
    if not binary.exists():
        subprocess.run(["nvcc", "-O2", "-std=c++17", "-arch=native", "-o", binary, HERE / f"{name}.cu"],
                       check=True, stderr=subprocess.DEVNULL)
    return binary


class GpuTest(unittest.TestCase):
    def assert_nothing_lost(self, summary):
        self.assertFalse(summary["partial"])
        for key in ("cupti_dropped", "ring_dropped", "damaged_bytes"):
            self.assertEqual(0, summary["loss"][key], key)


class LaunchStorm(GpuTest):
    def check(self, threads, launches, door="preload", env=None):
        run = Run(self, [build_cuda("storm"), threads, launches, 7], door=door, env=env)
        self.assertEqual(7, run.code)
        self.assertEqual("", run.stderr)
        self.assertEqual(threads * launches, run.fields()["launched"])
        summary = run.report()
        self.assert_nothing_lost(summary)
        self.assertEqual(threads * launches, summary["devices"][0]["kernels"]["count"])
        return summary

    def test_one_thread(self):
        self.check(1, 200_000)

    def test_eight_threads(self):
        self.check(8, 50_000)

    def test_injection_door(self):
        self.check(1, 20_000, door="injection")

    def test_both_doors_record_once(self):
        self.check(1, 20_000, door="both")

    def test_small_buffers(self):
        self.check(4, 20_000, env={"GPUPROBE_BUFFER_KB": "16"})


class Concurrency(GpuTest):
    def test_two_streams_still_overlap(self):
        run = Run(self, [build_cuda("overlap")])
        self.assertLess(run.fields()["wall_ms"], 70)
        device = run.report()["devices"][0]
        # The union of two overlapping 50 ms kernels is far from their sum.
        self.assertLess(device["kernels"]["union_ns"], 0.7 * device["kernels"]["sum_ns"])


class Dependencies(GpuTest):
    def test_hand_overs_between_streams_are_dependency(self):
        run = Run(self, [build_cuda("streams")])
        device = run.report()["devices"][0]
        self.assertEqual(run.fields()["kernels"], device["kernels"]["count"])
        causes = {c["cause"]: c for c in device["idle_causes"]}
        self.assertGreaterEqual(causes.get("dependency", {"count": 0})["count"], 95, causes)


class Graphs(GpuTest):
    def test_graph_level(self):
        run = Run(self, [build_cuda("graph")])
        device = run.report()["devices"][0]
        self.assertEqual(run.fields()["plain"], device["kernels"]["count"])
        self.assertEqual(run.fields()["graph_launches"], device["graphs"]["count"])

    def test_node_level(self):
        run = Run(self, [build_cuda("graph")], env={"GPUPROBE_GRAPH_NODES": "1"})
        device = run.report()["devices"][0]
        self.assertEqual(run.fields()["plain"] + run.fields()["nodes"], device["kernels"]["count"])

    def test_capture_is_not_disturbed_by_flushes(self):
        run = Run(self, [build_cuda("graph"), "slow"])
        self.assertEqual(0, run.fields()["error"])
        self.assertEqual(100, run.report()["devices"][0]["graphs"]["count"])

    def test_device_reset_loses_nothing(self):
        run = Run(self, [build_cuda("graph"), "reset"])
        device = run.report()["devices"][0]
        self.assertEqual(run.fields()["plain"], device["kernels"]["count"])


class OtherTools(GpuTest):
    def find(self, name):
        found = shutil.which(name) or next(
            (str(p) for p in sorted(pathlib.Path("/opt").glob(f"nvidia/*/*/host/*/{name}"))), None)
        if found is None:
            self.skipTest(f"no {name}")
        return found

    def test_under_nsys_we_record_nothing_and_nsys_does(self):
        nsys, storm = self.find("nsys"), build_cuda("storm")
        sizes = []
        for door in ("none", "preload"):
            target = pathlib.Path(tempfile.mkdtemp(prefix="gpuprobe-test-"))
            self.addCleanup(shutil.rmtree, target, ignore_errors=True)
            run = Run(self, [nsys, "profile", "-t", "cuda", "--sample=none", "--cpuctxsw=none", "-o",
                             target / "out", storm, 1, 20000], door=door)
            self.assertIn("launched=20000", run.stdout, run.stderr)
            files = [p.stat().st_size for p in target.iterdir()]
            self.assertTrue(files, run.stdout + run.stderr)
            sizes.append(max(files))
            # nsys itself initialises CUDA and is recorded, without any work; its target is not.
            if run.traces.exists():
                self.assertEqual(0, sum(d["kernels"]["count"] for d in run.report()["devices"]))
        self.assertLess(abs(sizes[0] - sizes[1]), 0.1 * sizes[0])

    def test_under_compute_sanitizer_the_host_runs_on(self):
        sanitizer, storm = self.find("compute-sanitizer"), build_cuda("storm")
        without = Run(self, [sanitizer, storm, 1, 200, 5], door="none")
        with_probe = Run(self, [sanitizer, storm, 1, 200, 5])
        self.assertEqual(without.code, with_probe.code)
        self.assertIn("launched=200", with_probe.stdout)


class TwoDevices(GpuTest):
    def test_each_device_has_its_own_kernels(self):
        if not have_torch():
            self.skipTest("no PyTorch with CUDA")
        count = subprocess.run([sys.executable, "-c", "import torch; print(torch.cuda.device_count())"],
                               stdout=subprocess.PIPE, check=False).stdout
        if int(count) < 2:
            self.skipTest("one GPU only")
        program = ("import torch\nfor d, n in ((0, 300), (1, 500)):\n"
                   "    x = torch.zeros(1000, device=f'cuda:{d}')\n    for _ in range(n): x.add_(1)\n"
                   "for d in (0, 1): torch.cuda.synchronize(d)\n")
        run = Run(self, [sys.executable, "-c", program])
        devices = run.report()["devices"]
        self.assertEqual([301, 501], [d["kernels"]["count"] for d in devices])
        self.assertNotEqual(devices[0]["uuid"], devices[1]["uuid"])


class Torch(GpuTest):
    @classmethod
    def setUpClass(cls):
        if not have_torch():
            raise unittest.SkipTest("no PyTorch with CUDA")

    def windows(self, door):
        run = Run(self, [sys.executable, WORKLOADS / "torch_profiler_windows.py", "0.2"], door=door)
        self.assertEqual(0, run.code, run.stderr)
        return run, json.loads(run.stdout.splitlines()[-1])

    def check_profiler_windows(self, door):
        _, without = self.windows("none")
        run, with_probe = self.windows(door)
        self.assertEqual(without, with_probe)
        self.assertEqual([200, 200, 200], [w["kernels"] for w in with_probe["windows"]])
        kernels = run.report("kernels", "--top", "1000")
        adds = sum(k["count"] for k in kernels["kernels"] if "CUDAFunctorOnSelf_add" in k["mangled"])
        self.assertEqual(with_probe["adds_outside"], adds)
        info = run.report("info")
        blind = info["blind"]
        for period in blind:
            self.assertIn("libtorch", period["who"])
            self.assertGreater(period["end_ns"], period["begin_ns"])
        # Beside the windows torch.profiler switches an attribute once, for a moment.
        self.assertEqual(3, sum("RegisterTimestampCallback" in period["who"] for period in blind), blind)
        for period in blind:
            if "SetAttribute" in period["who"]:
                self.assertLess(period["end_ns"] - period["begin_ns"], 10_000_000)

    def test_graphs_captured_inside_a_profiler_window_can_be_replayed_after_it(self):
        command = [sys.executable, WORKLOADS / "torch_graph_in_profiler_window.py", "2"]
        without = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, check=True)
        for door in ("preload", "injection"):
            with self.subTest(door=door):
                run = Run(self, command, door=door)
                self.assertEqual(run.stdout, without.stdout.decode())

    def test_profiler_windows_preloaded(self):
        self.check_profiler_windows("preload")

    def test_profiler_windows_injected(self):
        self.check_profiler_windows("injection")

    def test_training_kernels_are_all_there(self):
        script = WORKLOADS / "torch_launch_bound.py"
        counted = Run(self, [sys.executable, script, "1", "--count"], door="none")
        per_step = json.loads(counted.stdout.splitlines()[-1])["kernels_per_step"]
        counts = []
        for steps in (10, 40):
            run = Run(self, [sys.executable, script, steps])
            self.assertEqual(0, run.code, run.stderr)
            summary = run.report()
            self.assert_nothing_lost(summary)
            counts.append(summary["devices"][0]["kernels"]["count"])
        self.assertEqual(30 * per_step, counts[1] - counts[0])

    def test_launch_bound_and_starved_look_different(self):
        bound = Run(self, [sys.executable, WORKLOADS / "torch_launch_bound.py", "60"]).report()
        starved = Run(self, [sys.executable, WORKLOADS / "torch_loader_starved.py", "20"]).report()
        busy = Run(self, [sys.executable, WORKLOADS / "torch_gpu_bound.py", "1000"]).report()
        self.assertEqual("launch_bound", bound["verdict"]["kind"], bound["verdict"])
        self.assertEqual("host", starved["verdict"]["kind"], starved["verdict"])
        self.assertEqual("gpu_bound", busy["verdict"]["kind"], busy["verdict"])

    def test_endings_keep_their_status(self):
        prefix = "import os, sys, torch; x = torch.ones(1 << 20, device='cuda'); x.add_(1); "
        for ending in ("sys.exit(3)", "os._exit(4)", "raise ValueError('no')", "os.abort()",
                       "os.kill(os.getpid(), 9)", "torch.cuda.synchronize()"):
            with self.subTest(ending):
                command = [sys.executable, "-c", prefix + ending]
                without, with_probe = Run(self, command, door="none"), Run(self, command)
                self.assertEqual(without.code, with_probe.code)
                self.assertEqual(without.stderr, with_probe.stderr)

    def test_kill_loses_less_than_a_flush_period(self):
        program = ("import time, torch\nx = torch.ones(1, device='cuda')\nwhile True:\n"
                   "    x.add_(1); torch.cuda.synchronize(); time.sleep(0.001)\n")
        out = pathlib.Path(tempfile.mkdtemp(prefix="gpuprobe-test-"))
        self.addCleanup(shutil.rmtree, out, ignore_errors=True)
        env = dict(os.environ, LD_PRELOAD=str(LIBRARY), GPUPROBE_OUT=str(out / "run"))
        host = subprocess.Popen([sys.executable, "-c", program], env=env)
        time.sleep(12)
        killed_at = time.time_ns()
        host.send_signal(signal.SIGKILL)
        host.wait()
        done = subprocess.run([REPORT, "summary", "--format", "json", out / "run"], stdout=subprocess.PIPE,
                              check=False)
        self.assertEqual(3, done.returncode)   # readable, and says that it was not closed
        last = json.loads(done.stdout)["devices"][0]["window_ns"]["end"]
        self.assertLess(killed_at - last, 2_000_000_000)


if __name__ == "__main__":
    unittest.main()
