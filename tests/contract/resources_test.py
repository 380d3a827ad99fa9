# SPDX-License-Identifier: Apache-2.0
"""Memory, interrupted calls, and nothing of the host's that is used up."""

import json
import sys

import host
import traces

MEMORY = host.host("contract_memory")
INTERRUPTS = host.host("contract_interrupts")
MIB = 1 << 20


class MemoryTest(host.ContractTest):
    def setUp(self):
        super().setUp()
        self.need_simulation()

    def measure(self, threads, launches, env=None, probe="preload", waves=0, pause_ms=0):
        command = [MEMORY] + [str(number) for number in (threads, launches, waves, pause_ms)]
        result = self.run_host(command, probe, sim=True, env=env, timeout=120)
        self.assertEqual((result.status, result.stderr), (0, b""))
        return result, result.fields()

    def test_two_hundred_launching_threads_stay_below_the_cap(self):
        _, without = self.measure(200, 500, probe="none")
        result, fields = self.measure(200, 500)
        growth = fields["process_resident"] - without["process_resident"]
        print(f"200 threads: mapped {fields['mapped'] / MIB:.1f} MiB, of that resident "
              f"{fields['resident'] / MIB:.1f} MiB; the process is {growth / MIB:.1f} MiB larger", flush=True)
        self.assertGreater(fields["mapped"], 10 * MIB)
        self.assertLessEqual(fields["mapped"], 64 * MIB)
        self.assertLessEqual(growth, 64 * MIB)
        trace = self.only_trace(result)
        # What did not fit is counted; what did is there.
        if not trace.losses:
            self.assertEqual(trace.kernels, fields["launched"])

    def test_five_hundred_launching_threads_lose_nothing_below_the_cap(self):
        # 25,000 launches a second; CUPTI holds a buffer for each of the threads all along.
        result, fields = self.measure(500, 20, pause_ms=20)
        self.assertLessEqual(fields["mapped"], 64 * MIB)
        trace = self.only_trace(result)
        self.assertEqual((trace.kernels, dict(trace.losses)), (fields["launched"], {}))

    def test_threads_that_come_and_go_lose_nothing(self):
        # 5,000 in about a second: each leaves a buffer with CUPTI.
        result, fields = self.measure(20, 5, waves=250)
        trace = self.only_trace(result)
        self.assertEqual((trace.kernels, dict(trace.losses)), (fields["launched"], {}))

    def test_the_smallest_cap_is_kept_too(self):
        result, fields = self.measure(100, 300, {"GPUPROBE_MEMORY_MB": "32"})
        self.assertLessEqual(fields["mapped"], 32 * MIB)
        self.assertTrue(self.only_trace(result).is_healthy)

    def test_buffers_that_run_out_are_counted(self):
        result, fields = self.measure(200, 300, {"GPUPROBE_MEMORY_MB": "32", "GPUPROBE_BUFFER_KB": "1024"})
        trace = self.only_trace(result)
        lost = trace.losses[traces.POOL_EXHAUSTED] + trace.losses[traces.CUPTI_DROPPED]
        self.assertGreater(lost, 0)
        self.assertLess(trace.kernels, fields["launched"])

    def test_buffers_that_do_not_fit_into_the_cap_are_made_smaller(self):
        result, fields = self.measure(2, 300, {"GPUPROBE_MEMORY_MB": "32", "GPUPROBE_BUFFER_KB": "16384"})
        self.assertLessEqual(fields["mapped"], 32 * MIB)
        trace = self.only_trace(result)
        self.assertEqual(trace.kernels, fields["launched"])
        self.assertEqual(sum("GPUPROBE_BUFFER_KB reduced" in warning for warning in trace.warnings), 1)

    def test_buffers_of_any_size_are_whole_pages(self):
        result, fields = self.measure(2, 300, {"GPUPROBE_BUFFER_KB": "17"})
        trace = self.only_trace(result)
        self.assertEqual(trace.kernels, fields["launched"])
        self.assertFalse(trace.losses)

    def test_no_memory_is_taken_from_the_heap_after_the_start(self):
        _, fields = self.measure(8, 3000, {"GPUPROBE_FLUSH_MS": "20"})
        self.assertEqual(fields["its_thread"], 1)
        self.assertGreater(fields["mallocs_by_others"], 0)
        self.assertEqual((fields["mallocs_by_library"], fields["mallocs_on_its_thread"]), (0, 0))

    def test_the_trace_says_how_much_was_reserved(self):
        result, fields = self.measure(2, 100)
        cost = self.only_trace(result).packets[traces.COST][-1]
        self.assertGreaterEqual(traces.one(cost, 8), fields["mapped"])
        self.assertLessEqual(traces.one(cost, 8), 64 * MIB)


class InterruptTest(host.ContractTest):
    def test_no_blocking_call_of_the_host_is_interrupted(self):
        self.need_simulation()
        result = self.run_host([INTERRUPTS], sim=True, env={"GPUPROBE_FLUSH_MS": "20"})
        self.assertEqual((result.status, result.stderr), (0, b""))
        fields = result.fields()
        self.assertGreater(fields["calls"], 50)
        self.assertEqual((fields["interrupted"], fields["early"]), (0, 0))
        self.assertTrue(self.only_trace(result).is_healthy)


OURS = ("gpuprobe", "gpuprobe-sample")

LOOK = host.CUDA_IN_PYTHON + """
import locale
work(100)
def names():
    return {open("/proc/self/task/%s/comm" % t).read().strip(): t for t in os.listdir("/proc/self/task")}
OURS = ("gpuprobe", "gpuprobe-sample")
while "LD_PRELOAD" in os.environ and not names().keys() >= set(OURS):
    time.sleep(0.02)  # they name themselves when they first run
for line in open("/proc/self/status"):
    if line.startswith(("SigBlk", "Uid", "Umask", "Seccomp", "NoNewPrivs")):
        print(line.strip())
    if line.startswith(("SigIgn", "SigCgt")):
        # Signals 32 and 33 are libc's own: it catches them from the first thread on, also where they were
        # inherited as ignored.
        print(line.split()[0], hex(int(line.split()[1], 16) & ~(3 << 31)))
print(os.getcwd(), locale.setlocale(locale.LC_ALL), os.nice(0), sorted(os.sched_getaffinity(0)))
tasks = names()
print(sorted(n for n in tasks if n not in OURS))
for name in OURS:
    with open(name, "w") as out:
        if name in tasks:
            out.writelines(open("/proc/self/task/%s/status" % tasks[name]))
"""


STACKS = """
import ctypes, sys
size = int(sys.argv[1])
libc, attributes = ctypes.CDLL(None), ctypes.create_string_buffer(64)
made = libc.pthread_attr_init(attributes) == 0 == libc.pthread_attr_setstacksize(attributes, ctypes.c_size_t(size))
print(made and libc.pthread_setattr_default_np(attributes))
""" + host.CUDA_IN_PYTHON + """
work(100)
def room(task):
    "Bytes below the stack pointer of a thread that is blocked; 0 where it is not."
    words = open("/proc/self/task/%s/syscall" % task).read().split()
    pointer = int(words[-2], 16) if len(words) > 2 else 0
    for line in open("/proc/self/maps"):
        begin, end = (int(word, 16) for word in line.split()[0].split("-"))
        if begin <= pointer < end:
            return pointer - begin
    return 0
found = {}
until = time.monotonic() + 60
while len(found) < 2 and time.monotonic() < until:
    for task in os.listdir("/proc/self/task"):
        name = open("/proc/self/task/%s/comm" % task).read().strip()
        bytes = room(task) if name.startswith("gpuprobe") else 0
        if bytes > 0:
            found[name] = bytes >> 10
    time.sleep(0.01)
print(*found.values())
"""


class ProcessTest(host.ContractTest):
    """A process that uses CUDA, seen from within."""

    def setUp(self):
        super().setUp()
        self.need_simulation()

    def look(self, probe):
        script = self.root / "look.py"
        script.write_text(LOOK)
        result = self.run_host([sys.executable, script], probe, sim=True, env={"GPUPROBE_FLUSH_MS": "20"})
        return result, [(result.folder / name).read_text() for name in OURS]

    def test_signals_limits_and_place_are_what_they_were(self):
        without, _ = self.look("none")
        watched, _ = self.look("preload")
        self.assertEqual(watched.seen, without.seen)
        self.assertEqual(watched.status, 0)

    def test_there_are_two_threads_more_and_no_signal_reaches_them(self):
        _, statuses = self.look("preload")
        for name, status in zip(OURS, statuses):
            fields = dict(line.split(":", 1) for line in status.splitlines())
            self.assertEqual(fields["Name"].strip(), name)
            # All but SIGKILL, SIGSTOP and the two that libc keeps for itself.
            always_open = (1 << 8) | (1 << 18) | (1 << 30) | (1 << 31) | (1 << 32)  # KILL, STOP, SYS, libc's
            self.assertEqual(int(fields["SigBlk"].strip(), 16) | always_open, (1 << 64) - 1)

    def test_the_stacks_of_its_threads_are_not_what_the_host_has_set_for_its_own(self):
        for size in ("16384", str(64 * MIB)):
            self.check_room(size)

    def test_cuda_may_be_initialised_on_a_small_stack(self):
        command = [host.host("contract_small_stack"), "20"]
        if self.run_host(command, "none", sim=True).stdout != b"result=0\n":
            self.skipTest("the simulated driver itself needs more")
        result = self.run_host(command, sim=True)
        self.assertEqual((result.status, result.stdout, result.stderr), (0, b"result=0\n", b""))

    def check_room(self, size):
        result = self.run_host([sys.executable, "-c", STACKS, size], sim=True, env={"GPUPROBE_FLUSH_MS": "20"})
        self.assertEqual((result.status, result.stderr), (0, b""))
        worked, room_kib = result.stdout.splitlines()
        self.assertEqual(worked, b"0")
        for kib in room_kib.split():
            self.assertGreater(int(kib), 1800)
            self.assertLess(int(kib), 2048)
        self.assertEqual(len(room_kib.split()), 2)

    def test_a_driver_that_is_loaded_but_not_initialised_brings_nothing(self):
        program = ("import ctypes, os; ctypes.CDLL('libcuda.so.1'); print(len(os.listdir('/proc/self/task')));"
                   "print('cupti' in open('/proc/self/maps').read())")
        _, watched = self.assert_cannot_tell([sys.executable, "-c", program], sim=True)
        self.assertEqual(watched.stdout, b"1\nFalse\n")
        self.assertEqual(watched.traces, [])


class ContentionTest(host.ContractTest):
    def setUp(self):
        super().setUp()
        self.need_simulation()

    def check(self, *options):
        """(trace, kernels launched, truth); what is not in the trace is counted there to the last record."""
        truth_file = self.folder("truth") / "truth.json"
        result = self.run_host([host.host("contract_launch"), "ms=300", *options], sim=True,
                               env={"GPUPROBE_FLUSH_MS": "20", "GPUSIM_TRUTH": str(truth_file)})
        trace, truth = self.only_trace(result), json.loads(truth_file.read_text())
        self.assertEqual((result.status, trace.end_reason), (0, "exit"))
        self.assertEqual(truth["violations"], [])
        self.assertEqual(trace.losses[traces.CUPTI_DROPPED], truth["counts"]["records_dropped"])
        return trace, result.fields()["launched"], truth

    def test_32_threads_that_leave_no_core_idle_are_recorded_or_counted(self):
        trace, launched, truth = self.check("threads=32")
        print(f"32 threads: {launched} launches, {truth['counts']['records_dropped']} records dropped", flush=True)
        self.assertEqual(trace.kernels + truth["records_by_kind"]["10"]["dropped"], launched)

    def test_32_threads_with_pauses_lose_nothing(self):
        trace, launched, _ = self.check("threads=32", "batch=4", "pause_ms=2")
        self.assertEqual((trace.kernels, sum(trace.losses.values())), (launched, 0))
