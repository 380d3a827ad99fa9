# SPDX-License-Identifier: Apache-2.0
"""CUPTI that fails, in every call and with every code: the host goes on, and the trace says what happened."""

import concurrent.futures
import glob
import itertools
import json
import os
import re

import host

ENDINGS = host.host("contract_endings")
COMMAND = [ENDINGS, "return_synchronized", "300"]
STATUS = 4

CODES = (1, 2, 7, 15, 35, 36, 38, 39, 999)
INVALID, NO_PRIVILEGES, TWO_SUBSCRIBERS = 1, 35, 39
PRIVILEGES = (NO_PRIVILEGES, 40)

# Without these nothing can be recorded; the rest costs only what it names.
VITAL = ("cuptiActivityRegisterCallbacks", "cuptiActivityEnable")
USEFUL = ("cuptiUnsubscribe", "cuptiActivitySetAttribute", "cuptiActivityGetAttribute", "cuptiActivityFlushAll",
          "cuptiActivityGetNumDroppedRecords", "cuptiGetTimestamp", "cuptiSetThreadIdType", "cuptiGetThreadIdType",
          "cuptiActivityEnableRuntimeApi", "cuptiActivityEnableDriverApi", "cuptiActivityEnableLatencyTimestamps",
          "cuptiActivityEnableHWTrace")


class FailureTest(host.ContractTest):
    def setUp(self):
        super().setUp()
        self.need_simulation()

    def run_with(self, fault, name=None, env=None):
        """(result, truth) of a host that works while CUPTI fails."""
        name = name or "one"
        truth = self.folder(f"truth-{name}") / "truth.json"
        result = self.run_host(COMMAND, sim=True, fault=fault, folder=self.folder(f"run-{name}"),
                               out=self.root / f"out-{name}", env=dict(env or {}, GPUSIM_TRUTH=str(truth)))
        self.assertEqual((result.status, result.stdout), (STATUS, b"launched 300\n"), (fault, result.stderr))
        self.assertEqual(result.stderr, b"ends by return_synchronized\n", fault)
        return result, json.loads(truth.read_text())

    def assert_off(self, fault, *words):
        result, truth = self.run_with(fault)
        trace = self.only_trace(result)
        for word in words:
            self.assertIn(word, trace.off_reason)
        self.assertEqual((trace.kernels, trace.end_reason), (0, "off"))
        return trace, truth

    def called(self, truth):
        return [call["name"] for call in truth["cupti_calls"]]


class MatrixTest(FailureTest):
    def check_all(self, functions, check):
        """check(function, code, trace, names of the calls made) for each function that fails with each code."""
        cases = list(itertools.product(functions, CODES))
        faults = [f"{function}:fail:{code}" for function, code in cases]
        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            names = (f"{function}-{code}" for function, code in cases)
            # With latency timestamps and hardware trace every function is called.
            env = {"GPUPROBE_LATENCY_TIMESTAMPS": "1", "GPUPROBE_HW_TRACE": "1"}
            outcomes = list(pool.map(lambda fault, name: self.run_with(fault, name, env), faults, names))
        for (function, code), (result, truth) in zip(cases, outcomes):
            with self.subTest(function=function, code=code):
                self.assertEqual(truth["violations"], [])
                called = self.called(truth)
                self.assertTrue(function in called, f"{function} was not called")
                self.assertFalse("cuptiFinalize" in called)
                check(function, code, self.only_trace(result), called)

    def test_a_call_without_which_nothing_works_fails(self):
        def check(function, code, trace, called):
            self.assertIn(function, trace.off_reason)
            self.assertEqual((trace.kernels, trace.end_reason), (0, "off"))
        self.check_all(VITAL, check)

    def test_any_other_call_fails_and_kernels_are_recorded(self):
        def check(function, code, trace, called):
            self.assertEqual((trace.off_reason, trace.end_reason), ("", "exit"))
            if function != "cuptiActivityFlushAll":
                self.assertEqual(trace.kernels, 300)
        self.check_all(USEFUL, check)

    def test_subscribing_fails_and_the_other_tool_keeps_its_buffers(self):
        def check(function, code, trace, called):
            if code in PRIVILEGES:
                return  # says nothing about another client: activities may work all the same
            self.assertIn(function, trace.off_reason)
            self.assertFalse("cuptiActivityRegisterCallbacks" in called)
            self.assertFalse("cuptiActivityEnable" in called)
            self.assertEqual(called.count("cuptiSubscribe"), 1)
        self.check_all(("cuptiSubscribe",), check)


class ReasonTest(FailureTest):
    def test_another_subscriber_is_named_and_left_alone(self):
        trace, truth = self.assert_off(f"cuptiSubscribe:fail:{TWO_SUBSCRIBERS}", "another profiler", "39")
        self.assertEqual(self.called(truth).count("cuptiSubscribe"), 1)
        self.assertEqual(trace.outcomes(8).get("SUBSCRIBE_PROBE"), TWO_SUBSCRIBERS)

    def test_missing_privileges_name_the_remedies(self):
        self.assert_off(f"cuptiActivityEnable:fail:{NO_PRIVILEGES}", "NVreg_RestrictProfilingToAdminUsers", "root")

    def test_every_kind_can_be_refused_alone(self):
        names = None
        baseline = self.only_trace(self.run_with(None)[0]).outcomes()
        self.assertEqual(set(baseline.values()), {0})
        _, truth = self.run_with(None)
        kinds = [call["argument"] for call in truth["cupti_calls"] if call["name"] == "cuptiActivityEnable"]
        self.assertEqual(len(set(kinds)), len(baseline))
        for kind in kinds:
            with self.subTest(kind=kind):
                result, truth = self.run_with(f"cuptiActivityEnable:fail:{INVALID}::{kind}", f"kind{kind}")
                trace = self.only_trace(result)
                refused = [name for name, outcome in trace.outcomes().items() if outcome != 0]
                self.assertEqual(len(refused), 1)
                names = (names or set()) | set(refused)
                self.assertEqual(truth["violations"], [])
        self.assertEqual(names, set(baseline))

    def test_the_serialising_kernel_kind_is_never_enabled(self):
        _, truth = self.run_with(None)
        kinds = {call["argument"] for call in truth["cupti_calls"] if call["name"] == "cuptiActivityEnable"}
        self.assertNotIn(3, kinds)
        self.assertIn(10, kinds)

    def test_success_with_a_null_subscriber_does_no_harm(self):
        result, _ = self.run_with("cuptiSubscribe:null")
        self.assertTrue(self.only_trace(result).is_healthy)

    def test_a_cupti_that_delivers_nothing_leaves_launches_without_kernels(self):
        # Reports see launches and no kernel, and say so; here: the launches are there to be seen.
        result, _ = self.run_with("records:missing")
        trace = self.only_trace(result)
        self.assertEqual(trace.kernels, 0)
        self.assertGreater(trace.count(host.traces.API), 0)

    def test_dropped_records_are_recorded_as_such(self):
        result, truth = self.run_with("buffers:drop")
        trace = self.only_trace(result)
        self.assertEqual(trace.losses[host.traces.CUPTI_DROPPED], truth["counts"]["records_dropped"])

    def test_capture_that_is_switched_off_leaves_cupti_alone(self):
        result, truth = self.run_with(None, env={"GPUPROBE_CAPTURE": "0"})
        trace = self.only_trace(result)
        self.assertEqual(trace.off_reason, "GPUPROBE_CAPTURE is off")
        self.assertEqual((trace.kernels, trace.end_reason), (0, "exit"))
        self.assertGreater(len(trace.packets[host.traces.USAGE]), 1)
        self.assertEqual(trace.packets[host.traces.HOST_SAMPLES], [])
        self.assertEqual(self.called(truth), [])



class NoCuptiTest(FailureTest):
    """Where the machine has a libcupti of its own it is hidden: it must not meet the simulated driver."""

    def check(self, *words, **more):
        result = self.run_host(self.hidden(COMMAND), sim=True, **more)
        self.assertEqual((result.status, result.stderr), (STATUS, b"ends by return_synchronized\n"))
        trace = self.only_trace(result)
        self.assertEqual((trace.kernels, trace.end_reason), (0, "off"))
        for word in words:
            self.assertIn(word, trace.off_reason)

    def hidden(self, command):
        cache = self.run_host(["/sbin/ldconfig", "-p"], "none").stdout.decode()
        known = re.findall(r"libcupti.* => (\S+)", cache) + glob.glob("/usr/local/cuda*")
        if not known:
            return command
        if any(not os.path.realpath(path).startswith("/usr/local/") for path in known):
            self.skipTest(f"a real libcupti cannot be hidden: {known}")
        if self.run_host(["unshare", "-m", "true"], "none").status != 0 or str(host.BUILD).startswith("/usr/local"):
            self.skipTest("no mount namespaces here")
        return ["unshare", "-m", "sh", "-c", "mount -t tmpfs none /usr/local && exec \"$@\"", "sh", *command]

    def test_no_libcupti_is_found(self):
        folder = self.folder("driver alone")
        os.symlink(host.BUILD / "sim/lib/libcuda.so.1", folder / "libcuda.so.1")
        self.check("no usable libcupti", env={"LD_LIBRARY_PATH": folder})

    def test_the_one_that_is_found_cannot_tell_its_version(self):
        for code in CODES:
            with self.subTest(code=code):
                self.check("no usable libcupti", "cuptiGetVersion", fault=f"cuptiGetVersion:fail:{code}")

    def test_the_one_that_is_found_is_a_stub_without_functions(self):
        folder = self.folder("stubs")
        os.symlink(host.BUILD / "sim/lib/libcuda.so.1", folder / "libcuda.so.1")
        os.symlink(host.HOSTS / "libcontract_other1.so", folder / "libcupti.so.13")
        self.check("no usable libcupti", "lacks cupti", env={"LD_LIBRARY_PATH": folder})


class SettingsTest(FailureTest):
    def test_malformed_and_unknown_settings_are_ignored_and_recorded(self):
        settings = {"GPUPROBE_FLUSH_MS": "soon", "GPUPROBE_MEMORY_MB": "7", "GPUPROBE_KERNELS": "perhaps",
                    "GPUPROBE_CUPTI_PATH": "/x" * 2000, "GPUPROBE_NOPE": "1"}
        trace = self.only_trace(self.run_with(None, env=settings)[0])
        self.assertEqual(trace.kernels, 300)
        for name in settings:
            self.assertEqual(sum(name in warning for warning in trace.warnings), 1, name)


class RecordTest(FailureTest):
    """Records as no CUPTI should write them."""

    def test_nothing_that_is_in_a_buffer_can_hurt(self):
        faults = ("records:zero", "records:sentinel", "records:skew", "records:early", "records:unknown",
                  "names:null", "names:unmapped", "names:garbage", "names:long", "names:empty", "buffers:oversize",
                  "buffers:tail", "buffers:empty", "buffers:twice", "buffers:foreign", "buffers:scribble")
        for fault in faults:
            with self.subTest(fault=fault):
                result, _ = self.run_with(fault, fault.replace(":", "-"))
                self.assertTrue(self.only_trace(result).is_healthy)
