# SPDX-License-Identifier: Apache-2.0
"""Memory, interrupted calls, and nothing of the host's that is used up."""

import host
import traces

MEMORY = host.host("contract_memory")
INTERRUPTS = host.host("contract_interrupts")
MIB = 1 << 20


class MemoryTest(host.ContractTest):
    def setUp(self):
        super().setUp()
        self.need_simulation()

    def measure(self, threads, launches, env=None, probe="preload"):
        result = self.run_host([MEMORY, str(threads), str(launches)], probe, sim=True, env=env, timeout=120)
        self.assertEqual((result.status, result.stderr), (0, b""))
        return result, result.fields()

    def test_two_hundred_launching_threads_stay_below_the_cap(self):
        _, without = self.measure(200, 500, probe="none")
        result, fields = self.measure(200, 500)
        growth = fields["process_resident"] - without["process_resident"]
        print(f"200 threads: mapped {fields['mapped'] / MIB:.1f} MiB, of that resident {fields['resident'] / MIB:.1f} MiB; "
              f"the process is {growth / MIB:.1f} MiB larger", flush=True)
        self.assertGreater(fields["mapped"], 10 * MIB)
        self.assertLessEqual(fields["mapped"], 64 * MIB)
        self.assertLessEqual(growth, 64 * MIB)
        trace = self.only_trace(result)
        # What did not fit is counted; what did is there.
        if not trace.losses:
            self.assertEqual(trace.kernels, fields["launched"])

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
