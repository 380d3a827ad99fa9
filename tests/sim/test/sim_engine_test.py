# SPDX-License-Identifier: Apache-2.0
# Copyright the gpuprobe authors.
"""The simulated hardware and driver: when work runs, who blocks, what the truth says.

The virtual clock makes every time exact, so these tests compare nanoseconds.
"""

import json
import unittest

from harness import SimTestCase

LATENCY = 2000  # launch_latency_ns


class StreamsTest(SimTestCase):
    def test_work_starts_a_launch_latency_after_its_submission_on_an_idle_stream(self):
        run = self.scenario("""
            s = gpu.stream()
            gpu.launch("k", 10_000, s)
            """)
        op = run.ops("kernel")[0]
        self.assertEqual(op["start"], op["submitted"] + LATENCY)
        self.assertEqual(op["end"] - op["start"], 10_000)

    def test_a_stream_is_serial_and_keeps_its_order(self):
        run = self.scenario("""
            s = gpu.stream()
            for i in range(5): gpu.launch("k%d" % i, 50_000, s)
            """)
        ops = run.ops("kernel")
        self.assertEqual([op["name"] for op in ops], ["k0", "k1", "k2", "k3", "k4"])
        for before, after in zip(ops, ops[1:]):
            self.assertEqual(after["start"], before["end"])

    def test_kernels_of_different_streams_overlap(self):
        run = self.scenario("""
            a, b = gpu.stream(), gpu.stream()
            gpu.launch("k", 100_000, a); gpu.launch("k", 100_000, b)
            """)
        first, second = run.ops("kernel")
        self.assertEqual(second["start"], second["submitted"] + LATENCY)
        self.assertLess(second["start"], first["end"])

    def test_a_stream_waits_for_an_event_of_another(self):
        run = self.scenario("""
            a, b = gpu.stream(), gpu.stream()
            gpu.launch("first", 100_000, a)
            e = gpu.event().record(a)
            gpu.launch("not waited for", 100_000, a)
            gpu.wait(b, e)
            gpu.launch("after", 1_000, b)
            """)
        ops = {op["name"]: op for op in run.ops("kernel")}
        self.assertEqual(ops["after"]["start"], ops["first"]["end"])

    def test_the_default_stream_orders_itself_with_blocking_streams_only(self):
        run = self.scenario("""
            blocking, free = gpu.stream(blocking=True), gpu.stream()
            gpu.launch("blocking", 100_000, blocking)
            gpu.launch("default", 100_000)
            gpu.launch("after default", 1_000, blocking)
            gpu.launch("free", 1_000, free)
            """)
        ops = {op["name"]: op for op in run.ops("kernel")}
        self.assertEqual(ops["default"]["start"], ops["blocking"]["end"])
        self.assertEqual(ops["after default"]["start"], ops["default"]["end"])
        self.assertEqual(ops["free"]["start"], ops["free"]["submitted"] + LATENCY)

    def test_stream_overlap_lets_the_next_kernel_of_a_stream_start_early(self):
        run = self.scenario("""
            gpu.set("stream_overlap_ns", 700)
            s = gpu.stream()
            for _ in range(3): gpu.launch("k", 50_000, s)
            """)
        ops = run.ops("kernel")
        self.assertEqual([b["start"] - a["end"] for a, b in zip(ops, ops[1:])], [-700, -700])

    def test_grain_rounds_times_as_the_hardware_does(self):
        run = self.scenario("""
            gpu.set("grain_ns", 32)
            s = gpu.stream()
            for i in range(4): gpu.launch("k", 1_001 + i, s)
            """)
        for op in run.ops("kernel"):
            self.assertEqual((op["start"] % 32, op["end"] % 32), (0, 0))

    def test_devices_have_their_own_streams_and_work(self):
        run = self.scenario(
            """
            for device in (0, 1, 2):
                gpu.call("cudaSetDevice", device)
                gpu.launch("k%d" % device, 1_000, gpu.stream())
            gpu.copy_peer(4096, 2, 0)
            """,
            env={"GPUSIM_SET": "device_count=3"},
        )
        self.assertEqual(
            [(op["device"], op["name"]) for op in run.ops("kernel")],
            [(0, "k0"), (1, "k1"), (2, "k2")],
        )
        self.assertEqual(len({op["stream"] for op in run.ops("kernel")}), 3)
        peer = run.ops("peer_copy")[0]
        self.assertEqual((peer["src_device"], peer["dst_device"], peer["copy_kind"]), (0, 2, 10))


class CopiesTest(SimTestCase):
    def test_copies_of_one_direction_share_an_engine_and_directions_overlap(self):
        run = self.scenario("""
            gpu.prepare_copies(1 << 20)
            a, b, c = gpu.stream(), gpu.stream(), gpu.stream()
            gpu.copy("htod", 1 << 20, a, duration_ns=100_000)
            gpu.copy("htod", 1 << 20, b, duration_ns=100_000)
            gpu.copy("dtoh", 1 << 20, c, duration_ns=100_000)
            """)
        first, second, back = run.ops("copy")
        self.assertEqual(second["start"], first["end"])
        self.assertLess(back["start"], first["end"])

    def test_a_copy_that_is_ready_early_uses_the_engine_before_one_submitted_earlier(self):
        run = self.scenario("""
            gpu.prepare_copies(1 << 20)
            a, b = gpu.stream(), gpu.stream()
            gpu.launch("long", 1_000_000, a)
            gpu.copy("htod", 4096, a, duration_ns=10_000)
            gpu.copy("htod", 4096, b, duration_ns=10_000)
            """)
        late, early = run.ops("copy")
        self.assertLess(early["end"], late["start"])
        self.assertEqual(early["start"], early["submitted"] + LATENCY)

    def test_a_copy_takes_its_size_over_the_bandwidth(self):
        run = self.scenario("""
            gpu.set("htod_bytes_per_us", 1000); gpu.set("copy_base_ns", 500)
            gpu.copy("htod", 2_000_000)
            """)
        op = run.ops("copy")[0]
        self.assertEqual(op["end"] - op["start"], 500 + 2_000_000)

    def test_pinned_async_copies_do_not_block(self):
        run = self.scenario("""
            gpu.prepare_copies(1 << 20)
            s = gpu.stream()
            gpu.copy("htod", 1 << 20, s); gpu.copy("dtoh", 1 << 20, s); gpu.copy("dtod", 1 << 20, s)
            """)
        self.assertEqual(run.truth["waits"], [])

    def test_an_async_copy_from_pageable_memory_blocks_for_the_staging_only(self):
        run = self.scenario("""
            gpu.prepare_copies(1 << 20)
            gpu.set("staging_bytes_per_us", 1000)
            s = gpu.stream()
            gpu.launch("long", 50_000_000, s)
            gpu.copy("htod", 500_000, s, pinned=False)
            """)
        (wait,) = run.truth["waits"]
        self.assertEqual((wait["type"], wait["end"] - wait["start"]), ("staging", 500_000))
        op = run.ops("copy")[0]
        self.assertEqual((op["src_kind"], op["dst_kind"], op["async"]), (1, 3, True))

    def test_an_async_copy_to_pageable_memory_blocks_until_it_is_done(self):
        run = self.scenario("""
            gpu.prepare_copies(1 << 20)
            s = gpu.stream()
            gpu.launch("before", 300_000, s)
            gpu.copy("dtoh", 4, s, pinned=False)
            """)
        (wait,) = run.truth["waits"]
        self.assertEqual((wait["type"], wait["end"]), ("copy", run.ops("copy")[0]["end"]))

    def test_a_blocking_copy_waits_for_earlier_work_and_itself(self):
        run = self.scenario("""
            gpu.prepare_copies(1 << 20)
            gpu.launch("before", 300_000)
            gpu.copy("dtoh", 1 << 20, blocking=True)
            """)
        (wait,) = run.truth["waits"]
        self.assertEqual(wait["end"], run.ops("copy")[0]["end"])

    def test_data_really_moves(self):
        run = self.scenario("""
            data = bytes(range(256)) * 16
            source, target = ctypes.create_string_buffer(data, len(data)), ctypes.create_string_buffer(len(data))
            device = gpu.alloc(len(data))
            gpu.memcpy(device, source, len(data), "htod", blocking=True)
            gpu.memcpy(target, device, len(data), "dtoh", blocking=True)
            gpu.call("cudaMemset", device, 7, ctypes.c_size_t(16))
            head = ctypes.create_string_buffer(16)
            gpu.memcpy(head, device, 16, "dtoh", blocking=True)
            out([target.raw == data, head.raw == bytes([7] * 16)])
            """)
        self.assertEqual(run.result, [True, True])


class HostTest(SimTestCase):
    def test_the_virtual_clock_moves_only_by_costs_advances_and_syncs(self):
        run = self.scenario(
            """
            times = [gpu.now(), gpu.now()]
            gpu.host(12_345); times.append(gpu.now())
            gpu.launch("k", 1_000_000); times.append(gpu.now())
            gpu.sync(); times.append(gpu.now())
            out([b - a for a, b in zip(times, times[1:])] + [times[4] - gpu.truth()["ops"][0]["end"]])
            """,
            env={
                "GPUSIM_COSTS": "cudaLaunchKernel=100,cuLaunchKernel=3000,cudaDeviceSynchronize=50,"
                "cuCtxSynchronize=60,cuModuleLoadData=0,cuModuleGetFunction=0"
            },
        )
        still, advance, launch, sync, after_end = run.result
        self.assertEqual((still, advance, launch, after_end), (0, 12_345, 3100, 0))
        self.assertEqual(sync, LATENCY + 1_000_000)

    def test_two_processes_can_share_a_time_base(self):
        epoch = "1700000000000000000"
        starts = [
            self.scenario("gpu.launch('k', 5)", env={"GPUSIM_EPOCH_NS": epoch}).ops("kernel")[0][
                "start"
            ]
            for _ in range(2)
        ]
        self.assertEqual(starts[0], starts[1])
        self.assertEqual(starts[0] // 10**15, int(epoch) // 10**15)

    def test_free_waits_for_the_device_and_malloc_only_when_scripted(self):
        source = """
            p = gpu.alloc(4096)
            gpu.launch("k", 1_000_000, gpu.stream())
            q = gpu.alloc(4096)
            gpu.free(p)
            """
        run = self.scenario(source)
        self.assertEqual([w["type"] for w in run.truth["waits"]], ["free"])
        self.assertEqual(run.truth["waits"][0]["end"], run.ops("kernel")[0]["end"])
        run = self.scenario(source, env={"GPUSIM_SET": "free_syncs=0,alloc_syncs=1"})
        self.assertEqual([w["type"] for w in run.truth["waits"]], ["alloc", "alloc"])

    def test_events_tell_elapsed_time_and_whether_they_are_reached(self):
        run = self.scenario("""
            s = gpu.stream()
            gpu.launch("k", 1, s)  # loads the module
            gpu.sync(s)
            start = gpu.event().record(s)
            gpu.launch("k", 3_000_000, s)
            end = gpu.event().record(s)
            before = gpu.is_done(end)
            gpu.sync(end)
            out([before, gpu.is_done(end), gpu.is_done(s), gpu.elapsed_ms(start, end)])
            """)
        before, after, stream_done, ms = run.result
        self.assertEqual((before, after, stream_done), (False, True, True))
        self.assertGreaterEqual(ms, 3.0)
        self.assertLess(ms, 3.01)

    def test_a_runtime_call_and_the_driver_call_below_it_share_a_correlation(self):
        run = self.scenario("gpu.launch('k', 5)")
        op = run.ops("kernel")[0]
        calls = [
            (c["domain"], c["name"])
            for c in run.truth["api"]
            if c["correlation"] == op["correlation"]
        ]
        self.assertIn(("runtime", "cudaLaunchKernel"), calls)
        self.assertIn(("driver", "cuLaunchKernel"), calls)
        launches = [
            c for c in run.truth["api"] if c["name"] in ("cudaLaunchKernel", "cuLaunchKernel")
        ]
        driver, runtime = sorted(launches, key=lambda c: c["start"], reverse=True)
        self.assertLessEqual(runtime["start"], driver["start"])
        self.assertGreaterEqual(runtime["end"], driver["end"])

    def test_host_functions_run_on_another_thread_before_a_sync_returns(self):
        run = self.scenario("""
            seen = []
            s = gpu.stream()
            def work():
                seen.append(threading.get_native_id())
                seen.append(gpu.try_call("cudaDeviceSynchronize"))
            gpu.launch("k", 1_000, s)
            gpu.host_function(work, s)
            gpu.sync(s)
            out([seen[0] != threading.get_native_id(), seen[1]])
            """)
        self.assertEqual(run.result, [True, 800])  # 800: not permitted from a host function

    def test_a_graph_replays_its_nodes_with_dependencies_and_gaps(self):
        run = self.scenario("""
            gpu.set("graph_node_gap_ns", 300)
            s = gpu.stream()
            with gpu.capture(s) as graph:
                for i in range(3): gpu.launch("node%d" % i, 1_000, s)
            for _ in range(2):
                graph.launch(s)
            gpu.sync(s)
            """)
        kernels, graphs = run.ops("kernel"), run.ops("graph")
        self.assertEqual(len(graphs), 2)
        self.assertEqual([k["name"] for k in kernels], ["node0", "node1", "node2"] * 2)
        self.assertEqual(
            [b["start"] - a["end"] for a, b in zip(kernels[:3], kernels[1:3])], [300, 300]
        )
        self.assertEqual(
            (graphs[0]["start"], graphs[0]["end"]), (kernels[0]["start"], kernels[2]["end"])
        )
        self.assertEqual({k["correlation"] for k in kernels[:3]}, {graphs[0]["correlation"]})
        self.assertGreaterEqual(kernels[3]["start"], kernels[2]["end"])

    def test_on_the_real_clock_a_sync_lasts_until_the_work_is_done(self):
        run = self.scenario(
            """
            before = time.time_ns()
            gpu.launch("k", 30_000_000)
            gpu.sync()
            out([before, time.time_ns()])
            """,
            clock="real",
        )
        op, (before, after) = run.ops("kernel")[0], run.result
        self.assertLessEqual(before, op["start"])
        self.assertLessEqual(op["end"], after)
        sync = [c for c in run.truth["api"] if c["name"] == "cuCtxSynchronize"][-1]
        self.assertGreaterEqual(sync["end"], op["end"])

    def test_cuda_is_unusable_in_a_forked_child_and_the_parent_is_untouched(self):
        run = self.scenario("""
            gpu.launch("k", 5)
            child = os.fork()
            if child == 0:
                os._exit(100 + gpu.try_call("cudaDeviceSynchronize"))
            out(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
            gpu.launch("k", 5)
            """)
        self.assertEqual(run.result, 103)
        self.assertEqual(len(run.ops("kernel")), 2)

    def test_a_child_forked_before_cuda_starts_may_use_it(self):
        run = self.scenario(
            """
            from cupti_client import Client
            lazy = Gpu(lazy=True)
            child = os.fork()
            if child == 0:
                gpu = Gpu()
                gpu.launch("k", 5); gpu.sync()
                os._exit(int(gpu.count("kernels")))
            out(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
            """,
            recorder=False,
        )
        self.assertEqual(run.result, 1)

    def test_calls_before_initialisation_fail(self):
        run = self.scenario(
            """
            from cupti_client import Client
            gpu = Gpu(lazy=True)
            out([gpu.try_call("cuCtxSynchronize"), gpu.try_call("cuInit", 0), gpu.try_call("cuCtxSynchronize")])
            """,
            recorder=False,
        )
        self.assertEqual(run.result, [3, 0, 201])

    def test_memory_runs_out_and_comes_back(self):
        run = self.scenario(
            """
            p = gpu.alloc(600)
            first = gpu.try_call("cudaMalloc", ctypes.byref(ctypes.c_void_p()), ctypes.c_size_t(600))
            gpu.free(p)
            q = gpu.alloc(600)
            out([first, gpu.cudart.cudaGetLastError(), gpu.cudart.cudaGetLastError()])
            """,
            env={"GPUSIM_SET": "device_memory_bytes=1000"},
        )
        self.assertEqual(run.result, [2, 2, 0])


class InjectionDoorTest(SimTestCase):
    def test_the_door_is_opened_once_and_before_the_first_call_returns(self):
        run = self.scenario("""
            from cupti_client import Client
            gpu = Gpu(lazy=True)
            gpu.call("cuInit", 0); gpu.call("cuInit", 0)
            out(gpu.count("cuptiActivityRegisterCallbacks"))
            """)
        self.assertEqual(run.result, 1)

    def test_a_library_that_cannot_be_opened_is_passed_over(self):
        run = self.scenario(
            "out(gpu.count('kernels'))",
            recorder=False,
            env={"CUDA_INJECTION64_PATH": "/nowhere/libtool.so"},
        )
        self.assertEqual((run.result, run.stderr), (0, ""))

    def test_without_a_device_nothing_is_opened(self):
        run = self.scenario(
            """
            from cupti_client import Client
            gpu = Gpu(lazy=True)
            out([gpu.try_call("cuInit", 0), gpu.count("cuptiActivityEnable")])
            """,
            env={"GPUSIM_SET": "device_count=0"},
        )
        self.assertEqual(run.result, [100, 0])


class TruthTest(SimTestCase):
    def test_names_that_are_not_text_keep_the_truth_readable(self):
        run = self.scenario("""
            gpu.launch('quote " backslash \\\\ tab \\t', 5)
            """)
        self.assertEqual(run.ops("kernel")[0]["name"], 'quote " backslash \\ tab \t')

    def test_the_truth_can_be_asked_for_at_any_moment(self):
        run = self.scenario("""
            gpu.launch("k", 5)
            first = len(gpu.truth()["ops"])
            gpu.launch("k", 5)
            out([first, len(gpu.truth()["ops"])])
            """)
        self.assertEqual(run.result, [1, 2])
        json.dumps(run.truth)


if __name__ == "__main__":
    unittest.main()
