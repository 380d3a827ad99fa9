#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright the gpuprobe authors.
"""A Python program that is as hard as it can be on whoever reads its stacks from outside.

    python3 tests/planted/hostile_python.py [--seconds S] [ACT...]     --list names the acts

Every act goes on for S seconds (default 0.5) while a thread launches a kernel every millisecond, on whatever
libcuda.so.1 is there (without one it runs all the same). What is printed does not depend on time, speed or
addresses: two runs of the same interpreter print the same. Exit code 23, at the end of an interpreter that is
finalised while daemon threads run. Python 3.9 or later, no packages.
"""

import argparse
import asyncio
import ctypes
import functools
import gc
import importlib
import os
import random
import re
import signal
import sys
import threading
import time
import warnings

EXIT_CODE = 23
DEPTH = 50_000
THREADS_A_MINUTE = 20_000
KERNEL = b".version 6.3\n.target sm_75\n.address_size 64\n.visible .entry nothing() { ret; }\n"
ACTS = {}


def act(function):
    ACTS[function.__name__] = function
    return function


def until(seconds):
    """Counts up for so long; what an act does goes into the loop's body."""
    end, count = time.monotonic() + seconds, 0
    while time.monotonic() < end:
        yield count
        count += 1


class GpuPulse:
    """A kernel every millisecond from a thread of its own, so that there are gaps to ask about."""

    def __init__(self):
        self.stopped, self.thread, self.failed = threading.Event(), None, 0
        try:
            self.cuda = ctypes.CDLL("libcuda.so.1")
        except OSError:
            return
        context, module, self.kernel = ctypes.c_void_p(), ctypes.c_void_p(), ctypes.c_void_p()
        device = ctypes.c_int()
        steps = (
            lambda: self.cuda.cuInit(0),
            lambda: self.cuda.cuDeviceGet(ctypes.byref(device), 0),
            lambda: self.cuda.cuDevicePrimaryCtxRetain(ctypes.byref(context), device),
            lambda: self.cuda.cuCtxSetCurrent(context),
            lambda: self.cuda.cuModuleLoadData(ctypes.byref(module), KERNEL),
            lambda: self.cuda.cuModuleGetFunction(ctypes.byref(self.kernel), module, b"nothing"),
        )
        if all(step() == 0 for step in steps):
            self.context = context
            self.thread = threading.Thread(target=self._run, name="pulse", daemon=True)
            self.thread.start()

    def launch(self):
        one = (1, 1, 1)
        self.failed += self.cuda.cuLaunchKernel(self.kernel, *one, *one, 0, None, None, None) != 0
        self.failed += self.cuda.cuCtxSynchronize() != 0

    def _run(self):
        self.cuda.cuCtxSetCurrent(self.context)
        while not self.stopped.wait(0.001):
            self.launch()

    def stop(self):
        self.stopped.set()
        if self.thread:
            self.thread.join()
        return self.failed


def in_big_thread(function, megabytes=512):
    """The function's result, from a thread with room for deep recursion."""
    results = []
    before = threading.stack_size(megabytes << 20)
    thread = threading.Thread(target=lambda: results.append(function()))
    thread.start()
    threading.stack_size(before)
    thread.join()
    return results[0]


# ---- stacks ----


def descend(depth, seconds):
    if depth == 0:
        return sum(1 for _ in until(seconds)) > 0
    return descend(depth - 1, seconds)


@act
def deep_recursion(seconds):
    """50,000 frames, held at the bottom; then down and up again as fast as it goes."""

    def dive():
        held = descend(DEPTH, seconds / 2)
        swings = [descend(random.Random(i).randrange(5_000), 0) for i in until(seconds / 2)]
        return held, not any(swings[1:])

    before = sys.getrecursionlimit()
    sys.setrecursionlimit(DEPTH + 1_000)
    try:
        return in_big_thread(dive)
    finally:
        sys.setrecursionlimit(before)


@act
def callbacks(seconds):
    """Python below C below Python: sort keys, regular expressions, reduce, a C library's callback."""

    def key(item):
        return sorted(range(3), key=lambda x: -x)[0] + item

    compare_type = ctypes.CFUNCTYPE(
        ctypes.c_int, ctypes.POINTER(ctypes.c_int), ctypes.POINTER(ctypes.c_int)
    )
    compare = compare_type(lambda a, b: (a[0] > b[0]) - (a[0] < b[0]))
    libc, right = ctypes.CDLL(None), True
    for _ in until(seconds):
        right &= sorted([3, 1, 2] * 30, key=key)[0] == 1
        right &= re.sub("[aeiou]", lambda match: match.group().upper(), "audio" * 9)[0] == "A"
        right &= functools.reduce(lambda a, b: key(a + b) % 1000, range(50)) < 1000
        numbers = (ctypes.c_int * 50)(*range(50, 0, -1))
        libc.qsort(numbers, ctypes.c_size_t(50), ctypes.c_size_t(4), compare)
        right &= numbers[0] == 1
    return right


def chain(depth):
    if depth:
        yield from chain(depth - 1)
    else:
        for number in range(50):
            yield number


@act
def generators(seconds):
    """Generators 150 deep, begun and dropped in the middle."""
    right = True
    for count in until(seconds):
        generator = chain(150)
        got = [next(generator) for _ in range(20)]
        right &= got == list(range(20))
        if count % 2:
            generator.close()
    return right


async def ticker(ticks):
    for tick in range(ticks):
        await asyncio.sleep(0)
        yield tick


async def await_deeply(depth):
    if depth == 0:
        await asyncio.sleep(0)
        return 1
    return await await_deeply(depth - 1) + 1


async def consume(ticks):
    total = 0
    async for tick in ticker(ticks):
        total += tick
    return total + await await_deeply(40)


@act
def coroutines(seconds):
    """200 tasks at a time, async generators, awaits 40 deep."""

    async def together():
        return await asyncio.gather(*(consume(10) for _ in range(200)))

    return all(asyncio.run(together()) == [86] * 200 for _ in until(seconds))


# ---- code objects ----


def strange_names():
    surrogates = "\udcff\udc80\ud800"
    return {
        "surrogates": surrogates,
        "long": "n" * 10_000,
        "long_wide": "\N{SNOWMAN}" * 10_000,
        "null": "before\0after",
        "empty": "",
        "terminal": "\x1b[2J\x1b]0;title\x07\r\n\tname",
        "quotes": "\"'\\<>&{}%s%n$(true)`true`",
        "four_bytes": "\U0001f40d" * 3,
        "right_to_left": "\u202egnp.exe",
        "latin": "na\xefve caf\xe9",
        "frozen": "<frozen importlib._bootstrap>",
        "traversal": "../" * 40 + "etc/passwd",
    }


@act
def strange_code(seconds):
    """Functions whose file and name are strange, each run for a while."""

    def spin(end, now):
        while now() < end:
            pass
        return True

    names, right = strange_names(), True
    for name in names.values():
        code = spin.__code__.replace(co_name=name, co_filename=name)
        end = time.monotonic() + seconds / len(names)
        right &= type(spin)(code, {})(end, time.monotonic)
    return len(names), right


@act
def strange_lines(seconds):
    """Line numbers that are huge, and line tables that are empty, torn or noise."""

    def spin(end, now):
        while now() < end:
            pass
        return True

    table = "co_linetable" if sys.version_info >= (3, 10) else "co_lnotab"
    good = getattr(spin.__code__, table)
    noise = random.Random(1).randbytes
    changes = [{"co_firstlineno": 2**31 - 1}, {"co_firstlineno": 0}]
    changes += [{table: value} for value in (b"", good[:1], good[:-1], b"\xff" * 64, noise(200))]
    right = True
    for change in changes:
        code = spin.__code__.replace(**change)
        end = time.monotonic() + seconds / len(changes)
        right &= type(spin)(code, {})(end, time.monotonic)
    return len(changes), right


@act
def long_function(seconds):
    """One function of 60,000 lines: its line table is read from the start for every sample."""
    body = "\n".join("    x = (x * 31 + %d) %% 1000003" % i for i in range(60_000))
    space = {}
    exec(compile("def long(x):\n%s\n    return x\n" % body, "long.py", "exec"), space)
    results = {space["long"](1) for _ in until(seconds)}
    return len(results)


@act
def code_churn(seconds):
    """Code is compiled, run and dropped, so that another code object lies at the same address."""
    right = True
    for count in until(seconds):
        space = {}
        source = "\n" * (count % 50) + "def f_%d(n):\n  return sum(range(n)) + %d" % (count, count)
        exec(compile(source, "churn_%d.py" % (count % 7), "exec"), space)
        right &= space["f_%d" % count](200) == 19_900 + count
        del space
        if count % 64 == 0:
            gc.collect(0)
    return right


@act
def tracing(seconds):
    """The program traces and profiles itself: frames change under the reader's hands."""
    seen = set()

    def tracer(frame, event, argument):
        seen.add(event)
        return tracer

    def work(n):
        return sum(i * i for i in range(n))

    sys.settrace(tracer)
    sys.setprofile(lambda frame, event, argument: seen.add(event))
    try:
        totals = {work(100) for _ in until(seconds)}
    finally:
        sys.settrace(None)
        sys.setprofile(None)
    return totals, sorted(seen & {"call", "line", "return", "c_call"})


# ---- threads, processes, interpreters ----


@act
def thread_churn(seconds):
    """Threads that are created and gone, at 20,000 a minute."""
    done = []
    begin, count = time.monotonic(), int(seconds * THREADS_A_MINUTE / 60)
    for number in range(count):
        name = "short-%d" % number
        thread = threading.Thread(target=lambda: done.append(sum(range(50))), name=name)
        thread.start()
        if number % 8 == 7:
            thread.join()
        time.sleep(max(0.0, begin + number * 60 / THREADS_A_MINUTE - time.monotonic()))
    while len(done) < count:
        time.sleep(0.001)
    return len(done) == count, set(done)


@act
def forks(seconds):
    """Children that compute and leave by _exit, by sys.exit or by a signal."""
    right = True
    for count in until(seconds):
        pid = os.fork()
        if pid == 0:
            sum(i * i for i in range(5_000))
            if count % 3 == 2:
                os.kill(os.getpid(), signal.SIGKILL)
            os._exit(count % 3)
        status = os.waitpid(pid, 0)[1]
        expected = (0, 1 << 8, int(signal.SIGKILL))[count % 3]
        right &= status == expected
    return right


def interpreters_module():
    for name in ("_interpreters", "_xxsubinterpreters"):
        try:
            return importlib.import_module(name)
        except ImportError:
            continue
    return None


@act
def interpreters(seconds):
    """Interpreters that are made, compute beside the main one and are destroyed."""
    module = interpreters_module()
    if module is None:
        return "none here"
    script = "import time\nend = time.monotonic() + 0.05\nwhile time.monotonic() < end: pass\n"
    failures = []

    def life():
        try:
            interpreter = module.create()
            failure = module.run_string(interpreter, script)  # None, also where it cannot tell
            if failure is not None:
                failures.append(failure)
            module.destroy(interpreter)
        except Exception as failure:  # a report instead of a traceback on stderr
            failures.append(failure)

    for _ in until(seconds):
        threads = [threading.Thread(target=life) for _ in range(2)]
        for thread in threads:
            thread.start()
        sum(i * i for i in range(20_000))
        for thread in threads:
            thread.join()
    return failures


@act
def signals(seconds):
    """Two timers and their handlers, one of them by CPU time; the dispositions stay the program's own."""
    counts = {signal.SIGALRM: 0, signal.SIGPROF: 0}

    def handler(number, frame):
        counts[number] += 1
        sorted([3, 2, 1], key=lambda x: frame.f_lineno + x)

    timers = {signal.SIGALRM: signal.ITIMER_REAL, signal.SIGPROF: signal.ITIMER_PROF}
    before = {number: signal.signal(number, handler) for number in timers}
    for timer in timers.values():
        signal.setitimer(timer, 0.001, 0.001)
    total = sum(descend(30, 0) for _ in until(seconds))
    for _ in until(20):  # on a busy machine CPU time goes slowly
        if min(counts.values()) > 2:
            break
        descend(30, 0)
    for timer in timers.values():
        signal.setitimer(timer, 0)
    kept = all(signal.getsignal(number) is handler for number in timers)
    for number in timers:
        signal.signal(number, before[number])
    return total, kept, min(counts.values()) > 2


# ---- the end ----


def keep_running(kind):
    """What a daemon thread does while the interpreter goes away."""
    while True:
        if kind == 0:
            sum(i * i for i in range(1_000))
        elif kind == 1:
            time.sleep(0.0005)
        elif kind == 2:
            exec(compile("x = [i for i in range(100)]", "daemon.py", "exec"), {})
        else:
            descend(200, 0)


class Late:
    """Runs Python when the interpreter is already half gone."""

    def __del__(self):
        end = time.monotonic() + 0.1
        while time.monotonic() < end:
            pass


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("acts", nargs="*", metavar="ACT")
    parser.add_argument("--seconds", type=float, default=0.5)
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args()
    if options.list:
        print("\n".join(ACTS))
        return 0
    # Some versions warn of a fork beside threads, and count those of libraries, too.
    warnings.simplefilter("ignore", DeprecationWarning)
    pulse = GpuPulse()
    for name in options.acts or ACTS:
        print("%s: %s" % (name, ACTS[name](options.seconds)), flush=True)
    print("failed calls: %d" % pulse.stop(), flush=True)
    for kind in range(8):
        threading.Thread(target=keep_running, args=(kind % 4,), daemon=True).start()
    time.sleep(options.seconds / 2)
    sys.modules["late"] = Late()
    return EXIT_CODE


if __name__ == "__main__":
    sys.exit(main())
