# SPDX-License-Identifier: Apache-2.0
# Copyright the gpuprobe authors.
"""The processes that are compared: how each profiler gets into its own, and how a block is asked of it.

A member is one process under one profiler (or none). It answers on two FIFOs in its folder (stepper.py, micro --serve).
While others are measured it is stopped (SIGSTOP to its process group, its workers with it), so that all of a set can
be alive together and take turns, seconds apart, without disturbing each other; nsys's are not, since nsys talks to its
process from outside. Whatever hangs or fails is killed by its process group and raises Failed."""
import contextlib
import ctypes
import json
import os
import pathlib
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import common

STEPPER = common.HERE / "stepper.py"
PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36

NO_HOST_CALLS = {"GPUPROBE_RUNTIME_API": "0", "GPUPROBE_DRIVER_API": "0", "GPUPROBE_OVERHEAD": "0",
                 "GPUPROBE_SAMPLE_HZ": "0"}


class Profiler:
    """How a profiler gets into a process. `steps_only`: needs PyTorch. `own`: in a process of its own even where the
    others are forked; compared with "none, own process" there."""

    def __init__(self, door="none", environment=None, mode="plain", options=(), own=False, steps_only=False,
                 library=None):
        self.door, self.environment, self.mode, self.options = door, environment or {}, mode, list(options)
        self.own, self.steps_only, self.library = own, steps_only, library or str(common.LIBRARY)


PROFILERS = {
    "none": Profiler(),
    "floor": Profiler("floor", {"GPUPROBE_FLOOR_KINDS": "all"}),
    "floor, GPU work only": Profiler("floor", {"GPUPROBE_FLOOR_KINDS": "gpu"}),
    "gpuprobe": Profiler("gpuprobe"),
    "gpuprobe, no sampler": Profiler("gpuprobe", {"GPUPROBE_SAMPLE_HZ": "0"}),
    "gpuprobe, GPU work only": Profiler("gpuprobe", NO_HOST_CALLS),
    "gpuprobe, capture off": Profiler("gpuprobe", {"GPUPROBE_CAPTURE": "0"}),
    "torch.profiler CUDA": Profiler(mode="cuda", steps_only=True),
    "torch.profiler CPU+CUDA": Profiler(mode="cpu+cuda", steps_only=True),
    "torch.profiler stacks": Profiler(mode="stacks", steps_only=True),
    "torch.profiler, off after a window": Profiler(mode="off", steps_only=True),
    "none, own process": Profiler(own=True, steps_only=True),
    "gpuprobe, preloaded": Profiler("preload", own=True, steps_only=True),
    "nsys -t cuda": Profiler("nsys", options=["-t", "cuda", "--sample=none", "--cpuctxsw=none"], own=True),
    "nsys defaults": Profiler("nsys", own=True),
}


def add_tier(text):
    """One more row, "NAME:KEY=VALUE,KEY=VALUE...": gpuprobe with these settings; of another build with LIBRARY=PATH."""
    name, _, settings = text.partition(":")
    environment = dict(setting.split("=", 1) for setting in settings.split(",") if setting)
    library = environment.pop("LIBRARY", None)
    PROFILERS[name] = Profiler("gpuprobe", environment, library=library and str(pathlib.Path(library).resolve()))


class Failed(Exception):
    """A member did not do what it was asked for."""


def become_subreaper():
    """What the zygote forks belongs to this process, which can wait for it."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


class Zygote:
    """stepper.py --zygote with these modules. preload: with what they name for speed. After the start: missing (name
    -> why), threads (its own are one), touched_cuda (what it forks may find CUDA broken)."""

    def __init__(self, modules, preload, environment, timeout_s):
        self.modules, self.preload = list(modules), preload
        # On the measured cores: how many threads OpenMP makes is settled when it is loaded.
        self.process = subprocess.Popen(
            [sys.executable, str(STEPPER), "--zygote" if preload else "--bare-zygote", *map(str, self.modules)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment,
            preexec_fn=in_new_session(common.measured_cores()))
        self.timeout_s = timeout_s
        ready = self.answer()
        self.missing, self.threads, self.touched_cuda = ready["missing"], ready["threads"], ready["touched_cuda"]

    def answer(self):
        if not select.select([self.process.stdout], [], [], self.timeout_s)[0]:
            self.process.kill()
            raise Failed("the zygote does not answer")
        line = self.process.stdout.readline()
        if not line:
            raise Failed(f"the zygote ended: exit code {self.process.wait()}")
        return json.loads(line)

    def fork(self, request):
        self.process.stdin.write((json.dumps(request) + "\n").encode())
        self.process.stdin.flush()
        return self.answer()["pid"]

    def close(self):
        with contextlib.suppress(OSError):  # it may have gone already
            self.process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(10)
            return
        self.process.kill()
        self.process.wait()


def die_with_parent(parent):
    def before_exec():
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(1)
    return before_exec


def in_new_session(cores):
    dies = die_with_parent(os.getpid())

    def before_exec():
        dies()
        os.setsid()
        os.sched_setaffinity(0, cores)
    return before_exec


class Member:
    """One process of a set. name: the profiler's; workload: side_by_side.Workload, by the name workload_name;
    options: timeout_s for an answer, stop (between blocks), nsys (the program). seen: the last block's answer."""

    def __init__(self, name, workload_name, workload, options):
        self.name, self.profiler = name, PROFILERS[name]
        self.workload_name, self.workload, self.options = workload_name, workload, options
        self.seen, self.rss_before_kib = {"ops": 0, "cpu_s": 0.0, "rss_kib": None}, None
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="gpuprobe-bench-"))
        self.pid = self.own_pid = None
        self.popen = None
        self.exit_code = self.ended_at = None
        self.forked = False
        for fifo in ("go", "done"):
            os.mkfifo(self.folder / fifo)
        # Both ways, so that neither side's open() waits for the other and nothing ever ends by a hang-up.
        self.go = os.open(self.folder / "go", os.O_RDWR)
        self.done = os.open(self.folder / "done", os.O_RDWR | os.O_NONBLOCK)
        self.pending = b""

    def traces(self):
        return self.folder / "run"

    def environment(self):
        """What the profiler adds to a clean environment."""
        added = dict(self.profiler.environment)
        if self.profiler.door == "floor":
            added["CUDA_INJECTION64_PATH"] = str(common.FLOOR)
        elif self.profiler.door in ("gpuprobe", "preload"):
            door = "LD_PRELOAD" if self.profiler.door == "preload" else "CUDA_INJECTION64_PATH"
            added[door] = self.profiler.library
            added["GPUPROBE_OUT"] = str(self.traces())
        return added

    def start(self, zygote, base_environment):
        """Returns at once; first_answer() waits."""
        serve = [str(self.workload.module), self.profiler.mode, str(self.folder)] if self.workload.module else None
        if zygote is not None and serve and not self.profiler.own:
            self.forked = True
            self.pid = zygote.fork({
                "serve": serve, "environment": self.environment(), "cores": sorted(common.measured_cores()),
                "output": str(self.folder / "output"), "parent": os.getpid()})
            return
        if serve:
            command = [sys.executable, str(STEPPER), "--run", *serve]
        else:
            mode, threads, ops = self.workload.micro
            command = [str(common.build_micro()), mode, str(threads), "--serve", str(self.folder), str(ops)]
        if self.profiler.door == "nsys":
            command = [self.options.nsys, "profile", *self.profiler.options, "-o", str(self.folder / "out"), *command]
        with open(self.folder / "output", "wb") as output:
            self.popen = subprocess.Popen(command, env={**base_environment, **self.environment()}, cwd=self.folder,
                                          stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT,
                                          preexec_fn=in_new_session(common.measured_cores()))
        self.pid = self.popen.pid

    def first_answer(self):
        answer = self.read_answer()
        self.own_pid, self.rss_before_kib = answer["pid"], answer.get("rss_before_kib")
        self.pause()

    def signal(self, number):
        """To the process group that was started for this member, and to nothing else."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self.pid, number)

    def pause(self):
        if self.options.stop and self.profiler.door != "nsys":
            self.signal(signal.SIGSTOP)

    def block(self, ops, count):
        """The answer to one block; ops and cpu_s since the last. The process runs for as long as it takes."""
        self.signal(signal.SIGCONT)
        os.write(self.go, f"block {ops} {count}\n".encode())
        answer = self.read_answer()
        self.pause()
        since = {"ops": answer["ops"] - self.seen["ops"], "cpu_s": round(answer["cpu_s"] - self.seen["cpu_s"], 6)}
        self.seen = answer
        return {**answer, **since}

    def tell_end(self):
        """The last answer comes by read_answer(), the process's end by wait()."""
        self.signal(signal.SIGCONT)
        os.write(self.go, b"end\n")

    def read_answer(self):
        end = time.monotonic() + self.options.timeout_s
        while b"\n" not in self.pending:
            if select.select([self.done], [], [], 0.05)[0]:
                with contextlib.suppress(BlockingIOError):
                    self.pending += os.read(self.done, 1 << 16)
                    continue
            if self.has_ended():
                raise Failed(f"ended, exit code {self.exit_code}\n{self.last_output()}")
            if time.monotonic() > end:
                self.kill()
                raise Failed(f"no answer in {self.options.timeout_s:g} s: killed\n{self.last_output()}")
        line, _, self.pending = self.pending.partition(b"\n")
        return json.loads(line)

    def has_ended(self):
        if self.exit_code is None and self.pid is not None:
            try:
                pid, status, _ = os.wait4(self.pid, os.WNOHANG)
            except ChildProcessError:  # not (or not yet) this process's child
                return False
            if pid != 0:
                self.exit_code, self.ended_at = os.waitstatus_to_exitcode(status), time.monotonic()
                if self.popen is not None:
                    self.popen.returncode = self.exit_code
        return self.exit_code is not None

    def wait(self):
        """Until it has gone (nsys writes its file until then): exit code."""
        end = time.monotonic() + self.options.timeout_s
        while not self.has_ended():
            if time.monotonic() > end:
                self.kill()
                raise Failed(f"not gone after {self.options.timeout_s:g} s: killed")
            time.sleep(0.005)
        if self.exit_code != 0:
            raise Failed(f"exit code {self.exit_code}\n{self.last_output()}")

    def last_output(self):
        with contextlib.suppress(OSError):
            return "\n".join((self.folder / "output").read_text(errors="replace")[-600:].strip().splitlines()[-5:])
        return ""

    def kill(self):
        if self.pid is None or self.exit_code is not None:
            return
        self.signal(signal.SIGKILL)
        # It may not lead a group yet; nsys's process may lie in another one, and has told its id.
        for pid in {self.pid, self.own_pid or self.pid}:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        for _ in range(400):
            if self.has_ended():
                return
            time.sleep(0.005)

    def close(self):
        self.kill()
        for fd in (self.go, self.done):
            if fd is not None:
                os.close(fd)
        self.go = self.done = None
        shutil.rmtree(self.folder, ignore_errors=True)
