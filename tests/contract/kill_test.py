# SPDX-License-Identifier: Apache-2.0
"""What a kill can take away: nothing older than a flush period."""

import concurrent.futures
import os
import random
import signal
import struct
import subprocess
import time

import host

LAUNCH = host.host("contract_launch")
RUNS = int(os.environ.get("GPUPROBE_TEST_KILL_RUNS", "50"))
TOGETHER = 4
# A flush period is 0.5 s; the rest is for a machine on which the drain thread waits for a core.
MOST_LOST_SECONDS = 2.0


def read_progress(path):
    """[(kernels complete, CLOCK_MONOTONIC ns)] as the host wrote it until it was killed."""
    rows = []
    for complete, when_ns in struct.iter_unpack("qq", path.read_bytes()):
        if when_ns == 0:
            break
        rows.append((complete, when_ns))
    return rows


class KillTest(host.ContractTest):
    def setUp(self):
        super().setUp()
        self.need_simulation()

    def kill_one(self, index, number, after_seconds, env=None):
        """(trace, progress, seconds of work that are lost) of a host that was killed."""
        folder, out = self.folder(f"run{index}"), self.root / f"out{index}"
        progress = folder / "progress"
        command = [LAUNCH, "ms=0", "batch=32", "pause_ms=1", f"progress={progress}"]
        process = subprocess.Popen(command, cwd=folder, env=self.environment("preload", out, env, sim=True),
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        deadline = time.monotonic() + 30
        while not (progress.exists() and read_progress(progress)):
            self.assertLess(time.monotonic(), deadline, "the host did not start to work")
            time.sleep(0.02)
        time.sleep(after_seconds)
        process.send_signal(number)
        stdout, stderr = process.communicate(timeout=30)
        self.assertEqual((process.returncode, stdout, stderr), (-number, b"", b""))
        rows = read_progress(progress)
        found = host.traces.in_folder(out)
        self.assertEqual(len(found), 1)
        trace = found[0]
        self.assertLessEqual(trace.kernels, rows[-1][0] + 32)
        lost = [when for complete, when in rows if complete > trace.kernels]
        return trace, rows, (rows[-1][1] - lost[0]) / 1e9 if lost else 0.0

    def check(self, number, runs, seed):
        moments = random.Random(seed)
        delays = [moments.uniform(0.2, 1.4) for _ in range(runs)]
        with concurrent.futures.ThreadPoolExecutor(TOGETHER) as pool:
            results = list(pool.map(lambda i: self.kill_one(i, number, delays[i]), range(runs)))
        largest = max(lost for _, _, lost in results)
        torn = sum(trace.torn != 0 for trace, _, _ in results if trace)
        print(f"{signal.Signals(number).name}: {runs} runs, largest loss {largest:.3f} s, {torn} torn tails",
              flush=True)
        for trace, _, lost in results:
            # Of a host that was killed before the drain thread came to write (a busy machine) an empty file is
            # left: all that it did is lost, and must be as young as every other loss.
            self.assertLess(lost, MOST_LOST_SECONDS)
            if trace.path.stat().st_size == 0:
                continue
            self.assertTrue(trace.is_healthy, (trace.damage, trace.headers))
            self.assertTrue(trace.headers)
            self.assertFalse(trace.is_closed)
            self.assertEqual(sum(trace.losses.values()), 0)
        written = sum(trace.path.stat().st_size != 0 for trace, _, _ in results)
        # With three threads for each core 42 of 50 were seen.
        self.assertGreaterEqual(written, runs // 2)

    def test_sigkill_at_random_times(self):
        self.check(signal.SIGKILL, RUNS, seed=1)

    def test_sigterm_at_random_times(self):
        self.check(signal.SIGTERM, 6, seed=2)

    def test_a_short_period_bounds_the_loss_tighter(self):
        _, rows, lost = self.kill_one(0, signal.SIGKILL, 1.5, {"GPUPROBE_FLUSH_MS": "50"})
        span = (rows[-1][1] - rows[0][1]) / 1e9
        self.assertLess(lost, span / 2)

    def test_abort_and_immediate_exit_lose_no_more(self):
        for ending, status in (("abort", -signal.SIGABRT), ("_exit", 0)):
            with self.subTest(ending=ending):
                folder = self.folder()
                progress = folder / "progress"
                command = [LAUNCH, "ms=1500", "batch=32", "pause_ms=1", f"progress={progress}", f"end={ending}"]
                result = self.run_host(command, sim=True, folder=folder)
                self.assertEqual(result.status, status)
                trace, rows = self.only_trace(result), read_progress(progress)
                lost = [when for complete, when in rows if complete > trace.kernels]
                self.assertLess((rows[-1][1] - lost[0]) / 1e9 if lost else 0, MOST_LOST_SECONDS)
                self.assertFalse(trace.is_closed)

    def test_a_trace_is_readable_while_it_grows(self):
        folder, out = self.folder(), self.root / "out"
        process = subprocess.Popen([LAUNCH, "ms=1500", "batch=32"], cwd=folder, stdout=subprocess.PIPE,
                                   env=self.environment("preload", out, {"GPUPROBE_FLUSH_MS": "20"}, sim=True))
        seen = []
        while process.poll() is None:
            for trace in host.traces.in_folder(out):
                if trace.headers:
                    self.assertTrue(trace.is_healthy, (trace.damage, trace.headers))
                    seen.append(trace.kernels)
            time.sleep(0.01)
        process.stdout.close()
        self.assertEqual(process.returncode, 0)
        self.assertEqual(seen, sorted(seen))
        self.assertGreater(len(set(seen)), 3)
