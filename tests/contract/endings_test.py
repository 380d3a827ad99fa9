# SPDX-License-Identifier: Apache-2.0
"""However a process ends: same status, same output, in bounded time, and what it did is in its trace."""

import concurrent.futures
import json
import time

import host

LAUNCHES = 1000

# Endings that run exit handlers: their trace is complete and closed. The rest loses at most a flush period.
ORDERLY = ("return", "return_synchronized", "exit", "exit_in_thread", "exit_in_signal_handler",
           "exit_in_exit_handler", "exit_in_host_function", "cuda_in_exit_handler", "cuda_in_static_destructor",
           "main_thread_leaves_first", "main_thread_leaves_last", "raw_exit_of_the_main_thread")
ABRUPT = ("_exit", "exit_group", "quick_exit", "abort", "throw", "segmentation_fault", "null_pointer", "sigterm",
          "sigint", "sigkill", "sigpipe", "exec", "alarm", "raw_exit_of_all_threads")
PROGRAM = host.host("contract_endings")


class EndingTest(host.ContractTest):
    """One test an ending, added below."""

    def setUp(self):
        super().setUp()
        self.need_simulation()


def _ending_test(ending, orderly):
    def test(self):
        _, watched = self.assert_cannot_tell([PROGRAM, ending, str(LAUNCHES)], sim=True)
        self.assertIn(b"ends by " + ending.encode(), watched.stderr)
        for trace in watched.traces:
            self.assertTrue(trace.is_healthy, trace.damage)
        if orderly:
            trace = self.only_trace(watched)
            self.assertEqual(trace.end_reason, "exit")
            self.assertEqual(sum(trace.losses.values()), 0, trace.losses)
            self.assertGreaterEqual(trace.kernels, LAUNCHES)
    return test


def _busy_ending_test(ending):
    def test(self):
        _, watched = self.assert_cannot_tell([PROGRAM, ending, "100", "8"], sim=True)
        for trace in watched.traces:
            self.assertTrue(trace.is_healthy, trace.damage)
    return test


def _door_test(ending):
    def test(self):
        for door in ("injection", "both"):
            with self.subTest(door=door):
                _, watched = self.assert_cannot_tell([PROGRAM, ending, str(LAUNCHES)], probe=door, sim=True)
                self.assertEqual(self.only_trace(watched).kernels, LAUNCHES)
    return test


for _ending in ORDERLY + ABRUPT:
    setattr(EndingTest, f"test_{_ending.strip('_')}", _ending_test(_ending, _ending in ORDERLY))
for _ending in ("return", "exit", "exit_in_thread", "_exit", "abort", "sigterm", "exit_in_exit_handler"):
    setattr(EndingTest, f"test_{_ending.strip('_')}_while_eight_threads_launch", _busy_ending_test(_ending))
for _ending in ("return", "exit_in_thread"):
    setattr(EndingTest, f"test_{_ending}_through_the_other_doors", _door_test(_ending))


class ListTest(host.ContractTest):
    def test_every_ending_of_the_host_program_has_a_test(self):
        listed = self.run_host([PROGRAM], "none").stdout.decode().split()
        self.assertEqual(sorted(listed), sorted(ORDERLY + ABRUPT))


class BoundedEndTest(host.ContractTest):
    """The end of the host waits for nothing that does not come."""

    def setUp(self):
        super().setUp()
        self.need_simulation()

    def check(self, fault, ending="return_synchronized", status=4, env=None):
        command = [PROGRAM, ending, str(LAUNCHES)]
        result = self.run_host(command, sim=True, fault=fault, env=env)
        self.assertEqual(result.status, status, result.stderr)
        self.assertEqual(result.stdout, b"launched %d\n" % LAUNCHES)
        self.assertLess(result.seconds, host.FINAL_FLUSH_SECONDS + host.SLACK_SECONDS)
        return result

    def test_every_flush_hangs(self):
        for ending, status in (("return_synchronized", 4), ("exit_in_thread", 21), ("exit_in_host_function", 24)):
            with self.subTest(ending=ending):
                result = self.check("cuptiActivityFlushAll:hang", ending, status)
                self.assertEqual([trace for trace in result.traces if trace.is_closed], [])

    def test_the_last_flush_hangs_after_good_ones(self):
        result = self.check("cuptiActivityFlushAll:hang:4", "return_synchronized", 4, {"GPUPROBE_FLUSH_MS": "20"})
        for trace in result.traces:
            self.assertTrue(trace.is_healthy, trace.damage)

    def test_every_flush_takes_a_second(self):
        self.check("cuptiActivityFlushAll:sleep:1000")

    def test_counting_drops_hangs(self):
        self.check("cuptiActivityGetNumDroppedRecords:hang")

    def test_the_clock_hangs_later_on(self):
        # The first readings belong to the start, where the host waits for its own cuInit.
        self.check("cuptiGetTimestamp:hang:20", env={"GPUPROBE_FLUSH_MS": "20"})

    def test_a_kernel_that_never_ends_is_recorded_as_unfinished(self):
        result = self.check(None, "return", 0, {"GPUSIM_SET": "kernel_ns=60000000000"})
        trace = self.only_trace(result)
        self.assertEqual(trace.end_reason, "exit")
        self.assertGreater(trace.unfinished_kernels, 0)

    def test_buffers_delivered_by_an_exit_handler_are_taken_and_lead_nowhere(self):
        result = self.check("buffers:at_exit")
        self.assertTrue(self.only_trace(result).is_healthy)

    def test_buffers_delivered_by_an_exit_handler_with_perturbed_memory(self):
        self.check("buffers:at_exit", env={"MALLOC_PERTURB_": "165", "MALLOC_CHECK_": "3"})

    def test_buffers_delivered_late_and_from_a_thread_of_cupti(self):
        for fault in ("buffers:late", "buffers:thread"):
            with self.subTest(fault=fault):
                self.check(fault)

    def test_cupti_writes_into_buffers_that_it_never_gave_back(self):
        self.check("buffers:scribble")


class RulesTest(host.ContractTest):
    """What CUPTI asks of its clients, kept in every ending that lets the simulation write down the truth."""

    def setUp(self):
        super().setUp()
        self.need_simulation()

    def check(self, ending, threads=0):
        truth = self.folder("truth-" + ending) / "truth.json"
        self.run_host([PROGRAM, ending, "2000", str(threads)], sim=True, folder=self.folder("run-" + ending),
                      out=self.root / f"out-{ending}", env={"GPUSIM_TRUTH": str(truth)})
        return json.loads(truth.read_text())

    def test_no_rule_of_cupti_is_broken_and_it_is_never_finalised(self):
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            truths = list(pool.map(self.check, ORDERLY))
        for ending, truth in zip(ORDERLY, truths):
            with self.subTest(ending=ending):
                self.assertEqual(truth["violations"], [])
                called = {call["name"] for call in truth["cupti_calls"]}
                self.assertIn("cuptiActivityFlushAll", called)
                self.assertNotIn("cuptiFinalize", called)
                self.assertNotIn("cuptiActivityRegisterTimestampCallback", called)

    def test_the_probe_calls_cupti_only_from_its_thread_after_the_start(self):
        truth = self.check("return_synchronized")
        calls = truth["cupti_calls"]
        flushes = {call["thread"] for call in calls if call["name"] == "cuptiActivityFlushAll"}
        self.assertEqual(len(flushes), 1)
        enabled = {call["thread"] for call in calls if call["name"] == "cuptiActivityEnable"}
        self.assertEqual(len(enabled), 1)
        self.assertNotEqual(flushes, enabled)


class LatencyTest(host.ContractTest):
    def test_an_end_in_order_does_not_wait_for_a_period(self):
        """With a flush period of a minute, the end comes long before it."""
        self.need_simulation()
        begin = time.monotonic()
        result = self.run_host([PROGRAM, "return_synchronized", str(LAUNCHES)], sim=True,
                               env={"GPUPROBE_FLUSH_MS": "60000"})
        self.assertLess(time.monotonic() - begin, 30)
        self.assertEqual(self.only_trace(result).kernels, LAUNCHES)
