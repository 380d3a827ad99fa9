# SPDX-License-Identifier: Apache-2.0
# Copyright the gpuprobe authors.
"""The inside of a measured Python process, and the zygote that forks such processes.

    stepper.py --run MODULE MODE FOLDER      one measured process of its own
    stepper.py --zygote MODULE...            imports the modules once, forks a process for every line of its input
    stepper.py --bare-zygote MODULE...       the same without what they name in PRELOAD

MODULE: a file with make_step() (returns a warmed-up step as a function, initialises CUDA) and drain() (waits for the
GPU); of PRELOAD, a list of modules that its first step would import, the zygote imports what there is. MODE: "plain",
or how torch.profiler runs around each block: "cuda", "cpu+cuda", "stacks"; "off": one such window before the first
block and none later.

A measured process answers lines of the FIFO FOLDER/go with lines of JSON on FOLDER/done:
  at first: pid, rss_before_kib (VmRSS before make_step(), that is before CUDA).
  "block OPS COUNT": a quarter of OPS steps to warm up, then COUNT times OPS steps and drain(), each timed, with a
    fixed piece of Python (a yardstick) timed before and after it; of a torch.profiler before and after its window,
    since its tracer for stacks makes the yardstick three times slower. figures: ms a step; yardsticks: us; ops: steps done
    so far, warm-ups included; cpu_s: user and system time of the process so far, all its threads; rss_kib: VmRSS now.
  anything else: end_at (CLOCK_MONOTONIC), and of a torch.profiler its first window: bytes of the exported trace,
    ops_recorded, and report_s, from the window's end to its table as text. Then it leaves as any Python program.

The zygote must not touch CUDA (a driver that was initialised before fork does not work after it) and should have one
thread, since no other comes along. It forks twice, so that the process belongs to whoever is the subreaper above it,
and answers with the process id. What a process is to see of a profiler, it sees by its environment before cuInit."""
import contextlib
import ctypes
import importlib
import importlib.util
import json
import os
import pathlib
import resource
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tests" / "workloads"))
from yardstick import yardstick_us  # noqa: E402

PR_SET_PDEATHSIG, SIGKILL = 1, 9


def load(path):
    """The module in this file, imported once; its neighbours can be imported from it."""
    path = pathlib.Path(path).resolve()
    if path.stem in sys.modules:
        return sys.modules[path.stem]
    if str(path.parent) not in sys.path:
        sys.path.insert(0, str(path.parent))
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    return module


def rss_kib():
    with open("/proc/self/statm", encoding="ascii") as file:
        return int(file.read().split()[1]) * resource.getpagesize() // 1024


def cpu_s():
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


class Windows:
    """torch.profiler as a user would have it around some steps. The first window is exported when all is done."""

    def __init__(self, mode):
        self.mode, self.first, self.first_ops, self.close_s = mode, None, 0, 0.0

    def open(self):
        from torch.profiler import ProfilerActivity, profile
        activities = [ProfilerActivity.CUDA]
        if self.mode in ("cpu+cuda", "stacks"):
            activities.insert(0, ProfilerActivity.CPU)
        return profile(activities=activities, with_stack=self.mode == "stacks")

    def keep(self, window, ops, ended_at):
        if self.first is None:
            self.first, self.first_ops, self.close_s = window, ops, time.monotonic() - ended_at

    def result(self, folder):
        if self.first is None:
            return {}
        begin = time.monotonic()
        str(self.first.key_averages().table(row_limit=10))
        report_s = self.close_s + time.monotonic() - begin
        trace = pathlib.Path(folder) / "torch-trace.json"
        self.first.export_chrome_trace(str(trace))
        return {"report_s": report_s, "bytes": trace.stat().st_size, "ops_recorded": self.first_ops}


class Steps:
    def __init__(self, module, mode):
        self.drain = module.drain
        self.windows = Windows(mode) if mode != "plain" else None
        self.step = module.make_step()
        self.ops = 0
        if mode == "off":
            with self.windows.open():
                self.some(1)
            self.windows = None

    def some(self, count):
        for _ in range(count):
            self.step()
        self.drain()
        self.ops += count

    def block(self, ops, count):
        before = self.ops
        figures, yardsticks = [], []
        outside = yardstick_us() if self.windows else None
        with self.windows.open() if self.windows else contextlib.nullcontext() as window:
            self.some(ops // 4 + 1)
            for _ in range(count):
                yardstick = yardstick_us()
                begin = time.perf_counter()
                self.some(ops)
                figures.append((time.perf_counter() - begin) * 1e3 / ops)
                yardsticks.append((yardstick + yardstick_us()) / 2)
            ended_at = time.monotonic()
        if self.windows:
            yardsticks = [(outside + yardstick_us()) / 2] * count
            self.windows.keep(window, self.ops - before, ended_at)
        return {"figures": figures, "yardsticks": yardsticks, "ops": self.ops, "cpu_s": cpu_s(), "rss_kib": rss_kib()}


def serve(path, mode, folder):
    module = load(path)
    rss_before_kib = rss_kib()
    steps = Steps(module, mode)
    folder = pathlib.Path(folder)
    with open(folder / "go", encoding="ascii") as go, open(folder / "done", "w", encoding="ascii") as done:
        def answer(**what):
            done.write(json.dumps(what) + "\n")
            done.flush()

        answer(pid=os.getpid(), rss_before_kib=rss_before_kib)
        for line in iter(go.readline, ""):
            words = line.split()
            if words[:1] != ["block"]:
                break
            answer(**steps.block(int(words[1]), int(words[2])))
        end_at = time.monotonic()
        result = steps.windows.result(folder) if steps.windows else {}
        answer(ops=steps.ops, end_at=end_at, **result)


def prctl(option, value):
    ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def become(request):
    """What a new program would have been given: a session, cores, files, environment."""
    os.setsid()
    while os.getppid() != request["parent"]:  # until the one in between is gone
        time.sleep(0.001)
    prctl(PR_SET_PDEATHSIG, SIGKILL)
    os.sched_setaffinity(0, request["cores"])
    null = os.open(os.devnull, os.O_RDONLY)
    output = os.open(request["output"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for source, target in ((null, 0), (output, 1), (output, 2)):
        os.dup2(source, target)
    os.close(null)
    os.close(output)
    os.environ.update(request["environment"])


def fork_twice():
    """0 in the new process, which is nobody's here; its id in this one."""
    end, other_end = os.pipe()
    between = os.fork()
    if between != 0:
        os.close(other_end)
        pid = int(os.read(end, 32) or b"-1")
        os.close(end)
        os.waitpid(between, 0)
        return pid
    pid = os.fork()
    if pid != 0:
        os.write(other_end, str(pid).encode())
        os._exit(0)
    os.close(end)
    os.close(other_end)
    return 0


def touched_cuda():
    """The driver has the GPU's device files open from cuInit on."""
    for entry in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):
            if os.readlink("/proc/self/fd/" + entry).startswith("/dev/nvidia"):
                return True
    return False


def import_all(paths, preload):
    """name -> reason of each that cannot be had."""
    missing = {}
    for path in paths:
        try:
            module = load(path)
        except ImportError as error:
            missing[pathlib.Path(path).stem] = str(error)
            sys.modules.pop(pathlib.Path(path).stem, None)
            continue
        for name in getattr(module, "PRELOAD", []) if preload else ():
            with contextlib.suppress(Exception):  # it is for speed alone
                importlib.import_module(name)
    return missing


def zygote(paths, preload):
    """The arguments of serve() in a new process; None at the end of the input in the old one."""
    answers = os.dup(1)
    os.dup2(2, 1)  # what the modules print

    def answer(**what):
        os.write(answers, (json.dumps(what) + "\n").encode())

    missing = import_all(paths, preload)
    answer(missing=missing, threads=len(os.listdir("/proc/self/task")), touched_cuda=touched_cuda())
    for line in iter(sys.stdin.readline, ""):
        request = json.loads(line)
        pid = fork_twice()
        if pid == 0:
            os.close(answers)
            become(request)
            return request["serve"]
        answer(pid=pid)
    return None


def main():
    if sys.argv[1] in ("--zygote", "--bare-zygote"):
        arguments = zygote(sys.argv[2:], preload=sys.argv[1] == "--zygote")
    else:
        arguments = sys.argv[2:]
    if arguments is not None:
        serve(*arguments)


if __name__ == "__main__":
    main()
