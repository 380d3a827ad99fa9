# SPDX-License-Identifier: Apache-2.0
"""Runs a host with and without the probe and says what of it can be seen from outside.

With GPUPROBE_TEST_REAL_GPU=1 the hosts run on the GPU and the libcupti of the machine (LD_LIBRARY_PATH has
to lead to it); what wants a planted fault or the simulation's truth is skipped.
"""

import functools
import os
import pathlib
import pty
import select
import shutil
import subprocess
import tempfile
import time
import unittest

import traces

SOURCE = pathlib.Path(os.environ["GPUPROBE_TEST_SOURCE_DIR"])
BUILD = pathlib.Path(os.environ["GPUPROBE_TEST_BUILD_DIR"])
LIBRARY = BUILD / "dist/lib/libgpuprobe.so"
HOSTS = BUILD / "tests/contract"
RUN_SIM = SOURCE / "tests/sim/run-sim"
REAL_GPU = os.environ.get("GPUPROBE_TEST_REAL_GPU") == "1"

# The bound of DESIGN, "wait without a bound (final flush included: 2 s)", with room for a machine that is
# busy: it tells a bound from none.
FINAL_FLUSH_SECONDS = 2.0
SLACK_SECONDS = 6.0

# CUDA in Python without any package. `work(n)` launches n kernels and waits for them.
CUDA_IN_PYTHON = """
import ctypes, os, sys, time
def work(count):
    cuda = ctypes.CDLL("libcuda.so.1")
    device, context, module, kernel = ctypes.c_int(), ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
    assert cuda.cuInit(0) == 0
    assert cuda.cuDeviceGet(ctypes.byref(device), 0) == 0
    assert cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device) == 0
    assert cuda.cuCtxSetCurrent(context) == 0
    text = b".version 6.3\\n.target sm_75\\n.address_size 64\\n.visible .entry nothing() { ret; }\\n"
    assert cuda.cuModuleLoadData(ctypes.byref(module), text) == 0
    assert cuda.cuModuleGetFunction(ctypes.byref(kernel), module, b"nothing") == 0
    for _ in range(count):
        assert cuda.cuLaunchKernel(kernel, 1, 1, 1, 32, 1, 1, 0, None, None, None) == 0
    assert cuda.cuCtxSynchronize() == 0
"""

OURS = ("LD_PRELOAD", "CUDA_INJECTION64_PATH")


def clean_environment():
    return {k: v for k, v in os.environ.items()
            if k not in OURS and not k.startswith(("GPUPROBE_", "GPUSIM_", "GTEST_"))}


def host(name):
    return str(HOSTS / name)


@functools.lru_cache(maxsize=None)
def _simulation_variables(arguments):
    before = dict(clean_environment(), GPUPROBE_BUILD_DIR=str(BUILD))
    out = subprocess.run([str(RUN_SIM), *arguments, "--", "env", "-0"], env=before, check=True,
                         stdout=subprocess.PIPE).stdout.decode()
    after = dict(line.split("=", 1) for line in out.split("\0") if "=" in line)
    return {k: v for k, v in after.items() if before.get(k) != v and k not in ("_", "SHLVL", "PWD", "OLDPWD")}


def simulation(fault=None):
    """The environment in which the simulated GPU is found. The runner itself stays outside of the test, so
    that the process started is the host and nothing else."""
    if REAL_GPU:
        if fault:
            raise unittest.SkipTest("a real GPU has no planted faults")
        return {}
    arguments = ("--no-preload",) + (("--fault", fault) if fault else ())
    return _simulation_variables(arguments)


def have_simulation():
    return REAL_GPU or (BUILD / "sim/lib/libcuda.so.1").exists()


class Result:
    def __init__(self, status, stdout, stderr, seconds, folder, out):
        self.status, self.stdout, self.stderr, self.seconds = status, stdout, stderr, seconds
        self.folder, self.out = folder, out

    @property
    def seen(self):
        """What the host's user gets."""
        return self.status, self.stdout, self.stderr

    @property
    def files(self):
        """Everything in the working directory, relative to it, directories with a slash."""
        return sorted(str(p.relative_to(self.folder)) + ("/" if p.is_dir() else "")
                      for p in self.folder.rglob("*"))

    @property
    def traces(self):
        return traces.in_folder(self.out)

    def fields(self):
        """The KEY=VALUE words of stdout, numbers as integers."""
        words = (w.split("=", 1) for w in self.stdout.decode().split() if "=" in w)
        return {k: int(v) if v.lstrip("-").isdigit() else v for k, v in words}


class ContractTest(unittest.TestCase):
    """Runs hosts. Every run gets a fresh working directory, always by the same name."""

    maxDiff = None

    def setUp(self):
        if not LIBRARY.exists():
            self.skipTest("libgpuprobe.so was not built")
        self.root = pathlib.Path(tempfile.mkdtemp(prefix="gpuprobe-contract-"))
        self.addCleanup(shutil.rmtree, self.root, ignore_errors=True)

    def need_simulation(self):
        if not have_simulation():
            self.skipTest("the simulated GPU was not built")

    def folder(self, name="run"):
        folder = self.root / name
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        return folder

    def environment(self, probe, out=None, env=None, sim=False, fault=None):
        """probe: "none", "preload", "injection" or "both". `out`: GPUPROBE_OUT; None leaves it to the
        library. `env`: last word; None removes a variable."""
        environment = clean_environment()
        if sim:
            environment.update(simulation(fault))
        if probe != "none" and out is not None:
            environment["GPUPROBE_OUT"] = str(out)
        if probe in ("preload", "both"):
            environment["LD_PRELOAD"] = str(LIBRARY)
        if probe in ("injection", "both"):
            environment["CUDA_INJECTION64_PATH"] = str(LIBRARY)
        for name, value in (env or {}).items():
            if REAL_GPU and name.startswith("GPUSIM_"):
                raise unittest.SkipTest("a real GPU takes no orders")
            if value is None:
                environment.pop(name, None)
            else:
                environment[name] = str(value)
        return environment

    def start(self, command, probe="preload", env=None, sim=False, fault=None, folder=None, out=None, **more):
        """The running process; its working directory is `folder`, its traces go to `out` (on the simulated
        GPU; elsewhere the library is left to choose, in the working directory)."""
        folder = folder or self.folder()
        if out is None and sim:
            out = self.root / "out"
            shutil.rmtree(out, ignore_errors=True)
        process = subprocess.Popen([str(c) for c in command], cwd=folder,
                                   env=self.environment(probe, out, env, sim, fault), **more)
        process.folder, process.out = folder, out or folder
        return process

    def run_host(self, command, probe="preload", env=None, sim=False, fault=None, folder=None, out=None,
                 timeout=60, stdin=b"", **more):
        begin = time.monotonic()
        process = self.start(command, probe, env, sim, fault, folder, out, stdin=subprocess.PIPE,
                             stdout=subprocess.PIPE, stderr=subprocess.PIPE, **more)
        try:
            stdout, stderr = process.communicate(stdin, timeout=timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            stdout, stderr = process.communicate()
            self.fail(f"{command} did not end within {timeout} s; stdout {stdout!r}, stderr {stderr!r}")
        return Result(process.returncode, stdout, stderr, time.monotonic() - begin, process.folder, process.out)

    def assert_cannot_tell(self, command, probe="preload", **more):
        """Same status, stdout, stderr and files with and without the probe. Returns both results."""
        without = self.run_host(command, probe="none", **more)
        files = without.files
        watched = self.run_host(command, probe=probe, **more)
        self.assertEqual(watched.seen, without.seen, command)
        self.assertEqual(watched.files, files, command)
        return without, watched

    def only_trace(self, result):
        found = result.traces
        self.assertEqual(len(found), 1, [str(t.path) for t in found])
        self.assertTrue(found[0].headers, "nothing in the file")
        self.assertTrue(found[0].is_healthy, (found[0].damage, found[0].headers))
        return found[0]


def run_on_terminal(command, environment, folder, timeout=60):
    """(status, output) with stdin, stdout and stderr on a pseudo-terminal."""
    main, terminal = pty.openpty()
    process = subprocess.Popen([str(c) for c in command], cwd=folder, env=environment, stdin=terminal,
                               stdout=terminal, stderr=terminal, start_new_session=True)
    os.close(terminal)
    output, deadline = b"", time.monotonic() + timeout
    while time.monotonic() < deadline:
        if select.select([main], [], [], 0.1)[0]:
            try:
                data = os.read(main, 65536)
            except OSError:  # EIO: the last descriptor of the terminal was closed
                break
            if not data:
                break
            output += data
    os.close(main)
    try:
        return process.wait(timeout=5), output
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait(), output
