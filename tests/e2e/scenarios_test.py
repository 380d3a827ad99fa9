# SPDX-License-Identifier: Apache-2.0
# Copyright the gpuprobe authors.
"""Scripted hosts on the virtual clock: every gap, its causes and every wait, worked out by hand beforehand.

Each scenario (tests/e2e/scenarios) runs once under the shipped library. Times here are microseconds after the
start of the first GPU operation of the run, as written down from the script and the costs in scenario.py; they
have to come out to the nanosecond. The definitions are those of tools/attribution/ATTRIBUTION.md. Of every run is checked,
besides: the trace holds what really happened (the simulation's own log) and nothing else, parts add up to gaps,
causes to the idle time and the breakdown to the window, no rule of CUPTI was broken, and the host's exit code
is its own.
"""
import collections
import json
import os
import sys
import unittest

import harness

EXIT_CODE = 23  # scenario.py

# Calls that a framework makes all the time and that tell nothing: filtered at the source.
CHATTER = {"cudaGetDevice", "cudaGetLastError", "cudaSetDevice", "cuDeviceGetCount", "cuCtxSetCurrent",
           "cudaGetDeviceCount"}


def ns(us):
    return round(us * 1000)


class Device:
    """What a device's report has to say. gaps: (begin, end, [(cause, length), ...]); neighbours of one cause
    count as one part. busy: (compute, communication, copy)."""

    def __init__(self, window, busy, gaps=(), kernels=None, untimed=0):
        self.window, self.busy, self.gaps, self.kernels, self.untimed = window, busy, gaps, kernels, untimed


class Wait:
    def __init__(self, api, count, total, busy, idle, after):
        self.row = {"api": api, "count": count, "total_ns": ns(total), "device_busy_ns": ns(busy),
                    "device_idle_ns": ns(idle), "idle_after_ns": ns(after)}


def parts_of(gap):
    """(cause, ns) with neighbours of one cause joined; checks that the parts fill the gap."""
    joined, at = [], gap["begin_ns"]
    for part in gap["parts"]:
        if part["begin_ns"] != at or part["end_ns"] - part["begin_ns"] != part["ns"] or part["ns"] <= 0:
            raise AssertionError("parts leave a hole or overlap: %s" % gap["parts"])
        at = part["end_ns"]
        if joined and joined[-1][0] == part["cause"]:
            joined[-1] = (part["cause"], joined[-1][1] + part["ns"])
        else:
            joined.append((part["cause"], part["ns"]))
    if at != gap["end_ns"]:
        raise AssertionError("parts do not reach to the end of the gap: %s" % gap)
    return joined


class ScenarioTest(harness.EndToEndTest):
    def run_scenario(self, name, *run_sim_options, arguments=(), clock="virtual", with_output=False,
                     **environment):
        """Runs it and checks what holds for every run. Returns the simulation's log (and stdout)."""
        path = os.path.join(self.folder, "truth.json")
        # The sampler lives on the real clock: what it sees has nothing to do with virtual time.
        environment.setdefault("GPUPROBE_SAMPLE_HZ", "0")
        done = self.run_sim(["--clock", clock, "--truth", path, *run_sim_options, "--", sys.executable,
                      os.path.join(harness.SCENARIOS, name + ".py"), *arguments], expect=EXIT_CODE, **environment)
        with open(path, encoding="utf-8") as file:
            truth = json.load(file)
        self.assertEqual(truth["violations"], [])
        return (truth, done.stdout) if with_output else truth

    # ---- the trace against what really happened ----

    @staticmethod
    def true_ops(truth, nodes):
        """Work of the device as (kind, device, context, stream, correlation, start, end, name or bytes)."""
        found = []
        for op in truth["ops"]:
            # A graph is in the log as a whole and node by node; in the trace it is one or the other.
            hidden = op["graph"] != 0 and (op["kind"] == "graph") == nodes
            if op["kind"] == "host_function" or hidden:
                continue
            kind = {"peer_copy": "copy"}.get(op["kind"], op["kind"])
            what = {"kernel": op["name"], "graph": op["graph"]}.get(kind, op["bytes"])
            found.append((kind, op["device"], op["context"], op["stream"], op["correlation"], op["start"],
                          op["end"], what))
        return sorted(found, key=str)

    @staticmethod
    def traced_ops(dumped):
        found = []
        for kind, what in (("kernel", "name"), ("copy", "bytes"), ("set", "bytes"), ("graph", "graph")):
            for r in dumped.get(kind, []):
                found.append((kind, r["device"], r["context"], r["stream"], r["correlation"], r.get("start_ns"),
                              r.get("end_ns"), r[what]))
        return sorted(found, key=str)

    def check_trace(self, truth, nodes=False):
        dumped = self.dump()
        self.assertEqual(self.traced_ops(dumped), self.true_ops(truth, nodes))
        self.check_csv(dumped)
        self.check_traced_calls(truth, dumped)
        self.check_traced_syncs(truth, dumped)

    def check_csv(self, dumped):
        """The other format of the dump holds the same."""
        def timed(rows):
            return sorted((r["kind"], int(r["start_ns"]), int(r["end_ns"]), r.get("name", ""))
                          for r in rows if r.get("end_ns"))
        rows = harness.csv_rows(self.report_text("dump", "--format", "csv"))
        self.assertEqual(timed(rows), timed([r for records in dumped.values() for r in records]))
        self.assertEqual(len(rows), sum(map(len, dumped.values())))

    def check_traced_calls(self, truth, dumped):
        """Calls in the trace have happened; calls that are missing there are chatter, or stand for a runtime
        call that is there."""
        def of_truth(c):
            return (c["domain"], c["name"], c["thread"], c["correlation"], c["start"], c["end"], c["result"])
        happened = {of_truth(c): c for c in truth["api"]}
        traced = [(c["domain"], c["name"], c["thread"], c["correlation"], c["start_ns"], c["end_ns"],
                   c.get("result", 0)) for c in dumped["call"]]
        self.assertEqual(len(traced), len(set(traced)))
        self.assertEqual(set(traced) - set(happened), set())
        ids = {(call[2], call[3]) for call in traced}
        # cuInit lets the library in: what began before that cannot be recorded.
        begin = min(call[4] for call in traced)
        for call in set(happened) - set(traced):
            nested = happened[call]["nested"] and (call[2], call[3]) in ids
            self.assertTrue(call[1] in CHATTER or nested or call[4] < begin, call)

    def check_traced_syncs(self, truth, dumped):
        """Blocking waits; the log holds waits of copies too, for which CUPTI has no record."""
        types = {"event": 1, "stream": 3, "context": 4}
        happened = sorted((types[w["type"]], w["correlation"], w["start"], w["end"])
                          for w in truth["waits"] if w["type"] in types)
        traced = sorted((s["type"], s["correlation"], s["start_ns"], s["end_ns"])
                        for s in dumped.get("sync", []) if s["type"] in types.values())
        self.assertEqual(traced, happened)

    # ---- the reports against what was worked out ----

    def check_reports(self, devices, waits, *options, origin=None):
        summary = self.report("summary", "--min-gap", "1ns", *options)
        listed = self.report("gaps", "--min-gap", "1ns", "--top", "0", *options)
        origin = origin if origin is not None else min(d["window_ns"]["start"] for d in summary["devices"])
        self.assertEqual([d["device"] for d in summary["devices"]], sorted(devices))
        for device in summary["devices"]:
            gaps = sorted((g for g in listed["gaps"] if g["device"] == device["device"]),
                          key=lambda g: g["begin_ns"])
            self.check_sums(device, gaps)
            self.check_device(device, gaps, devices[device["device"]], origin)
        rows = [{k: v for k, v in row.items() if k not in ("where", "longest_ns")} for row in summary["waits"]]
        self.assertEqual(sorted(rows, key=str), sorted((w.row for w in waits), key=str))
        return summary

    def check_sums(self, device, gaps):
        span = device["window_ns"]["span"]
        self.assertEqual(sum(device["breakdown"].values()), span)
        self.assertEqual(device["busy_ns"] + device["idle_ns"], span)
        self.assertEqual(device["breakdown"]["idle_ns"], device["idle_ns"])
        self.assertEqual(sum(cause["total_ns"] for cause in device["idle_causes"]), device["idle_ns"])
        self.assertEqual(sum(gap["duration_ns"] for gap in gaps), device["idle_ns"])
        self.assertEqual((device["gaps"]["count"], device["gaps"]["total_ns"]), (len(gaps), device["idle_ns"]))
        by_cause = {}
        for gap in gaps:
            for cause, length in parts_of(gap):
                by_cause[cause] = by_cause.get(cause, 0) + length
        self.assertEqual({c["cause"]: c["total_ns"] for c in device["idle_causes"]}, by_cause)
        for cause in device["idle_causes"]:
            if cause["sites"]:
                self.assertEqual(sum(site["total_ns"] for site in cause["sites"]), cause["total_ns"])

    def check_device(self, device, gaps, expected, origin):
        window = device["window_ns"]
        self.assertEqual((window["start"] - origin, window["end"] - origin), tuple(map(ns, expected.window)))
        breakdown = device["breakdown"]
        self.assertEqual((breakdown["compute_ns"], breakdown["communication_ns"], breakdown["copy_ns"]),
                         tuple(map(ns, expected.busy)))
        found = [(g["begin_ns"] - origin, g["end_ns"] - origin, parts_of(g)) for g in gaps]
        self.assertEqual(found, [(ns(begin), ns(end), [(cause, ns(length)) for cause, length in parts])
                                 for begin, end, parts in expected.gaps])
        if expected.kernels is not None:
            count, total = expected.kernels
            self.assertEqual((device["kernels"]["count"], device["kernels"]["sum_ns"]), (count, ns(total)))
        self.assertEqual(device["untimed"]["count"], expected.untimed)

    def check(self, name, devices, waits=(), options=(), **environment):
        truth = self.run_scenario(name, *options, **environment)
        self.check_trace(truth, nodes=environment.get("GPUPROBE_GRAPH_NODES") == "1")
        return self.check_reports(devices, waits)


class OneDeviceTest(ScenarioTest):
    def test_overlapping_streams(self):
        # a [0,100) and [100,150) on one stream, b [5,205) on the other; the last launch is [305,310].
        self.check("overlapping_streams", {0: Device(
            window=(0, 325), busy=(215, 0, 0), kernels=(4, 360),
            gaps=[(205, 315, [("host", 100), ("launch_bound", 5), ("launch_latency", 5)])])})

    def test_communication(self):
        # compute [0,100), collective [45,145), copy [140,190)
        self.check("communication", {0: Device(window=(0, 190), busy=(100, 45, 45))})

    def test_sync_each_launch(self):
        # Each wait covers a kernel of 20: without it the thread would have been 20 ahead of the device. Of
        # the 30 + 5 that the thread then takes, 20 are the wait's.
        parts = [("synchronisation", 20), ("launch_bound", 15), ("launch_latency", 5)]
        self.check("sync_each_launch", {0: Device(
            window=(0, 140), busy=(60, 0, 0), gaps=[(20, 60, parts), (80, 120, parts)])},
            [Wait("cudaStreamSynchronize", 3, total=75, busy=60, idle=15, after=80)])

    def test_event_sync(self):
        self.check("event_sync", {0: Device(
            window=(0, 200), busy=(40, 0, 0),
            gaps=[(20, 180, [("synchronisation", 20), ("host", 130), ("launch_bound", 5), ("launch_latency", 5)])])},
            [Wait("cudaEventSynchronize", 2, total=46, busy=40, idle=6, after=160)])

    def test_drained_by_wait(self):
        # The wait [600,1000] kept the thread from 400 of the 690 of Python.
        self.check("drained_by_wait", {0: Device(
            window=(0, 1720), busy=(1020, 0, 0),
            gaps=[(1000, 1700, [("synchronisation", 400), ("host", 290), ("launch_bound", 5),
                                ("launch_latency", 5)])])},
            [Wait("cudaStreamSynchronize", 1, total=400, busy=400, idle=0, after=700)])

    def test_pageable_upload(self):
        # The second copy's call is [0,102]: staged while the first step runs until 70, then with nothing to do.
        self.check("pageable_upload", {0: Device(
            window=(0, 177), busy=(60, 0, 80), gaps=[(70, 107, [("pageable_copy", 32), ("launch_latency", 5)])])},
            [Wait("cudaMemcpyAsync", 2, total=204, busy=70, idle=134, after=5)])

    def test_loss_item(self):
        # The copy's call is [-5,52] and ends with the copy; 52 of it the device was busy.
        self.check("loss_item", {0: Device(
            window=(0, 314), busy=(100, 0, 4),
            gaps=[(52, 262, [("pageable_copy", 52), ("host", 148), ("launch_bound", 5), ("launch_latency", 5)])])},
            [Wait("cudaMemcpyAsync", 2, total=114, busy=104, idle=10, after=210)])

    def test_slow_host(self):
        summary = self.check("slow_host", {0: Device(
            window=(0, 21 * 5005 + 20.001), busy=(22 * 20.001, 0, 0), kernels=(22, 22 * 20.001),
            gaps=[(5005 * i + 20.001, 5005 * (i + 1),
                   [("host", 4974.999), ("launch_bound", 5), ("launch_latency", 5)]) for i in range(21)])})
        self.assertEqual(summary["verdict"]["kind"], "host")
        self.assertEqual({c["name"] for c in self.dump()["call"]} & CHATTER, set())

    def test_launch_loop(self):
        # A launch every 9, its kernel runs for 1, 2 after the call.
        summary = self.check("launch_loop", {0: Device(
            window=(0, 1199 * 9 + 1), busy=(1200, 0, 0),
            gaps=[(9 * i + 1, 9 * i + 9, [("launch_bound", 6), ("launch_latency", 2)]) for i in range(1199)])})
        self.assertEqual(summary["verdict"]["kind"], "launch_bound")

    def test_alloc_in_loop(self):
        # cudaFree [-5,30] waits for the kernel, cudaMalloc [30,81] does not; the launch after them [81,86]
        # would have been in time but for the 30 for which cudaFree waited.
        parts = [("blocking_api", 56), ("launch_latency", 5)]
        self.check("alloc_in_loop", {0: Device(
            window=(0, 212), busy=(90, 0, 0), gaps=[(30, 91, parts), (121, 182, parts)])},
            [Wait("cudaFree", 3, total=105, busy=90, idle=15, after=122)])

    def test_module_load(self):
        self.check("module_load", {0: Device(
            window=(0, 425), busy=(40, 0, 0), gaps=[(20, 405, [("blocking_api", 380), ("launch_latency", 5)])])},
            [Wait("cuModuleLoadData", 1, total=400, busy=20, idle=380, after=10)])

    def test_overheads(self):
        self.check("overheads", {0: Device(
            window=(0, 165), busy=(40, 0, 0),
            gaps=[(20, 145, [("host", 5), ("blocking_api", 40), ("host", 10), ("profiler", 60),
                             ("launch_bound", 5), ("launch_latency", 5)])])})

    def test_host_function(self):
        self.check("host_function", {0: Device(
            window=(0, 90), busy=(40, 0, 0), gaps=[(20, 70, [("dependency", 50)])])},
            [Wait("cudaStreamSynchronize", 1, total=88, busy=38, idle=50, after=0)])

    def test_launch_latency(self):
        # The third launch was over at -10, its kernel began at 40.
        self.check("launch_latency", {0: Device(
            window=(0, 50), busy=(30, 0, 0), gaps=[(20, 40, [("launch_latency", 20)])])})

    def test_graph_replay_at_graph_level(self):
        self.check("graph_replay", {0: Device(
            window=(0, 273), busy=(61.6 + 63, 0, 0), kernels=(0, 0),
            gaps=[(61.6, 210, [("host", 133.4), ("launch_bound", 10), ("launch_latency", 5)])])})

    def test_graph_replay_at_node_level(self):
        # Up to 1 us between nodes is what recording them costs; more is the device's.
        self.check("graph_replay", {0: Device(
            window=(0, 273), busy=(120, 0, 0), kernels=(6, 120),
            gaps=[(20, 20.8, [("profiler", 0.8)]), (40.8, 41.6, [("profiler", 0.8)]),
                  (61.6, 210, [("host", 133.4), ("launch_bound", 10), ("launch_latency", 5)]),
                  (230, 231.5, [("launch_latency", 1.5)]), (251.5, 253, [("launch_latency", 1.5)])])},
            GPUPROBE_GRAPH_NODES="1")

    def test_two_threads(self):
        # Thread 2 loads a module [-3,397] for which thread 1 waits; its launch is [397,402]. Then thread 1
        # waits for its kernel [402,427], and thread 3 computes for 200 before it launches [627,632].
        self.check("two_threads", {0: Device(
            window=(0, 657), busy=(60, 0, 0),
            gaps=[(20, 407, [("blocking_api", 382), ("launch_latency", 5)]),
                  (427, 637, [("synchronisation", 20), ("host", 180), ("launch_bound", 5), ("launch_latency", 5)])])},
            [Wait("cudaStreamSynchronize", 1, total=25, busy=20, idle=5, after=0),
             Wait("cuModuleLoadData", 1, total=400, busy=20, idle=380, after=0)])


class EverywhereTest(ScenarioTest):
    """The same by whatever door the library comes in, and with whatever CUPTI."""

    def check_with(self, *options):
        self.run_folder = os.path.join(self.folder, "-".join(options).strip("-"))
        self.check("loss_item", {0: Device(
            window=(0, 314), busy=(100, 0, 4), kernels=(2, 100),
            gaps=[(52, 262, [("pageable_copy", 52), ("host", 148), ("launch_bound", 5), ("launch_latency", 5)])])},
            [Wait("cudaMemcpyAsync", 2, total=114, busy=104, idle=10, after=210)], options=options)

    def test_doors(self):
        for door, called in (("preload", "preload"), ("injection", "injection"), ("both", "preload+injection")):
            with self.subTest(door=door):
                self.check_with("--door", door)
                (process,) = self.report("info")["processes"]
                self.assertEqual(process["door"], called)

    def test_versions_of_cupti(self):
        for version in ("18", "26", "28", "130001"):  # CUDA 11.8, 12.8, 12.9 update 1, 13.0
            with self.subTest(version=version):
                self.check_with("--cupti", version)
                (process,) = self.report("info")["processes"]
                self.assertEqual(process["cupti_version"], int(version))


class UntimedTest(ScenarioTest):
    def test_zero_length_and_zero_times(self):
        # [0,20); none at 155; a record without times, submitted by [300,305]; [465,485). Where the third ran
        # is not known: somewhere between its call and the start of the next on its stream.
        truth = self.run_scenario("zero_times", "--fault", "records:zero:3")
        for op in truth["ops"]:
            if op["start"] == truth["ops"][0]["start"] + ns(310):
                op["start"] = op["end"] = None
        self.check_trace(truth)
        summary = self.check_reports({0: Device(
            window=(0, 485), busy=(40, 0, 0), kernels=(3, 40), untimed=1,
            gaps=[(20, 155, [("host", 125), ("launch_bound", 5), ("launch_latency", 5)]),
                  (155, 465, [("host", 145), ("unknown", 165)])])}, [])
        self.assertEqual(summary["devices"][0]["kernels"]["zero_length"], 1)
        self.assertEqual(summary["devices"][0]["untimed"], {"count": 1, "missing": 1, "unfinished": 0, "invalid": 0})


class WindowTest(ScenarioTest):
    """--from and --to: what lies outside is cut off, idle time before the first and after the last operation
    has a cause of its own."""

    def setUp(self):
        super().setUp()
        self.run_scenario("sync_each_launch")
        self.origin = self.report("summary")["devices"][0]["window_ns"]["start"]

    def at(self, us):
        return "@%d" % (self.origin + ns(us))

    def test_a_window_around_the_run_has_a_start_and_an_end(self):
        parts = [("synchronisation", 20), ("launch_bound", 15), ("launch_latency", 5)]
        self.check_reports({0: Device(
            window=(-100, 190), busy=(60, 0, 0), kernels=(3, 60),
            gaps=[(-100, 0, [("start", 100)]), (20, 60, parts), (80, 120, parts), (140, 190, [("end", 50)])])},
            # Before: [-5,20], [55,80], [115,140]. Now the last wait is followed by 50 of nothing.
            [Wait("cudaStreamSynchronize", 3, total=75, busy=60, idle=15, after=80)],
            "--from", self.at(-100), "--to", self.at(190), origin=self.origin)

    def test_a_window_within_the_run_cuts_operations_gaps_and_waits(self):
        # From the middle of the first kernel to the middle of the second gap: [10,20) busy, a gap whole,
        # [60,80) busy, [80,95) of a gap whose first 20 are the wait's.
        self.check_reports({0: Device(
            window=(10, 95), busy=(30, 0, 0), kernels=(2, 30),
            gaps=[(20, 60, [("synchronisation", 20), ("launch_bound", 15), ("launch_latency", 5)]),
                  (80, 95, [("synchronisation", 15)])])},
            [Wait("cudaStreamSynchronize", 2, total=10 + 25, busy=10 + 20, idle=5, after=40 + 15)],
            "--from", self.at(10), "--to", self.at(95), origin=self.origin)

    def test_times_after_the_first_operation_mean_the_same(self):
        by_offset = self.report("summary", "--from", "10us", "--to", "95us")
        self.assertEqual(by_offset, self.report("summary", "--from", self.at(10), "--to", self.at(95)))


class TwoProcessesTest(ScenarioTest):
    OUTER_SPAN = 1_000_000_000 - 5 + 5 + 5 + 20  # its second launch is [1000 s - 5, 1000 s]
    INNER_PARTS = [("synchronisation", 20), ("launch_bound", 15), ("launch_latency", 5)]

    def setUp(self):
        super().setUp()
        self.pids = [self.run_scenario("two_processes", arguments=[role])["pid"] for role in ("outer", "inner")]

    def gaps_from(self, origin, *options):
        gaps = self.report("gaps", "--min-gap", "1ns", "--top", "0", *options)["gaps"]
        gaps.sort(key=lambda g: g["begin_ns"])
        return [(g["begin_ns"] - origin, g["end_ns"] - origin, parts_of(g)) for g in gaps], gaps

    def first_start_of(self, pid):
        return self.report("summary", "--process", str(pid))["devices"][0]["window_ns"]["start"]

    def test_together(self):
        outer, inner = map(self.first_start_of, self.pids)
        begin, end = ns(20), inner - outer + ns(140)  # of outer's first kernel, of inner's last
        gaps, listed = self.gaps_from(outer)
        self.assertEqual([g[:2] for g in gaps], [
            (begin, inner - outer), (inner - outer + ns(20), inner - outer + ns(60)),
            (inner - outer + ns(80), inner - outer + ns(120)), (end, ns(self.OUTER_SPAN - 20))])
        # Inner's own gaps are what they would be without outer.
        for gap in gaps[1:3]:
            self.assertEqual(gap[2], [(cause, ns(length)) for cause, length in self.INNER_PARTS])
        # Before its first launch inner had not submitted anything: its start-up is that long.
        self.assertEqual(gaps[0][2][0][0], "host")
        self.assertEqual(gaps[0][2][-1], ("launch_latency", ns(5)))
        self.assertEqual(gaps[3][2], [("host", ns(self.OUTER_SPAN - 30) - end), ("launch_bound", ns(5)),
                                      ("launch_latency", ns(5))])
        summary = self.report("summary", "--min-gap", "1ns")
        self.assertEqual(len(summary["inputs"]), 2)
        (device,) = summary["devices"]
        self.check_sums(device, listed)
        self.assertEqual((device["window_ns"]["span"], device["busy_ns"], device["kernels"]["count"]),
                         (ns(self.OUTER_SPAN), ns(100), 5))

    def test_the_outer_alone(self):
        outer, inner = map(self.first_start_of, self.pids)
        at = inner - outer
        gaps, listed = self.gaps_from(outer, "--process", str(self.pids[0]))
        self.assertEqual(gaps, [(ns(20), ns(self.OUTER_SPAN - 20), [
            ("host", at - ns(20)), ("other_process", ns(20)), ("host", ns(40)), ("other_process", ns(20)),
            ("host", ns(40)), ("other_process", ns(20)), ("host", ns(self.OUTER_SPAN - 30 - 140) - at),
            ("launch_bound", ns(5)), ("launch_latency", ns(5))])])
        (device,) = self.report("summary", "--min-gap", "1ns", "--process", str(self.pids[0]))["devices"]
        self.check_sums(device, listed)

    def test_the_inner_alone(self):
        summary = self.check_reports({0: Device(
            window=(0, 140), busy=(60, 0, 0), kernels=(3, 60),
            gaps=[(20, 60, self.INNER_PARTS), (80, 120, self.INNER_PARTS)])},
            [Wait("cudaStreamSynchronize", 3, total=75, busy=60, idle=15, after=80)],
            "--process", str(self.pids[1]))
        self.assertEqual(len(summary["inputs"]), 2)


class IncompleteTest(ScenarioTest):
    """On the real clock, for what is missing is told by its time there: not to the nanosecond worked out
    beforehand, but what the reports say has to agree with what really happened, and with itself."""

    def reports(self, expect):
        summary = self.report("summary", "--min-gap", "1ns", expect=expect)
        gaps = self.report("gaps", "--min-gap", "1ns", "--top", "0", expect=expect)["gaps"]
        gaps.sort(key=lambda g: g["begin_ns"])
        (device,) = summary["devices"]
        self.check_sums(device, gaps)
        return summary, gaps, self.report("info", expect=expect)

    def check_unknown_within(self, gaps, begin, end):
        """Of every gap just what lies in [begin, end) has no cause."""
        for gap in gaps:
            for part in gap["parts"]:
                blind = max(0, min(part["end_ns"], end) - max(part["begin_ns"], begin))
                self.assertEqual(blind, part["ns"] if part["cause"] == "unknown" else 0, part)

    @staticmethod
    def missing_ops(truth, dumped):
        traced = {(r["correlation"], r["start_ns"], r["end_ns"]) for r in dumped["kernel"]}
        return [op for op in truth["ops"] if (op["correlation"], op["start"], op["end"]) not in traced]

    def test_another_client_of_cupti(self):
        truth, out = self.run_scenario("other_client", clock="real", with_output=True)
        summary, gaps, info = self.reports(harness.COMPLETE)
        theirs = sorted(truth["ops"], key=lambda op: op["start"])[20:40]
        # Each client has its own kernels, all of them and no other's.
        self.assertEqual(json.loads(out)["kernels"], [op["correlation"] for op in theirs])
        missing = self.missing_ops(truth, self.dump())
        self.assertEqual([op["correlation"] for op in missing], [op["correlation"] for op in theirs])
        # The time in which we saw nothing is in the trace, with who it was.
        (blind,) = info["blind"]
        self.assertEqual(blind["why"], "other_client")
        self.assertIn("cuptiActivityRegisterCallbacks", blind["who"])
        ours = [op for op in truth["ops"] if op not in theirs]
        self.assertLessEqual(max(op["end"] for op in ours if op["start"] < theirs[0]["start"]), blind["begin_ns"])
        self.assertLess(blind["begin_ns"], min(op["queued"] for op in theirs))
        self.assertGreater(blind["end_ns"], max(op["end"] for op in theirs))
        self.assertLessEqual(blind["end_ns"], min(op["start"] for op in ours if op["start"] > theirs[0]["start"]))
        self.check_unknown_within(gaps, blind["begin_ns"], blind["end_ns"])
        self.assertEqual(summary["trust"]["blind_ns"], blind["end_ns"] - blind["begin_ns"])
        self.assertEqual(summary["trust"]["idle_unknown_ns"], blind["end_ns"] - blind["begin_ns"])

    def test_records_that_cupti_dropped(self):
        truth = self.run_scenario("bursts", "--fault", "buffers:drop:50", clock="real")
        summary, gaps, _ = self.reports(harness.PARTIAL)
        self.assertTrue(summary["partial"])
        dropped = truth["counts"]["records_dropped"]
        self.assertGreater(dropped, 5)
        self.assertEqual(summary["loss"]["cupti_dropped"], dropped)
        items = summary["loss"]["items"]
        self.assertEqual({item["cause"] for item in items}, {"cupti_dropped"})
        self.assertEqual(sum(item["count"] for item in items), dropped)
        missing = self.missing_ops(truth, self.dump(expect=harness.PARTIAL))
        self.assertEqual(len(missing), truth["records_by_kind"]["10"]["dropped"])
        # Whatever is missing was submitted while records were being lost.
        for op in missing:
            self.assertTrue(any(i["begin_ns"] <= op["start"] and op["queued"] <= i["end_ns"] for i in items), op)
        self.check_unknown_within(gaps, min(i["begin_ns"] for i in items), max(i["end_ns"] for i in items))

    def test_the_buffer_pool_runs_out(self):
        # CUPTI keeps every buffer until the process ends: the pool of 32 MiB is soon empty.
        path = os.path.join(self.folder, "truth.json")
        self.run_sim(["--fault", "buffers:at_exit:late", "--truth", path, "--", harness.SIM_STORM, "--threads", "1",
                      "--kernels", "40000", "--kernel-ns", "100"], GPUPROBE_MEMORY_MB="32")
        with open(path, encoding="utf-8") as file:
            truth = json.load(file)
        self.assertEqual(truth["violations"], [])
        summary, _, info = self.reports(harness.PARTIAL)
        # On a busy machine there may be two periods of it, which are two items.
        items = collections.defaultdict(list)
        for item in summary["loss"]["items"]:
            items[item["cause"]].append(item)
        lost = {cause: sum(item["count"] for item in of_it) for cause, of_it in items.items()}
        self.assertEqual(lost["cupti_dropped"], truth["counts"]["records_dropped"])
        self.assertEqual(lost["pool_exhausted"], truth["counts"]["buffers_refused"])
        (device,) = summary["devices"]
        kernels = truth["records_by_kind"]["10"]
        self.assertGreater(kernels["dropped"], 0)
        self.assertEqual(device["kernels"]["count"], kernels["emitted"] - kernels["dropped"])
        # What was submitted before the pool ran out is there. (When CUPTI asked in vain is known to the call; a
        # thread that lost its CPU asks later than the kernel began: the period in which records were lost holds it.)
        missing = self.missing_ops(truth, self.dump(expect=harness.PARTIAL))
        self.assertEqual(len(missing), kernels["dropped"])
        for op in missing:
            self.assertTrue(any(i["begin_ns"] <= op["start"] and op["queued"] <= i["end_ns"]
                                for i in items["pool_exhausted"] + items["cupti_dropped"]), op)
        self.assertEqual({b["why"] for b in info["blind"]}, {"loss"})

    def test_buffers_that_cupti_never_gave_back(self):
        self.run_scenario("bursts", "--fault", "buffers:late:60000", clock="real")
        summary = self.report("summary", expect=harness.PARTIAL)
        (item,) = summary["loss"]["items"]
        self.assertEqual((item["cause"], item["unit"]), ("not_returned", "buffers"))
        self.assertIn("never given back", self.report_text("summary", expect=harness.PARTIAL))


class TwoDevicesTest(ScenarioTest):
    def test_stream_wait(self):
        # Device 1: [9,29), then from 100 on what was submitted by 11 and waits for device 0's [0,100).
        self.check("stream_wait", {
            0: Device(window=(0, 100), busy=(100, 0, 0)),
            1: Device(window=(9, 130), busy=(50, 0, 0), gaps=[(29, 100, [("dependency", 71)])])})

    def test_two_devices(self):
        # The wait [2,27] is for device 1: it cost device 0, busy until 50, nothing. The launch for device 1 is
        # [177,182], that for device 0 [184,189].
        self.check("two_devices", {
            0: Device(window=(0, 244), busy=(100, 0, 0),
                      gaps=[(50, 194, [("host", 127), ("launch_bound", 12), ("launch_latency", 5)])]),
            1: Device(window=(7, 207), busy=(40, 0, 0),
                      gaps=[(27, 187, [("synchronisation", 20), ("host", 130), ("launch_bound", 5),
                                       ("launch_latency", 5)])])},
            [Wait("cudaDeviceSynchronize", 1, total=25, busy=20, idle=5, after=160)])


if __name__ == "__main__":
    unittest.main()
