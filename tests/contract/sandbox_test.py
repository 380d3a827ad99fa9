# SPDX-License-Identifier: Apache-2.0
"""Hosts in narrow places: sandboxes, other users, no /proc, threads that open libraries all the time."""

import os
import resource
import signal
import sys

import host
import traces

LAUNCH = host.host("contract_launch")
NOBODY = 65534
QUICK = {"GPUPROBE_FLUSH_MS": "20"}


class SandboxTest(host.ContractTest):
    def setUp(self):
        super().setUp()
        self.need_simulation()

    def check(self, command, **more):
        result = self.run_host(command, sim=True, env=QUICK, **more)
        self.assertEqual((result.status, result.stderr), (0, b""))
        return result

    def need_root(self):
        if os.geteuid() != 0:
            self.skipTest("wants root")

    def test_system_calls_that_a_sandbox_forbids_cost_nothing_but_convenience(self):
        forbid = host.host("contract_forbid")
        if self.run_host([forbid, "/bin/true"], "none").status == 77:
            self.skipTest("no seccomp filters here")
        result = self.check([forbid, LAUNCH, "ms=200"])
        trace = self.only_trace(result)
        self.assertEqual(trace.kernels, result.fields()["launched"])
        self.assertIn("nothing", trace.names)  # read through a pipe instead

    def test_a_host_that_blocks_sigsys_waits_for_it(self):
        # Sent to the process it goes to any thread that does not block it, and ends all of them.
        script = self.root / "script.py"
        script.write_text(host.CUDA_IN_PYTHON + "import signal\n"
                          "signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGSYS})\n"
                          "work(100)\n"
                          "os.kill(os.getpid(), signal.SIGSYS)\n"
                          "time.sleep(0.2)\n"  # whoever takes it first
                          "got = signal.sigtimedwait({signal.SIGSYS}, 10)\n"
                          "print('signal=%d' % (got.si_signo if got else 0))\n")
        result = self.check([sys.executable, script])
        self.assertEqual(result.fields()["signal"], signal.SIGSYS)
        self.assertEqual(self.only_trace(result).kernels, 100)

    def test_there_is_no_proc(self):
        self.need_root()
        if self.run_host(["unshare", "-m", "true"], "none").status != 0:
            self.skipTest("no mount namespaces here")
        result = self.check(["unshare", "-m", "sh", "-c", f"mount -t tmpfs none /proc && exec {LAUNCH} ms=200"])
        self.assertEqual(self.only_trace(result).kernels, result.fields()["launched"])

    def test_the_host_becomes_another_user_while_it_runs(self):
        # setuid reaches every thread by a signal, ours too, and waits for all of them.
        self.need_root()
        script = self.root / "script.py"
        script.write_text(host.CUDA_IN_PYTHON + "work(100)\nimport glob\n"
                          # Only root may make a file there.
                          "while not glob.glob(os.environ['GPUPROBE_OUT'] + '/*'): time.sleep(0.01)\n"
                          f"os.setgid({NOBODY})\nos.setuid({NOBODY})\n"
                          "work(100)\nprint('launched=200', 'user=%d' % os.getuid())\n")
        result = self.check([sys.executable, script])
        self.assertEqual(result.fields()["user"], NOBODY)
        self.assertEqual(self.only_trace(result).kernels, 200)

    def test_no_thread_may_be_started(self):
        def forbid_threads():
            if os.geteuid() == 0:
                os.setgid(NOBODY)
                os.setuid(NOBODY)
            resource.setrlimit(resource.RLIMIT_NPROC, (1, 1))
        os.chmod(self.root, 0o777)
        trial = self.run_host([LAUNCH, "ms=50", "threads=2"], "none", sim=True, preexec_fn=forbid_threads,
                              folder=self.root)
        if trial.status == 0 or b"Resource temporarily unavailable" not in trial.stderr:
            self.skipTest("threads cannot be forbidden here")
        result = self.check([LAUNCH, "ms=100"], preexec_fn=forbid_threads, folder=self.root)
        self.assertEqual(result.traces, [])

    def test_address_space_is_short(self):
        def run(probe, limit):
            return self.run_host([LAUNCH, "ms=50"], probe, sim=True, env=QUICK,
                                 preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)))
        for limit in (60 << 20, 90 << 20, 200 << 20):
            with self.subTest(mib=limit >> 20):
                if run("none", limit).status != 0:
                    self.skipTest("the host itself needs more")
                watched = run("preload", limit)
                self.assertEqual((watched.status, watched.stderr), (0, b""))

    def test_a_host_that_locks_its_memory_is_recorded(self):
        self.need_root()
        script = self.root / "script.py"
        script.write_text(host.CUDA_IN_PYTHON + "libc = ctypes.CDLL(None)\nwork(100)\nlibc.mlockall(1)\n"
                          "work(100)\nprint('done')\n")
        result = self.check([sys.executable, script])
        self.assertEqual(self.only_trace(result).kernels, 200)


class LoaderTest(host.ContractTest):
    def test_threads_that_open_and_close_libraries_are_never_stopped(self):
        self.need_simulation()
        libraries = [str(host.HOSTS / f"libcontract_{name}.so") for name in ("other1", "other2", "tls")]
        # Under injection alone the import tables of new libraries are looked at once a flush period.
        for probe in ("preload", "injection"):
            with self.subTest(probe=probe):
                result = self.run_host([host.host("contract_loader"), "2500", *libraries], probe, sim=True, env=QUICK)
                self.assertEqual((result.status, result.stderr, result.stdout), (0, b"", b"progress=1\n"))
                self.assertTrue(self.only_trace(result).is_healthy)
