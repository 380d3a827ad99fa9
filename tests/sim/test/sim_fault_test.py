# SPDX-License-Identifier: Apache-2.0
# Copyright the gpuprobe authors.
"""Every planted fault does what README.md says, and nothing else."""

import subprocess
import unittest

from harness import SimTestCase

CLIENT = "from cupti_client import Client\ngpu, client = Gpu(), Client(%s)\n"
TEN_KERNELS = (
    "client.start(10)\nfor i in range(10): gpu.launch('k', 1_000)\ngpu.sync(); client.flush()\n"
)


class FaultTestCase(SimTestCase):
    def client(self, fault, source, size="", **keywords):
        keywords.setdefault("recorder", False)
        return self.scenario(CLIENT % size + source, "--fault", fault, **keywords)


class CallFaultsTest(FaultTestCase):
    def test_a_call_fails_every_time(self):
        run = self.client(
            "cuptiActivityEnable:fail:35",
            "out([client.code('cuptiActivityEnable', kind) for kind in (10, 5)])",
        )
        self.assertEqual(run.result, [35, 35])

    def test_a_call_fails_the_kth_time_only(self):
        run = self.client(
            "cuptiActivityEnable:fail:15:2",
            "out([client.code('cuptiActivityEnable', kind) for kind in (10, 5, 38)])",
        )
        self.assertEqual(run.result, [0, 15, 0])

    def test_a_call_fails_for_one_argument_only(self):
        run = self.client(
            "cuptiActivityEnable:fail:27:0:5",
            "out([client.code('cuptiActivityEnable', kind) for kind in (10, 5, 38, 5)])",
        )
        self.assertEqual(run.result, [0, 27, 0, 27])

    def test_several_faults_at_once(self):
        run = self.client(
            "cuptiGetVersion:fail:999;cuptiGetTimestamp:fail:15",
            "v = ctypes.c_uint64(); r = ctypes.byref(v)\n"
            "out([client.code('cuptiGetVersion', r), client.code('cuptiGetTimestamp', r)])",
        )
        self.assertEqual(run.result, [999, 15])

    def test_a_call_succeeds_without_effect(self):
        run = self.client(
            "cuptiActivityEnable:silent:1", TEN_KERNELS + "out(len(client.records()))"
        )
        self.assertEqual(run.result, 0)

    def test_subscribe_succeeds_with_a_null_handle(self):
        run = self.client(
            "cuptiSubscribe:null",
            "h = ctypes.c_void_p(7)\nout([client.code('cuptiSubscribe', ctypes.byref(h), None, None), h.value])",
        )
        self.assertEqual(run.result, [0, None])

    def test_a_call_sleeps(self):
        run = self.client(
            "cuptiFinalize:sleep:50",
            "t = time.monotonic_ns(); client.ok('cuptiFinalize')\n"
            "out([time.monotonic_ns() - t >= 50_000_000, gpu.count('cuptiFinalize')])",
        )
        self.assertEqual(run.result, [True, 1])

    def test_a_call_hangs(self):
        with self.assertRaises(subprocess.TimeoutExpired):
            self.client("cuptiActivityFlushAll:hang", TEN_KERNELS, timeout=3)

    def test_a_call_crashes(self):
        self.client("cuptiActivityFlushAll:crash", TEN_KERNELS, code=-6)  # SIGABRT

    def test_driver_and_runtime_calls_fail_too(self):
        run = self.client(
            "cuLaunchKernel:fail:719:2;cudaGetDevice:fail:100",
            "codes = []\n"
            "for _ in range(3):\n"
            "  try: gpu.launch('k', 5); codes.append(0)\n"
            "  except CudaError as e: codes.append(e.code)\n"
            "out(codes + [gpu.try_call('cudaGetDevice', ctypes.byref(ctypes.c_int()))])",
        )
        self.assertEqual(run.result, [0, 719, 0, 100])
        self.assertEqual(len(run.ops("kernel")), 2)

    def test_a_misspelt_fault_is_a_violation(self):
        run = self.client("cuptiActivityEnable:fial:35", "out(gpu.violations())")
        self.assertEqual(run.result, ["GPUSIM_FAULT not understood: cuptiActivityEnable:fial:35"])


class BufferFaultsTest(FaultTestCase):
    def test_every_nth_record_is_dropped_and_counted(self):
        run = self.client(
            "buffers:drop:5", TEN_KERNELS + "out([len(client.records()), client.dropped()])"
        )
        self.assertEqual(run.result, [8, 2])

    def test_buffers_come_late_from_another_thread(self):
        run = self.client(
            "buffers:late:100",
            TEN_KERNELS + "early = len(client.completed)\n"
            "while not client.completed: time.sleep(0.01)\n"
            "out([early, client.completed[0]['thread'] != threading.get_native_id()])",
        )
        self.assertEqual(run.result, [0, True])

    def test_buffers_come_from_another_thread_during_the_flush(self):
        run = self.client(
            "buffers:thread",
            TEN_KERNELS
            + "out([len(client.records()), client.completed[0]['thread'] != threading.get_native_id()])",
        )
        self.assertEqual(run.result, [10, True])

    def test_buffers_come_at_exit_before_or_after_the_clients_own_handler(self):
        # The recorder's last act in its exit handler is to write the names of the records it has seen.
        source = "for i in range(10): gpu.launch('k', 1_000)\ngpu.sync()\n"
        for when, handler_saw_them in (("late", True), ("early", False)):
            run = self.scenario(source, "--fault", "buffers:at_exit:" + when)
            self.assertEqual(len([r for r in run.records if r["kind"] == 10]), 10, when)
            self.assertEqual("k" in run.names.values(), handler_saw_them, when)

    def test_a_valid_size_beyond_the_buffer(self):
        run = self.client(
            "buffers:oversize",
            TEN_KERNELS + "c = client.completed[0]; out([c['valid'] > c['size'], c['size']])",
        )
        self.assertEqual(run.result, [True, 1 << 16])

    def test_garbage_behind_the_last_record(self):
        run = self.client(
            "buffers:tail",
            TEN_KERNELS
            + "c = client.completed[0]; out([c['valid'], c['data'][-40:] == bytes([0xee] * 40)])",
        )
        self.assertEqual(run.result, [10 * 216 + 40, True])

    def test_empty_buffers_between_the_others(self):
        run = self.client(
            "buffers:empty", TEN_KERNELS + "out([c['valid'] for c in client.completed])"
        )
        self.assertEqual(run.result, [0, 2160])

    def test_a_buffer_completed_twice(self):
        run = self.client(
            "buffers:twice",
            TEN_KERNELS + "a, b = client.completed; out([a['valid'], a['data'] == b['data']])",
        )
        self.assertEqual(run.result, [2160, True])

    def test_a_buffer_of_somebody_else(self):
        run = self.client(
            "buffers:foreign", TEN_KERNELS + "out([c['own'] for c in client.completed])"
        )
        self.assertEqual(run.result, [False, True])

    def test_cupti_goes_on_writing_into_buffers_that_it_has_kept(self):
        run = self.client(
            "buffers:scribble",
            TEN_KERNELS + """
kept = [m for m in client._buffers.values()][:2]
seen = set()
while len(seen) < 3: seen.add(bytes(kept[0])[:1]); time.sleep(0.005)
out([client.requests, len(client.completed), len(client.records())])
os._exit(0)  # the kept buffers must outlive the writer""",
            clock="real",
        )
        self.assertEqual(run.result, [3, 1, 10])


class RecordFaultsTest(FaultTestCase):
    def kernels(self, fault, source=TEN_KERNELS):
        run = self.client(
            fault, source + "out([[r['start'], r['end']] for r in client.records(10)])"
        )
        return run.result, [[op["start"], op["end"]] for op in run.ops("kernel")]

    def test_every_nth_kernel_has_no_times(self):
        got, real = self.kernels("records:zero:4")
        self.assertEqual(got, [[0, 0] if i % 4 == 3 else r for i, r in enumerate(real)])

    def test_every_nth_kernel_has_sentinel_times(self):
        got, real = self.kernels("records:sentinel:5")
        self.assertEqual(got[4], [1 << 63, (1 << 64) - 1])
        self.assertEqual(got[9], [1 << 63, 1 << 63])
        self.assertEqual(got[:4], real[:4])

    def test_the_first_k_kernels_are_in_another_clock(self):
        got, real = self.kernels("records:skew:-100000000000000:3")
        self.assertEqual([a[0] - b[0] for a, b in zip(got, real)], [-(10**14)] * 3 + [0] * 7)

    def test_kernels_start_before_their_launch(self):
        got, real = self.kernels("records:early:50000")
        self.assertEqual({a[0] - b[0] for a, b in zip(got, real)}, {-50_000})

    def test_every_nth_kernel_record_is_missing_and_not_counted(self):
        run = self.client(
            "records:missing:2", TEN_KERNELS + "out([len(client.records(10)), client.dropped()])"
        )
        self.assertEqual(run.result, [5, 0])
        self.assertEqual(run.truth["counts"]["kernels"], 10)

    def test_records_of_a_kind_that_only_cupti_knows(self):
        run = self.client(
            "records:unknown:3",
            TEN_KERNELS + "kinds, end = client.walk(client.completed[0]['data'])\n"
            "out([kinds.count(10), kinds.count(200), end])",
        )
        self.assertEqual(run.result[0], 10)
        self.assertGreaterEqual(run.result[1], 3)
        self.assertEqual(run.result[2], 12)

    def test_names(self):
        read = """
names = []
def look():
    at = client.records(10)[0]["name"]
    names.append(ctypes.string_at(at) if at else b"")
client.on_completed = look
""" + TEN_KERNELS + "out([len(names[0]), repr(names[0][:8]) if names[0] else None])"
        self.assertEqual(self.client("names:null", read).result, [0, None])
        self.assertEqual(self.client("names:empty", read).result, [0, None])
        self.assertEqual(self.client("names:long", read).result, [65536, "b'kkkkkkkk'"])
        self.assertEqual(self.client("names:garbage", read).result[1], repr(b"\xff\xfe\x80 garb"))
        self.assertEqual(self.client("names:unmapped", read).result[1], repr(b"name_in_"))

    def test_an_unmapped_name_is_gone_after_the_callback(self):
        run = self.client(
            "names:unmapped",
            TEN_KERNELS + "at = client.records(10)[0]['name']\n"
            "mapped = [line.split()[0].split('-') for line in open('/proc/self/maps')]\n"
            "out(any(int(a, 16) <= at < int(b, 16) for a, b in mapped))",
        )
        self.assertFalse(run.result)


class CallbackFaultsTest(FaultTestCase):
    def counts(self, fault):
        run = self.scenario(
            """
            for _ in range(20): gpu.launch("k", 5)
            recorder = ctypes.CDLL(os.environ["GPUPROBE_LIB"])
            out([recorder.sim_recorder_enters(), recorder.sim_recorder_exits()])
            """,
            "--fault",
            fault,
            env={"SIM_RECORDER_CALLBACKS": "1"},
        )
        return run.result

    def test_exits_without_enter(self):
        enters, exits = self.counts("callbacks:exit_first:4")
        self.assertLess(enters + 5, exits)

    def test_enters_without_exit(self):
        enters, exits = self.counts("callbacks:enter_only:4")
        self.assertLess(exits + 5, enters)


if __name__ == "__main__":
    unittest.main()
