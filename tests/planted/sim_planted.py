#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright the gpuprobe authors.
"""Planted bottlenecks on the simulated GPU, class by class: real Python, real worker processes, kernels of
scripted length.

    tests/sim/run-sim -- python3 tests/planted/sim_planted.py CLASS [SECONDS]      --list names the classes

Prints the line of JSON of tests/workloads/workload.py, and in it "starved": the share of the loop in which its
thread, or the child that had it worst, was ready to run and did not, because the machine was busy with something
else. A class is a function that sets things up and returns a Step. A planted line ends in a comment with its mark.
"""

import functools
import json
import os
import pickle
import random
import re
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import zlib

HERE = os.path.dirname(os.path.abspath(__file__))
# After PYTHONPATH: a caller may have put them where a framework lies, below site-packages.
sys.path += [os.path.join(HERE, "..", "sim"), os.path.join(HERE, "..", "workloads")]
from gpusim import Gpu  # noqa: E402
from sim_loader import Loader  # noqa: E402
from workload import lines_marked, report  # noqa: E402

GEMM = "_Z21ampere_sgemm_128x64_nPKfS0_Pfiii"
ELEMENTWISE = ("_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_15CUDAFunctor_addIfEESt5array"
               "IPcLm3EEEEviT0_T1_")
SOFTMAX = "_ZN2at6native12cunn_SoftMaxILi4EEEvPT_S2_"
US, MS, MIB = 1_000, 1_000_000, 1 << 20  # times in ns, sizes in bytes
SECONDS = 1.2
VOCABULARY = 4096
CLASSES = {}


class Step:
    """The body of a loop, and what is known of it.

    gpu_s: what one step keeps the GPU busy for. What the loop takes beyond is lost to what was planted; without
    gpu_s it is what was measured between begin() and end(). marks: the lines that are right, best first; of the
    measured ones the most expensive comes before them. behind: the mark of the other thread's or process's line
    that is behind it.
    """

    def __init__(self, *marks, gpu_s=None, behind=None):
        self.marks, self.gpu_s, self.behind = list(marks), gpu_s, behind
        self.by_mark, self._begin = {}, 0.0
        self.body = self.close = lambda: None

    def __call__(self):
        self.body()

    def begin(self):
        self._begin = time.perf_counter()

    def end(self, mark):
        took = time.perf_counter() - self._begin
        self.by_mark[mark] = self.by_mark.get(mark, 0.0) + took
        self._begin += took

    def share(self, steps, total_s):
        if self.gpu_s is not None:
            return 1 - steps * self.gpu_s / total_s
        return sum(self.by_mark.values()) / total_s

    def lines(self):
        marks = sorted(self.by_mark, key=self.by_mark.get, reverse=True) + self.marks
        return [line for mark in dict.fromkeys(marks) for line in lines_marked(__file__, mark)]


class Model:
    """A few large kernels on a stream of their own, as ordinary training has."""

    def __init__(self, gpu, kernels=4, kernel_ns=500 * US):
        self.gpu, self.kernels, self.kernel_ns = gpu, kernels, kernel_ns
        self.stream, self.gpu_s = gpu.stream(), kernels * kernel_ns * 1e-9

    def train_step(self):
        for _ in range(self.kernels):
            self.gpu.launch(GEMM, self.kernel_ns, self.stream, (32, 32), 256)  # launch


def planted(*kinds, line_required=True):
    """Registers a class: the kinds that its verdict may have, best first."""

    def register(function):
        CLASSES[function.__name__] = (function, list(kinds), line_required)
        return function

    return register


# ---- data loading ----


def decode(index, rounds):
    return sum((index * i + (i >> 3)) % 255 for i in range(rounds))  # decode


def load_batch(index, rounds=80_000):
    return bytes([decode(index, rounds) % 256]) * (64 << 10)


def next_batch(loader):
    return loader.next()  # next_batch


def loader_class(gpu, loader):
    model = Model(gpu)
    step = Step("next_batch", gpu_s=model.gpu_s, behind="decode")
    next_batch(loader)

    def body():
        next_batch(loader)
        gpu.copy("htod", 64 << 10, model.stream)
        model.train_step()

    step.body, step.close = body, loader.close
    return step


# On a machine with fewer CPUs than processes, workers that cannot keep up are short of CPUs, too.
SLOW_WORKERS = ("input_wait",) if len(os.sched_getaffinity(0)) >= 4 else ("input_wait", "cpu_starved")


@planted(*SLOW_WORKERS)
def slow_workers(gpu):
    """Two forked workers, who cannot keep up."""
    return loader_class(gpu, Loader(functools.partial(load_batch, rounds=160_000), 2))


@planted(*SLOW_WORKERS)
def spawned_workers(gpu):
    """The same with workers that start as new processes."""
    return loader_class(gpu, Loader(functools.partial(load_batch, rounds=160_000), 2, "spawn"))


@planted("cpu_starved", "input_wait")
def pinned_workers(gpu):
    """Four workers on one core: three of them are runnable and do not run."""
    core = max(os.sched_getaffinity(0))
    return loader_class(gpu, Loader(load_batch, 4, core=core))


# ---- the main thread is busy with something else ----


def tokenize(text):
    return [(31 * ord(a) + 17 * ord(b)) % VOCABULARY for a, b in zip(text, text[1:])]  # tokenize


@planted("host_python")
def tokenizing(gpu):
    """Pure Python on the main thread, ten milliseconds a step."""
    text = "".join(random.Random(0).choices("etaoin shrdlu,.cmfwyp", k=100_000))
    model = Model(gpu)
    step = Step("tokenize", gpu_s=model.gpu_s)

    def body():
        tokenize(text)
        model.train_step()

    step.body = body
    return step


def parse(document):
    return json.loads(document)  # parse


def days(document):
    return re.findall(r"\b(\d{4})-(\d\d)-(\d\d)\b", document)  # days


@planted("host_native", "host_python")
def json_records(gpu):
    """C extensions on the main thread, with the GIL: most of it json, the rest re."""
    document = json.dumps([{"id": i, "day": "2031-12-%02d" % (i % 28)} for i in range(12_000)])
    model = Model(gpu)
    step = Step("parse", "days", gpu_s=model.gpu_s)

    def body():
        parse(document)
        days(document[:50_000])
        model.train_step()

    step.body = body
    return step


# ---- the GIL ----


def count_remainders(counts):
    return [sum((c + i) % 7 for i in range(400)) % 1000 for c in counts]  # statistics


def wait_for_step(gpu, stream):
    gpu.sync(stream)  # wait_for_step


@planted("gil_wait")
def gil_fight(gpu):
    """A background thread computes in pure Python. Waiting for the GPU gives the GIL up, and getting it back
    takes a switch interval."""
    model = Model(gpu, kernels=2, kernel_ns=200 * US)
    step = Step("wait_for_step", "launch", gpu_s=model.gpu_s, behind="statistics")
    stop = threading.Event()

    def keep_statistics():
        counts = [0] * 97
        while not stop.is_set():
            counts = count_remainders(counts)

    statistics = threading.Thread(target=keep_statistics, name="statistics", daemon=True)
    statistics.start()

    def body():
        model.train_step()
        wait_for_step(gpu, model.stream)

    def close():
        stop.set()
        statistics.join()

    step.body, step.close = body, close
    return step


# ---- how work is submitted ----


def loss_value(gpu, stream):
    gpu.copy("dtoh", 4, stream)  # item-copy
    gpu.sync(stream)  # item


@planted("synchronisation")
def item_each_step(gpu):
    """The loss is read after every micro-step; then comes bookkeeping, shorter than the GPU's part, which would
    have run beside it."""
    model, recent = Model(gpu, kernels=2, kernel_ns=600 * US), [0.0] * 6000
    step = Step("item", "item-copy", gpu_s=model.gpu_s)

    def body():
        model.train_step()
        loss_value(gpu, model.stream)
        recent.append(sum(abs(x) for x in recent) / len(recent))
        del recent[0]

    step.body = body
    return step


def small_layers(gpu, stream, depth):
    for _ in range(depth):
        gpu.chatter(2)
        gpu.launch(ELEMENTWISE, 2 * US, stream, grid=8, block=128)  # layers


@planted("launch_bound")
def launch_bound(gpu):
    """Kernels of 2 us, each submitted in more than that."""
    gpu.set("launch_latency_ns", 1 * US)
    stream, depth = gpu.stream(), 100
    step = Step("layers", gpu_s=depth * 2e-6)
    step.body = lambda: small_layers(gpu, stream, depth)
    return step


def upload(gpu, stream):
    gpu.copy("htod", 64 * MIB, stream, pinned=False)  # upload


@planted("pageable_copy")
def pageable_copies(gpu):
    """Large batches from pageable memory: the driver stages them on the calling thread."""
    model = Model(gpu, kernels=2)
    gpu.prepare_copies(64 * MIB)
    step = Step("upload")

    def body():
        step.begin()
        upload(gpu, model.stream)
        step.end("upload")
        model.train_step()
        gpu.sync(model.stream)

    step.body = body
    return step


def take_memory(gpu, count):
    return [gpu.alloc(2 * MIB) for _ in range(count)]  # taking


def release_memory(gpu, pointers):
    for pointer in pointers:
        gpu.free(pointer)  # giving


@planted("blocking_api")
def empty_cache(gpu):
    """All memory goes back to the driver in every step, and is taken from it again."""
    model = Model(gpu, kernels=2, kernel_ns=300 * US)
    gpu.cost("cuMemAlloc", 200 * US)
    gpu.cost("cuMemFree", 500 * US)
    step = Step("giving", "taking", gpu_s=model.gpu_s)

    def body():
        pointers = take_memory(gpu, 8)
        model.train_step()
        release_memory(gpu, pointers)

    step.body = body
    return step


def hand_over(gpu, waiting, event):
    gpu.wait(waiting, event)  # hand-over


def turn(gpu, stream):
    gpu.launch(GEMM, 300 * US, stream, grid=(32, 32), block=256)  # turn
    gpu.host_function(lambda: None, stream)


# A hundred looks a second find the few microseconds of dispatch in most runs of this length, not in all.
@planted("dependency", line_required=False)
def stream_ping_pong(gpu):
    """Two streams with a stage on the CPU each, made to take turns by events; all of it queued far ahead."""
    gpu.set("host_function_ns", 1 * MS)
    streams, turns = [gpu.stream(), gpu.stream()], 10
    events = [gpu.event(timing=False) for _ in streams]
    far_enough = [gpu.event(timing=False).record(streams[1]) for _ in range(2)]
    step = Step("hand-over", "turn", gpu_s=turns * 2 * 300e-6)

    def body():
        for _ in range(turns):
            for mine, other in ((0, 1), (1, 0)):
                hand_over(gpu, streams[mine], events[other])
                turn(gpu, streams[mine])
                events[mine].record(streams[mine])
        # Two batches are in flight: the host waits for the older one.
        far_enough[0].record(streams[1])
        gpu.sync(far_enough[1])
        far_enough.reverse()

    step.body = body
    return step


# ---- not all the time ----


def save_checkpoint(step, path, weights):
    with open(path, "wb") as file:
        step.begin()
        pickle.dump(weights, file)  # checkpoint
        file.flush()
        step.end("checkpoint")
        os.fsync(file.fileno())  # checkpoint-disk
        step.end("checkpoint-disk")


@planted("periodic_stall")
def checkpoint(gpu):
    """Every thirtieth step is followed by a checkpoint; the GPU is busy otherwise."""
    model, folder = Model(gpu, kernels=16), tempfile.TemporaryDirectory()
    weights = {"layer.%d" % i: float(i) for i in range(600_000)}
    step, done = Step(), [0]

    def body():
        model.train_step()
        done[0] += 1
        if done[0] % 5 == 0:
            gpu.sync(model.stream)
        if done[0] % 30 == 0:
            save_checkpoint(step, os.path.join(folder.name, "model"), weights)

    step.body, step.close = body, folder.cleanup
    return step


COLD_STEPS = 12


def first_use(source):
    return zlib.compress(source, 9)  # first_use


@planted("warmup")
def warm_up(gpu):
    """The first steps compile something each, on the host, a fifth of a second in all; then the loop is healthy.
    So many steps, not so much time: where one of them took half of it, it would be set-up."""
    model, done = Model(gpu, kernels=8), [0]
    source = random.Random(0).randbytes(1 << 16) * 16
    step = Step()

    def body():
        done[0] += 1
        cold = done[0] <= COLD_STEPS
        if cold:
            step.begin()
            first_use(source)
            step.end("first_use")
        model.train_step()
        if cold or done[0] % 4 == 0:
            gpu.sync(model.stream)

    step.body = body
    return step


# ---- the GPU itself ----


@planted("gpu_bound")
def gpu_bound(gpu):
    """Nothing is planted: large kernels, submitted far ahead."""
    model = Model(gpu, kernels=16, kernel_ns=1 * MS)
    mark, step = gpu.event(timing=False), Step()

    def body():
        gpu.sync(mark.record(model.stream))
        model.train_step()
        model.train_step()

    step.body = body
    return step


def score(gpu, stream):
    gpu.launch(SOFTMAX, 1 * MS, stream, grid=4, block=1024)  # score


@planted("busy_but_empty", line_required=False)
def busy_but_empty(gpu):
    """Busy nearly all of the time, with kernels of four thread blocks."""
    stream, step = gpu.stream(), Step()

    def body():
        step.begin()
        for _ in range(12):
            score(gpu, stream)
        gpu.sync(stream)
        step.end("score")

    step.body = body
    return step


# ---- a server ----

REQUEST = struct.Struct("<I64f")
CLIENT = """
import socket, sys, time
with socket.create_connection(("127.0.0.1", int(sys.argv[1]))) as connection:
    number, begin = 0, time.monotonic()
    try:
        while True:
            connection.sendall(bytes(int(sys.argv[2])))
            number += 1
            time.sleep(max(0.0, begin + number * 0.02 - time.monotonic()))
    except OSError:
        pass
"""


def next_request(connection):
    return connection.recv(REQUEST.size, socket.MSG_WAITALL)  # request


@planted("request_wait")
def server(gpu):
    """An inference server whose client sends a request every 20 ms."""
    model, step = Model(gpu), Step()
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    client = subprocess.Popen([sys.executable, "-c", CLIENT, str(port), str(REQUEST.size)])
    connection, _ = listener.accept()

    def body():
        step.begin()
        next_request(connection)
        step.end("request")
        model.train_step()
        gpu.sync(model.stream)

    def close():
        connection.close()
        listener.close()
        client.wait()

    step.body, step.close = body, close
    return step


# ---- running ----


def seconds_without_cpu(task):
    """How long a task has been ready to run and waited for a CPU, so far."""
    try:
        with open(f"/proc/{task}/schedstat", encoding="ascii") as file:
            return int(file.read().split()[1]) * 1e-9
    except OSError:
        return 0.0


def children():
    """The pids of this process's children; none where the kernel does not list them."""
    try:
        with open("/proc/thread-self/children", encoding="ascii") as file:
            return file.read().split()
    except OSError:
        return []


def run(name, seconds):
    function, kinds, line_required = CLASSES[name]
    gpu = Gpu(settings={"launch_latency_ns": 4 * US})
    gpu.prepare_copies(64 << 10)
    for kernel in (GEMM, ELEMENTWISE, SOFTMAX):
        gpu.launch(kernel, 1 * US)
    gpu.sync()
    step = function(gpu)

    # Those who make the batches count as the thread that waits for them, unless that is what is planted.
    tasks = ["thread-self"] + (children() if kinds[0] != "cpu_starved" else [])
    before = [seconds_without_cpu(task) for task in tasks]
    steps, begin = 0, time.perf_counter()
    while time.perf_counter() - begin < seconds:
        step()
        steps += 1
    gpu.sync()
    total = time.perf_counter() - begin
    starved = max(seconds_without_cpu(task) - start for task, start in zip(tasks, before)) / total
    step.close()
    behind = lines_marked(__file__, step.behind)[0] if step.behind else None
    share, lines = step.share(steps, total), step.lines()
    report(kinds, lines, share, steps, total, behind, line_required, starved=round(starved, 4))


def main():
    if sys.argv[1:] == ["--list"]:
        print("\n".join(CLASSES))
        return
    run(sys.argv[1], float(sys.argv[2]) if len(sys.argv) > 2 else SECONDS)


if __name__ == "__main__":
    main()
