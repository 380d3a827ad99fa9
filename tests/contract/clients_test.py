# SPDX-License-Identifier: Apache-2.0
"""Other CUPTI clients in the same process, and the library twice."""

import json
import shutil

import host
import traces

ENDINGS = host.host("contract_endings")
LAUNCHES = 200


class OtherClientTest(host.ContractTest):
    def setUp(self):
        super().setUp()
        self.need_simulation()

    def check(self, probe, pause_ms=0, env=None, binding="lazy", late=False):
        command = [host.host(f"contract_clients_{'late' if late else binding}"), str(LAUNCHES), str(pause_ms)]
        if late:
            command.append(host.HOSTS / f"libclient_{binding}.so")
        truth = self.folder("truth") / "truth.json"
        without = self.run_host(command, "none", sim=True, env=env)
        watched = self.run_host(command, probe, sim=True, env=dict(env or {}, GPUSIM_TRUTH=str(truth)))
        self.assertIn(b"window 2: kernels %d " % LAUNCHES, without.stdout)
        self.assertEqual(watched.seen, without.seen)
        trace = self.only_trace(watched)
        self.assertEqual(trace.kernels, watched.fields()["outside"])
        self.assertEqual(trace.unfinished_kernels, 0)
        self.assertEqual(sum(trace.losses.values()), 0, trace.losses)
        periods = trace.blind_periods
        client = "contract_clients_own" if binding == "own" else f"libclient_{binding}.so"
        self.assertEqual({who for _, _, who, _ in periods}, {client})
        # After its first window the client changes how buffers are handed out, which nobody may do while
        # kinds are enabled: a moment more.
        self.assertEqual([reason for _, _, _, reason in periods],
                         ["cuptiActivityRegisterTimestampCallback", "cuptiActivitySetAttribute"] +
                         ["cuptiActivityRegisterTimestampCallback"] * 2)
        for begin, end, _, _ in periods:
            self.assertLess(begin, end)
        for (_, end, _, _), (begin, _, _, _) in zip(periods, periods[1:]):
            self.assertLessEqual(end, begin)
        self.assertEqual(json.loads(truth.read_text())["violations"], [])
        return trace

    def test_three_windows_under_preload(self):
        trace = self.check("preload")
        self.assertEqual(trace.door, "preload")

    def test_three_windows_under_injection_alone(self):
        trace = self.check("injection")
        self.assertEqual(trace.door, "injection")

    def test_three_windows_through_both_doors(self):
        self.check("both")

    def test_three_windows_of_a_client_whose_imports_are_sealed(self):
        for probe in ("preload", "injection"):
            with self.subTest(probe=probe):
                self.check(probe, binding="now")

    def test_a_program_that_is_the_client_itself(self):
        for probe in ("preload", "injection"):
            with self.subTest(probe=probe):
                self.check(probe, binding="own")

    def test_a_client_that_is_loaded_later(self):
        # Under injection alone it is found within a flush period.
        for probe in ("preload", "injection"):
            with self.subTest(probe=probe):
                self.check(probe, pause_ms=200, env={"GPUPROBE_FLUSH_MS": "20"}, binding="now", late=True)

    def test_graphs_that_are_made_inside_a_window_can_be_replayed_after_it(self):
        for probe in ("preload", "injection"):
            with self.subTest(probe=probe):
                _, watched = self.assert_cannot_tell([host.host("contract_graphs"), "20", "5"], probe, sim=True)
                trace = self.only_trace(watched)
                fields = watched.fields()
                self.assertEqual((trace.count(traces.GRAPHS), trace.kernels), (fields["before"], fields["since"]))
                # As a whole until the first window, node by node since; told again once a frame at most. On a
                # busy machine the first frame is written after that window, and is the only one that tells.
                levels = [traces.one(capture, 11) for capture in trace.packets[traces.CAPTURE]]
                self.assertEqual((levels, levels[-1]), (sorted(levels), 1))

    def end_badly(self, ending):
        for probe in ("preload", "injection"):
            command = [host.host("contract_clients_lazy"), str(LAUNCHES), "0", "-", ending]
            _, watched = self.assert_cannot_tell(command, probe, sim=True)
            trace = self.only_trace(watched)
            self.assertEqual(trace.end_reason, "exit")
            yield trace

    def test_the_process_ends_inside_a_window(self):
        for trace in self.end_badly("open"):
            last = trace.blind_periods[-1]
            self.assertLess(last[0], last[1])
            self.assertEqual(trace.kernels, 3 * LAUNCHES)

    def test_a_client_that_finalises_cupti_leaves_us_blind_for_good(self):
        for trace in self.end_badly("finalize"):
            last = trace.blind_periods[-1]
            self.assertEqual(last[2:], ("libclient_lazy.so", "cuptiFinalize"))
            self.assertLess(last[0], last[1])
            # What was launched before it is there.
            self.assertEqual(trace.kernels, 3 * LAUNCHES)

    def test_windows_that_are_longer_than_a_flush_period(self):
        for probe in ("preload", "injection"):
            with self.subTest(probe=probe):
                self.check(probe, pause_ms=100, env={"GPUPROBE_FLUSH_MS": "20"})


class TwoCopiesTest(host.ContractTest):
    def setUp(self):
        super().setUp()
        self.need_simulation()

    def test_both_doors_with_one_file_record_once(self):
        _, watched = self.assert_cannot_tell([ENDINGS, "return_synchronized", "500"], probe="both", sim=True)
        trace = self.only_trace(watched)
        self.assertEqual((trace.kernels, trace.door), (500, "preload+injection"))

    def test_two_copies_at_two_paths_record_once(self):
        other = self.folder("other") / "libgpuprobe.so"
        shutil.copy(host.LIBRARY, other)
        result = self.run_host([ENDINGS, "return_synchronized", "500"], sim=True,
                               env={"CUDA_INJECTION64_PATH": other})
        self.assertEqual((result.status, result.stderr), (4, b"ends by return_synchronized\n"))
        self.assertEqual(self.only_trace(result).kernels, 500)

    def test_of_two_copies_the_one_that_sees_other_clients_records(self):
        other = self.folder("other") / "libgpuprobe.so"
        shutil.copy(host.LIBRARY, other)
        command = [host.host("contract_clients_lazy"), str(LAUNCHES)]
        without = self.run_host(command, "none", sim=True)
        watched = self.run_host(command, sim=True, env={"CUDA_INJECTION64_PATH": other})
        self.assertEqual(watched.seen, without.seen)
        trace = self.only_trace(watched)
        self.assertEqual(trace.kernels, watched.fields()["outside"])
        self.assertGreaterEqual(len(trace.blind_periods), 3)

    def test_the_preload_twice_records_once(self):
        other = self.folder("other") / "libgpuprobe.so"
        shutil.copy(host.LIBRARY, other)
        result = self.run_host([ENDINGS, "return_synchronized", "500"], sim=True,
                               env={"LD_PRELOAD": f"{host.LIBRARY}:{other}"})
        self.assertEqual((result.status, result.stderr), (4, b"ends by return_synchronized\n"))
        self.assertEqual(self.only_trace(result).kernels, 500)

    def test_another_tool_behind_the_injection_door_keeps_it(self):
        # Whoever set the variable gets the door; we do not fight for it.
        result = self.run_host([ENDINGS, "return_synchronized", "500"], sim=True,
                               env={"CUDA_INJECTION64_PATH": str(host.HOSTS / "libcontract_other1.so")})
        self.assertEqual((result.status, result.stderr), (4, b"ends by return_synchronized\n"))
