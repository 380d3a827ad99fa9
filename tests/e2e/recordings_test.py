# SPDX-License-Identifier: Apache-2.0
# Copyright the gpuprobe authors.
"""Recorded CUPTI buffers through the shipped library and back out of probe-report: exact values.

A replay hands over every record of the recording, whatever kinds and per-call filters the library asked
for. All of them have to come back but for two sorts of calls: chatter (CHATTER below), which the library
leaves out unless GPUPROBE_ALL_API=1, and driver calls that say again what the runtime call above them says.

tests/testdata/recordings is always there. The larger recordings of an H200 lie in
$GPUPROBE_TEST_SHARED/cupti-recordings and are skipped where that is absent.
"""
import collections
import json
import os
import unittest

import harness  # puts tests/sim on the path

import recording

MIN_GAPS = ("1ms", "10us", "1us")
SMALL = os.path.join(harness.SOURCE, "tests", "testdata", "recordings")
LARGE = os.path.join(harness.SHARED, "cupti-recordings")
DOMAINS = {4: "driver", 5: "runtime"}

# Calls of the recordings that neither submit nor wait nor allocate nor load: most of all calls by number.
CHATTER = {
    "cuCtxSetCurrent", "cudaDeviceGetAttribute", "cudaDeviceGetStreamPriorityRange", "cudaDriverGetVersion",
    "cudaEventQuery", "cudaGetDevice", "cudaGetDeviceCount", "cudaGetDeviceProperties",
    "cudaGetDriverEntryPointByVersion", "cudaGetErrorString", "cudaGetLastError", "cudaHostGetDevicePointer",
    "cudaOccupancyAvailableDynamicSMemPerBlock", "cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags",
    "cudaOccupancyMaxActiveClusters", "cudaPeekAtLastError", "cudaPointerGetAttributes", "cudaRuntimeGetVersion",
    "cudaSetDevice", "cudaStreamIsCapturing",
}


def expected_of(folder, name):
    with open(os.path.join(folder, "expected.json"), encoding="utf-8") as file:
        return json.load(file)["files"][name + ".cuptibuf.gz"]


class RecordingsTest(harness.EndToEndTest):
    def check(self, folder, name):
        expected = expected_of(folder, name)
        path = os.path.join(folder, name + ".cuptibuf.gz")
        version = expected.get("cupti_version", 130001)
        self.run_sim(["--cupti", str(version), "--replay", path])
        self.check_summaries(expected)
        self.check_kernels(expected)
        dumped = self.dump()
        self.check_totals_of_dump(expected, dumped)
        self.check_waits(expected, dumped)
        self.check_calls_left_out(expected, dumped, self.replay_with_all_calls(path, version, expected))

    def replay_with_all_calls(self, path, version, expected):
        self.run_folder += "-all"
        self.run_sim(["--cupti", str(version), "--replay", path], GPUPROBE_ALL_API="1")
        dumped = self.dump()
        self.check_totals_of_dump(expected, dumped)
        self.check_every_record(path, version, dumped)
        return dumped

    def check_summaries(self, expected):
        for min_gap in MIN_GAPS:
            summary = self.report("summary", "--min-gap", min_gap)
            self.assertFalse(summary["partial"])
            self.assertEqual(summary["loss"],
                             {"cupti_dropped": 0, "ring_dropped": 0, "damaged_bytes": 0, "items": []})
            self.assertEqual([d["device"] for d in summary["devices"]], sorted(map(int, expected["devices"])))
            for device in summary["devices"]:
                self.check_device(device, expected["devices"][str(device["device"])], min_gap)

    def check_device(self, device, expected, min_gap):
        self.assertEqual(device["window_ns"], {"start": expected["first_start_ns"], "end": expected["last_end_ns"],
                                               "span": expected["span_ns"]})
        self.assertEqual(device["kernels"], {
            "count": expected["kernel_count"], "zero_length": expected["kernel_zero_length"],
            "sum_ns": expected["kernel_sum_ns"], "union_ns": expected["kernel_union_ns"]})
        self.assertEqual(device["copies"]["count"] + device["sets"]["count"], expected["copy_set_count"])
        self.assertEqual(device["sets"]["count"], expected["set_count"])
        if "copy_bytes" in expected:
            self.assertEqual(device["copies"]["bytes"], expected["copy_bytes"])
        self.assertEqual(device["graphs"]["count"], expected.get("graph_count", 0))
        self.assertEqual(device["untimed"]["count"], 0)
        self.assertEqual(device["busy_ns"], expected["busy_union_ns"])
        self.assertEqual(device["idle_ns"], expected["idle_ns"])
        self.assertEqual(sum(device["breakdown"].values()), expected["span_ns"])
        self.assertEqual(sum(c["total_ns"] for c in device["idle_causes"]), expected["idle_ns"])
        gaps = expected["gaps"][min_gap]
        self.assertEqual((device["gaps"]["count"], device["gaps"]["total_ns"]), (gaps["count"], gaps["total_ns"]))

    def check_kernels(self, expected):
        for number, device in expected["devices"].items():
            report = self.report("kernels", "--device", number)
            # A graph recorded as a whole has a row too, without a mangled name.
            rows = [{"name": r["mangled"], "count": r["count"], "total_ns": r["total_ns"]}
                    for r in report["kernels"] if r["mangled"]]
            # Rows of equal time may stand in either order.
            rows.sort(key=lambda r: (-r["total_ns"], r["name"]))
            self.assertEqual(len(rows), device["kernel_names"])
            self.assertEqual(rows[:5], device["top_kernels"])
            self.assertEqual(sum(r["total_ns"] for r in rows), device["kernel_sum_ns"])

    def check_totals_of_dump(self, expected, dumped):
        for kind, field, key, labels in (("sync", "type", "sync_by_type", recording.SYNC_TYPES),
                                         ("overhead", "overhead", "overhead_by_kind", recording.OVERHEAD_KINDS)):
            totals = collections.defaultdict(lambda: {"count": 0, "total_ns": 0})
            for record in dumped.get(kind, []):
                total = totals["%d %s" % (record[field], labels[record[field]])]
                total["count"] += 1
                total["total_ns"] += record["end_ns"] - record["start_ns"]
            self.assertEqual(dict(totals), expected[key])

    def check_every_record(self, path, version, dumped):
        """Not totals alone: each record of the recording with its times and ids, none twice, none missing.

        Except driver calls beneath a runtime call: the library leaves those out that say the same again.
        """
        beneath = self.calls_beneath(recording.records(path, version))
        names = recording.read_names(recording.names_path(path))
        wanted, found = collections.Counter(), collections.Counter()
        for r in recording.records(path, version):
            if r["kind"] == 10:
                wanted["kernel", r["device"], r["context"], r["stream"], r["correlation"], r["start"], r["end"],
                       names[r["name"]]] += 1
            elif r["kind"] in (1, 22):
                wanted["copy", r["device"], r["context"], r["stream"], r["correlation"], r["start"], r["end"],
                       r["bytes"], r["copy_kind"], r["src_kind"], r["dst_kind"]] += 1
            elif r["kind"] == 2:
                wanted["set", r["device"], r["context"], r["stream"], r["correlation"], r["start"], r["end"],
                       r["bytes"], r["value"]] += 1
            elif r["kind"] == 51:
                wanted["graph", r["device"], r["context"], r["stream"], r["correlation"], r["start"], r["end"],
                       r["graph_id"]] += 1
            elif r["kind"] in DOMAINS:
                wanted["call", DOMAINS[r["kind"]], r["cbid"], r["thread"], r["correlation"], r["start"],
                       r["end"], r["result"]] += 1
            elif r["kind"] == 38:
                wanted["sync", r["type"], r["context"], r["correlation"], r["start"], r["end"]] += 1
            elif r["kind"] == 17:
                wanted["overhead", r["overhead_kind"], r["start"], r["end"]] += 1
            elif r["kind"] == 36:
                wanted["cuda_event", r["context"], r["stream"], r["event"], r["correlation"]] += 1
        for kind in ("kernel", "copy", "set", "graph"):
            last = {"kernel": ("name",), "copy": ("bytes", "copy_kind", "src_kind", "dst_kind"),
                    "set": ("bytes", "value"), "graph": ("graph",)}[kind]
            for r in dumped.get(kind, []):
                found[(kind, r["device"], r["context"], r["stream"], r["correlation"], r["start_ns"],
                       r["end_ns"]) + tuple(r[key] for key in last)] += 1
        for r in dumped.get("call", []):
            found["call", r["domain"], r["cbid"], r["thread"], r["correlation"], r["start_ns"], r["end_ns"],
                  r.get("result", 0)] += 1
        for r in dumped.get("sync", []):
            found["sync", r["type"], r["context"], r["correlation"], r["start_ns"], r["end_ns"]] += 1
        for r in dumped.get("overhead", []):
            found["overhead", r["overhead"], r["start_ns"], r["end_ns"]] += 1
        for r in dumped.get("cuda_event", []):
            found["cuda_event", r["context"], r["stream"], r["event"], r["correlation"]] += 1
        missing = wanted - found
        self.assertEqual(sorted(set(missing) - beneath)[:5], [], "missing in the trace")
        self.assertEqual(sorted((found - wanted).items())[:5], [], "in the trace, never recorded")

    @staticmethod
    def calls_beneath(records):
        """Driver calls whose thread and correlation id are those of a runtime call."""
        calls = [r for r in records if r["kind"] in DOMAINS]
        runtime = {(r["thread"], r["correlation"]) for r in calls if r["kind"] == 5}
        return {("call", "driver", r["cbid"], r["thread"], r["correlation"], r["start"], r["end"], r["result"])
                for r in calls if r["kind"] == 4 and (r["thread"], r["correlation"]) in runtime}

    def check_calls_left_out(self, expected, dumped, all_dumped):
        def calls(records):
            return collections.Counter(tuple(sorted(r.items())) for r in records["call"])
        runtime = [r for r in all_dumped["call"] if r["domain"] == "runtime"]
        self.assertEqual(len(runtime), expected["runtime_api_records"])
        self.assertEqual(sum(r.get("result", 0) != 0 for r in runtime), expected["runtime_api_nonzero_return"])
        left_out = calls(all_dumped) - calls(dumped)
        self.assertEqual(calls(dumped) - calls(all_dumped), {})
        self.assertEqual({dict(call)["name"] for call in left_out} - CHATTER, set())
        self.assertEqual({r["name"] for r in dumped["call"]} & CHATTER, set())

    def check_waits(self, expected, dumped):
        waits = self.waiting_calls(dumped)
        rows = {row["api"]: {"count": 0, "total_ns": 0} for row in self.report("waits")["waits"]}
        for row in self.report("waits")["waits"]:
            rows[row["api"]]["count"] += row["count"]
            rows[row["api"]]["total_ns"] += row["total_ns"]
            self.assertEqual(row["device_busy_ns"] + row["device_idle_ns"], row["total_ns"])
        self.assertEqual({api: row for api, row in rows.items() if "Synchronize" in api}, waits)
        if "runtime_api_synchronize" in expected:  # the same numbers, from elsewhere
            self.assertEqual(waits, {name.rsplit("_v", 1)[0]: total
                                     for name, total in expected["runtime_api_synchronize"].items()})

    @staticmethod
    def waiting_calls(dumped):
        """Totals of the *Synchronize* calls: the runtime's, and the driver's that stand beneath none."""
        runtime = {(r["thread"], r["correlation"]) for r in dumped["call"] if r["domain"] == "runtime"}
        totals = {}
        for r in dumped["call"]:
            beneath = r["domain"] == "driver" and (r["thread"], r["correlation"]) in runtime
            if "Synchronize" in r["name"] and not beneath:
                total = totals.setdefault(r["name"], {"count": 0, "total_ns": 0})
                total["count"] += 1
                total["total_ns"] += r["end_ns"] - r["start_ns"]
        return totals


class LargeRecordingsTest(RecordingsTest):
    def setUp(self):
        super().setUp()
        if not os.path.isdir(LARGE):
            self.skipTest("no recordings in " + LARGE)

    def test_resnet_dataloader(self):
        self.check(LARGE, "resnet_dataloader")

    def test_gpt_train(self):
        self.check(LARGE, "gpt_train")


class SmallRecordingsTest(RecordingsTest):
    def test_mixed_cuda_13(self):
        self.check(SMALL, "sim_mixed")

    def test_mixed_cuda_12(self):
        self.check(SMALL, "sim_mixed_cupti26")

    def test_mixed_cuda_11(self):
        self.check(SMALL, "sim_mixed_cupti18")

    def test_graph_level(self):
        self.check(SMALL, "sim_graph_level")


if __name__ == "__main__":
    unittest.main()
