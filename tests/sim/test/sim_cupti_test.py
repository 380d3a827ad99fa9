# SPDX-License-Identifier: Apache-2.0
# Copyright the gpuprobe authors.
"""The CUPTI stand-in against the truth of the engine: records, buffers, flushes, callbacks."""

import collections
import unittest

from harness import SimTestCase
import recording

KERNEL, COPY, SET, DRIVER, RUNTIME, PEER, SYNC, STREAM = 10, 1, 2, 4, 5, 22, 38, 37
MIXED = """
    s, t = gpu.stream(), gpu.stream()
    gpu.prepare_copies(1 << 16)
    for i in range(40):
        gpu.chatter()
        gpu.launch("kernel_%d" % (i % 3), 1_000 * i, s if i % 2 else t, api="driver" if i % 4 == 0 else "runtime")
        if i % 5 == 0: gpu.copy("htod", 1000 + i, s)
        if i % 7 == 0: gpu.memset(100 + i, t)
        if i % 9 == 0: gpu.sync(s)
    gpu.copy_peer(777, 1, 0, s)
    gpu.sync()
    """
TWO_DEVICES = {"GPUSIM_SET": "device_count=2"}


def key(op):
    return (op["start"], op["end"], op["device"], op["context"], op["stream"], op["correlation"])


class RecordsTest(SimTestCase):
    def assert_records_equal_truth(self, run):
        kinds = {"kernel": KERNEL, "copy": COPY, "set": SET, "peer_copy": PEER}
        for name, kind in kinds.items():
            self.assertEqual(
                sorted(key(r) for r in run.records if r["kind"] == kind),
                sorted(key(op) for op in run.ops(name)),
                name,
            )
            self.assertGreater(len(run.ops(name)), 0)
        for domain, kind in (("driver", DRIVER), ("runtime", RUNTIME)):
            recorded = collections.Counter(
                (r["cbid"], r["start"], r["end"], r["correlation"], r["result"])
                for r in run.records
                if r["kind"] == kind
            )
            happened = collections.Counter(
                (c["cbid"], c["start"], c["end"], c["correlation"], c["result"])
                for c in run.truth["api"]
                if c["domain"] == domain
            )
            self.assertEqual(recorded - happened, collections.Counter())
            # Calls that were in flight when the client switched CUPTI on have no record.
            missing = happened - recorded
            self.assertLessEqual(sum(missing.values()), 1, missing)
        self.assertEqual(run.truth["violations"], [])

    def test_every_operation_and_call_gives_one_record_with_its_times(self):
        run = self.scenario(MIXED, env=TWO_DEVICES)
        self.assert_records_equal_truth(run)
        for r in run.records:
            if r["kind"] == KERNEL:
                self.assertIn(run.names[r["name"]], ("kernel_0", "kernel_1", "kernel_2"))

    def test_the_same_on_the_real_clock_with_small_buffers(self):
        run = self.scenario(MIXED, env=dict(TWO_DEVICES, SIM_RECORDER_BYTES="1024"), clock="real")
        self.assert_records_equal_truth(run)
        self.assertGreater(len(run.buffers), 10)

    def test_sync_records_stand_for_waits(self):
        run = self.scenario("""
            s, t = gpu.stream(), gpu.stream()
            gpu.launch("k", 10_000, s)
            e = gpu.event().record(s)
            gpu.wait(t, e)
            gpu.sync(e); gpu.sync(t); gpu.sync()
            """)
        syncs = [r for r in run.records if r["kind"] == SYNC]
        self.assertEqual([r["type"] for r in syncs], [2, 1, 3, 4])
        waits = [(w["type"], w["start"], w["end"]) for w in run.truth["waits"]]
        self.assertEqual(
            waits,
            [
                (name, r["start"], r["end"])
                for name, r in zip(("event", "stream", "context"), syncs[1:])
            ],
        )
        self.assertEqual(syncs[1]["stream"], 0xFFFFFFFF)

    def test_older_versions_hold_the_same_facts_in_smaller_records(self):
        def facts(run):
            fields = (
                "kind",
                "start",
                "end",
                "device",
                "context",
                "stream",
                "correlation",
                "bytes",
                "type",
                "cbid",
            )
            return [tuple(r.get(f) for f in fields) for r in run.records]

        newest = self.scenario(MIXED, env=TWO_DEVICES)
        for version in (18, 26, 28):
            run = self.scenario(MIXED, env=TWO_DEVICES, version=version)
            self.assertEqual(facts(run), facts(newest))
            self.assertLess(sum(map(len, run.buffers)), sum(map(len, newest.buffers)))

    def test_graph_level_hides_the_nodes(self):
        source = """
            s = gpu.stream()
            with gpu.capture(s) as graph:
                for i in range(5): gpu.launch("node", 1_000, s)
            for _ in range(3): graph.launch(s)
            gpu.sync()
            """
        nodes = self.scenario(source)
        kernels = [r for r in nodes.records if r["kind"] == KERNEL]
        self.assertEqual((len(kernels), len({r["correlation"] for r in kernels})), (15, 3))
        self.assertEqual(len({r["graph_node_id"] for r in kernels}), 5)
        whole = self.scenario(source, env={"SIM_RECORDER_KINDS": "10,51"})
        self.assertEqual(
            [(r["kind"], r["start"], r["end"]) for r in whole.records],
            [(51, g["start"], g["end"]) for g in whole.ops("graph")],
        )

    def test_latency_timestamps_only_when_asked_for(self):
        run = self.scenario("gpu.launch('k', 5)")
        self.assertEqual([r["queued"] for r in run.records if r["kind"] == KERNEL], [0])
        run = self.scenario("gpu.launch('k', 5)", env={"SIM_RECORDER_LATENCY": "1"})
        (record,), (op,) = [r for r in run.records if r["kind"] == KERNEL], run.ops("kernel")
        self.assertEqual((record["queued"], record["submitted"]), (op["queued"], op["submitted"]))

    def test_thread_ids_are_pthread_ids_unless_system_ids_are_asked_for(self):
        source = "gpu.launch('k', 5)\nout([threading.get_native_id(), threading.get_ident() & 0xffffffff])"
        for option, index in (("0", 1), ("1", 0)):
            run = self.scenario(source, env={"SIM_RECORDER_SYSTEM_THREADS": option})
            self.assertEqual(
                {r["thread"] for r in run.records if r["kind"] == RUNTIME}, {run.result[index]}
            )

    def test_overhead_is_recorded_with_its_kind(self):
        run = self.scenario("gpu.overhead(1 << 16, 5000)")
        (record,) = [r for r in run.records if r["kind"] == 17]
        self.assertEqual(
            (record["overhead_kind"], record["end"] - record["start"]), (1 << 16, 5000)
        )

    def test_devices_and_contexts_are_reported_before_the_work(self):
        run = self.scenario("gpu.launch('k', 5)")
        kinds = [r["kind"] for r in run.records]
        self.assertLess(kinds.index(8), kinds.index(KERNEL))
        self.assertLess(kinds.index(9), kinds.index(KERNEL))
        (device,) = [r for r in run.records if r["kind"] == 8]
        self.assertEqual(run.names[device["name"]], "Simulated GPU 0")


class FilterTest(SimTestCase):
    def test_calls_switched_off_after_the_kind_give_no_records(self):
        run = self.scenario(
            "gpu.chatter(10); gpu.launch('k', 5)", env={"SIM_RECORDER_OFF": "17,10"}
        )
        cbids = {r["cbid"] for r in run.records if r["kind"] == RUNTIME}
        self.assertNotIn(17, cbids)
        self.assertIn(211, cbids)

    def test_enabling_the_kind_again_overrides_the_filter(self):
        run = self.scenario(
            """
            from cupti_client import Client
            gpu, client = Gpu(), Client().start(5)
            client.ok("cuptiActivityEnableRuntimeApi", 17, 0)
            gpu.chatter(); client.flush(); without = len(client.records())
            client.ok("cuptiActivityEnable", 5)
            gpu.chatter(); client.flush()
            out([without, len(client.records()) - without])
            """,
            recorder=False,
        )
        self.assertEqual(run.result, [1, 2])

    def test_single_calls_can_be_recorded_without_the_kind(self):
        run = self.scenario(
            """
            from cupti_client import Client
            gpu, client = Gpu(), Client().start()
            client.ok("cuptiActivityEnableDriverApi", 307, 1)  # cuLaunchKernel
            gpu.launch("k", 5); gpu.sync(); client.flush()
            out([r["cbid"] for r in client.records()])
            """,
            recorder=False,
        )
        self.assertEqual(run.result, [307])


class FlushTest(SimTestCase):
    def test_a_plain_flush_leaves_buffers_with_unfinished_records(self):
        run = self.scenario(
            """
            from cupti_client import Client
            gpu, client = Gpu(), Client().start(10)
            gpu.launch("k", 1_000_000)
            client.flush(); before = len(client.completed)
            gpu.sync()
            client.flush()
            out([before, len(client.completed), [r["end"] - r["start"] for r in client.records()]])
            """,
            recorder=False,
        )
        self.assertEqual(run.result, [0, 1, [1_000_000]])

    def test_a_forced_flush_returns_unfinished_records_once_and_never_again(self):
        run = self.scenario(
            """
            from cupti_client import Client
            gpu, client = Gpu(), Client().start(10)
            gpu.launch("done", 1_000); gpu.sync()
            gpu.launch("running", 1_000_000)
            gpu.host(100_000)
            gpu.launch("queued", 1_000)
            client.flush(forced=True)
            first = [(r["start"] != 0, r["end"] != 0) for r in client.records()]
            gpu.sync(); client.flush(forced=True)
            out([first, len(client.records()), gpu.count("records_unfinished")])
            """,
            recorder=False,
        )
        self.assertEqual(run.result, [[[True, True], [True, False], [False, False]], 3, 2])

    def test_full_buffers_go_back_on_their_thread_once_complete(self):
        run = self.scenario(
            """
            from cupti_client import Client
            gpu, client = Gpu(), Client(size=1000).start(10)
            for _ in range(10):
                gpu.launch("k", 1_000); gpu.sync()
            out([len(client.completed), all(c["thread"] == threading.get_native_id() for c in client.completed),
                 [c["valid"] for c in client.completed]])
            """,
            recorder=False,
        )
        self.assertEqual(run.result, [2, True, [864, 864]])

    def test_every_thread_fills_its_own_buffer_or_all_share_one(self):
        source = """
            from cupti_client import Client
            gpu, client = Gpu(), Client()
            client.set_attribute(9, %d)
            client.start(10)
            def work():
                for _ in range(5): gpu.launch("k", 1_000)
            for _ in range(3):
                thread = threading.Thread(target=work); thread.start(); thread.join()
            gpu.sync(); client.flush()
            out([client.requests, len(client.records())])
            """
        self.assertEqual(self.scenario(source % 1, recorder=False).result, [3, 15])
        self.assertEqual(self.scenario(source % 0, recorder=False).result, [1, 15])

    def test_a_client_can_limit_the_records_of_a_buffer(self):
        run = self.scenario(
            """
            from cupti_client import Client
            gpu, client = Gpu(), Client()
            client.max_records = 3
            client.start(10)
            for _ in range(7): gpu.launch("k", 5)
            gpu.sync(); client.flush()
            out([c["valid"] // 216 for c in client.completed])
            """,
            recorder=False,
        )
        self.assertEqual(run.result, [3, 3, 1])

    def test_flush_without_registered_callbacks_is_an_error(self):
        run = self.scenario(
            """
            from cupti_client import Client
            gpu, client = Gpu(), Client()
            out(client.code("cuptiActivityFlushAll", 0))
            """,
            recorder=False,
        )
        self.assertEqual(run.result, 7)


class DropTest(SimTestCase):
    def test_refused_buffers_drop_records_and_the_count_is_exact(self):
        run = self.scenario(
            """
            from cupti_client import Client
            gpu, client = Gpu(), Client(size=1000, limit=2).start(10)
            for _ in range(20): gpu.launch("k", 5)
            gpu.sync(); client.flush()
            out([len(client.records()), client.dropped(), client.dropped()])
            """,
            recorder=False,
        )
        self.assertEqual(run.result, [8, 12, 0])
        counts = run.truth["counts"]
        self.assertEqual(
            counts["records_emitted"], counts["records_delivered"] + counts["records_dropped"]
        )
        self.assertEqual(run.truth["violations"], [])

    def test_refusing_is_a_violation_below_api_27(self):
        run = self.scenario(
            """
            from cupti_client import Client
            gpu, client = Gpu(), Client(size=1000, limit=0, version=26).start(10)
            gpu.launch("k", 5)
            """,
            recorder=False,
            version=26,
        )
        self.assertIn("API 27", run.truth["violations"][0])


class SecondClientTest(SimTestCase):
    def test_there_is_one_subscriber(self):
        run = self.scenario(
            """
            from cupti_client import Client, CALLBACK
            gpu, client = Gpu(), Client()
            callback, handle = CALLBACK(lambda *a: None), ctypes.c_void_p()
            codes = [client.code("cuptiSubscribe", ctypes.byref(handle), callback, None),
                     client.code("cuptiSubscribe", ctypes.byref(ctypes.c_void_p()), callback, None),
                     client.code("cuptiUnsubscribe", handle),
                     client.code("cuptiSubscribe", ctypes.byref(handle), callback, None)]
            out(codes)
            """,
            recorder=False,
        )
        self.assertEqual(run.result, [0, 39, 0, 0])

    def test_buffers_of_the_first_client_complete_into_the_second(self):
        run = self.scenario(
            """
            from cupti_client import Client
            gpu, first, second = Gpu(), Client(), Client()
            first.start(10)
            gpu.launch("k", 5)
            second.register()
            gpu.launch("k", 5)
            gpu.sync(); first.flush()
            out([len(first.completed), [c["own"] for c in second.completed]])
            """,
            recorder=False,
        )
        self.assertEqual(run.result, [0, [False]])

    def test_a_registered_timestamp_function_is_the_clock_of_all_later_records(self):
        run = self.scenario(
            """
            from cupti_client import Client, TIMESTAMP
            gpu, client = Gpu(), Client()
            shift = 5_000_000_000_000
            clock = TIMESTAMP(lambda: gpu.now() - shift)
            client.start(10, 5)
            gpu.launch("k", 1_000); gpu.sync(); client.flush()
            before = client.records()
            client.ok("cuptiActivityRegisterTimestampCallback", clock)
            gpu.launch("k", 1_000); gpu.sync(); stamp = client.timestamp(); client.flush()
            after = client.records()[len(before):]
            real = gpu.truth()["ops"]
            kernels = [r for r in before + after if r["kind"] == 10]
            out([[op["start"] - k["start"] for op, k in zip(real, kernels)],
                 all(abs(r["start"] - (gpu.now() - shift)) < 10**9 for r in after),
                 abs(stamp - (gpu.now() - shift)) < 10**9])
            """,
            recorder=False,
        )
        shifts, all_shifted, stamp_shifted = run.result
        self.assertEqual(shifts[0], 0)
        self.assertLess(abs(shifts[1] - 5_000_000_000_000), 1000)  # a double lies in between
        self.assertEqual((all_shifted, stamp_shifted), (True, True))


class CallbacksTest(SimTestCase):
    def test_enter_and_exit_come_in_pairs_for_every_call(self):
        run = self.scenario(
            """
            s = gpu.stream()
            for _ in range(10): gpu.launch("k", 5, s)
            gpu.sync()
            recorder = ctypes.CDLL(os.environ["GPUPROBE_LIB"])
            out([recorder.sim_recorder_enters(), recorder.sim_recorder_exits(), gpu.count("api_calls")])
            """,
            env={"SIM_RECORDER_CALLBACKS": "1"},
        )
        enters, exits, calls = run.result
        # The calls in flight when the client subscribed (cudaFree, cuInit) have an exit alone.
        self.assertEqual((exits, exits - enters), (calls, 2))

    def test_callback_data_names_function_kernel_and_correlation(self):
        run = self.scenario(
            """
            from cupti_client import Client, CALLBACK
            class Data(ctypes.Structure):
                _fields_ = [("site", ctypes.c_int), ("function", ctypes.c_char_p), ("params", ctypes.c_void_p),
                            ("result", ctypes.c_void_p), ("symbol", ctypes.c_char_p), ("context", ctypes.c_void_p),
                            ("uid", ctypes.c_uint32), ("data", ctypes.c_void_p), ("correlation", ctypes.c_uint32)]
            gpu, client, seen = Gpu(), Client(), []
            def on_call(user, domain, cbid, raw):
                d = ctypes.cast(raw, ctypes.POINTER(Data))[0]
                seen.append([domain, cbid, d.site, d.function.decode(), d.symbol.decode(), d.correlation, user])
            callback, handle = CALLBACK(on_call), ctypes.c_void_p()
            client.ok("cuptiSubscribe", ctypes.byref(handle), callback, 1234)
            client.ok("cuptiEnableCallback", 1, handle, 1, 307)
            client.ok("cuptiEnableCallback", 1, handle, 2, 211)
            gpu.launch("my_kernel", 5); gpu.chatter()
            name = ctypes.c_char_p()
            client.ok("cuptiGetCallbackName", 2, 211, ctypes.byref(name))
            out([seen, name.value.decode(), gpu.truth()["ops"][0]["correlation"]])
            """,
            recorder=False,
        )
        seen, name, correlation = run.result
        tail = ["my_kernel", correlation, 1234]
        self.assertEqual(
            seen,
            [
                [2, 211, 0, "cudaLaunchKernel"] + tail,
                [1, 307, 0, "cuLaunchKernel"] + tail,
                [1, 307, 1, "cuLaunchKernel"] + tail,
                [2, 211, 1, "cudaLaunchKernel"] + tail,
            ],
        )
        self.assertEqual(name, "cudaLaunchKernel_v7000")


class RulesTest(SimTestCase):
    def violations(self, source, **keywords):
        return self.scenario(
            "from cupti_client import Client, CALLBACK\ngpu, client = Gpu(), Client()\n"
            + source
            + "\nout(gpu.violations())",
            recorder=False,
            **keywords,
        ).result

    def test_a_well_behaved_client_breaks_none(self):
        self.assertEqual(
            self.violations("client.start(10, 5); gpu.launch('k', 5); gpu.sync(); client.flush()"),
            [],
        )

    def test_the_serialising_kernel_kind(self):
        self.assertIn("serialises", self.violations("client.start(3)")[0])

    def test_flushing_from_a_buffer_callback(self):
        found = self.violations(
            "client.on_completed = lambda: client.code('cuptiActivityFlushAll', 0)\n"
            "client.start(10); gpu.launch('k', 5); gpu.sync(); client.flush()"
        )
        self.assertEqual(found, ["cuptiActivityFlushAll called from a buffer callback"])

    def test_calling_the_driver_from_a_buffer_callback(self):
        found = self.violations(
            "client.on_completed = lambda: gpu.try_call('cuCtxSynchronize')\n"
            "client.start(10); gpu.launch('k', 5); gpu.sync(); client.flush()"
        )
        self.assertEqual(
            found, ["cuCtxSynchronize called from inside the buffer-completed callback"]
        )

    def test_handing_out_a_buffer_twice(self):
        found = self.violations(
            "client.size = 1000; client.reuse_same_buffer = True\n"
            "client.start(10)\nfor _ in range(5): gpu.launch('k', 10**9)"
        )
        self.assertIn("already owns", found[0])

    def test_promising_zeroed_buffers_and_handing_out_dirty_ones(self):
        source = (
            "client.dirty = True; client.set_attribute(5, %d); client.start(10); gpu.launch('k', 5)"
        )
        self.assertEqual(self.violations(source % 0), [])
        self.assertIn("zeroed", self.violations(source % 1)[0])

    def test_cupti_in_a_forked_child(self):
        run = self.scenario(
            """
            from cupti_client import Client
            gpu, client = Gpu(), Client().start(10)
            child = os.fork()
            if child == 0:
                code = client.code("cuptiActivityFlushAll", 1)
                os._exit(code + (100 if gpu.violations() else 0))
            out(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
            """,
            recorder=False,
        )
        self.assertEqual(run.result, 115)


class WalkTest(SimTestCase):
    def test_cuptis_iterator_finds_the_same_records_as_the_offsets(self):
        run = self.scenario(
            """
            from cupti_client import Client
            import recording
            gpu, client = Gpu(), Client().start(10, 1, 2, 4, 5, 38)
            gpu.launch("k", 5); gpu.copy("htod", 100); gpu.memset(100); gpu.sync(); client.flush()
            data = client.completed[0]["data"]
            kinds = [kind for kind, _ in recording.split_records(data)]
            walked, end = client.walk(data)
            garbage = client.walk(data + bytes([0xee] * 40))
            out([walked == kinds, len(kinds) > 8, end, garbage[1], len(garbage[0]) == len(kinds)])
            """,
            recorder=False,
        )
        self.assertEqual(run.result, [True, True, 12, 21, True])

    def test_attributes_check_size_and_version(self):
        run = self.scenario(
            """
            from cupti_client import Client
            gpu, client = Gpu(), Client()
            out([client.set_attribute(6, 16, ctypes.c_size_t), client.set_attribute(6, 16, ctypes.c_uint8),
                 client.set_attribute(9, 1), client.set_attribute(99, 1)])
            """,
            recorder=False,
            version=18,
        )
        self.assertEqual(run.result, [0, 10, 1, 1])


class RecordingReaderTest(unittest.TestCase):
    def test_union_counts_every_instant_once(self):
        self.assertEqual(
            recording.union([(0, 10), (5, 7), (8, 12), (12, 13), (20, 20), (30, 31)]), (14, [7, 10])
        )


if __name__ == "__main__":
    unittest.main()
