# SPDX-License-Identifier: Apache-2.0
# Copyright the gpuprobe authors.
"""NVTX ranges of an unmodified application: a tier that is off unless it is asked for."""
import os
import sys
import unittest

import harness

SIM_LIBRARIES = os.path.join(harness.BUILD, "sim")

HEAD = """
import os, sys, threading
sys.path.insert(0, %r)
from gpusim import Gpu
from nvtx import Nvtx
nvtx = Nvtx()
""" % os.path.join(harness.SOURCE, "tests", "sim")

STEPS = HEAD + """
gpu = Gpu()
for step in range(6):
    nvtx.push("train_step %d" % step)
    nvtx.push("forward")
    for k in range(5):
        gpu.launch("kernel%d" % (5 * step + k), 20_000)
    nvtx.pop()
    gpu.host(30_000)
    nvtx.pop()
gpu.sync()
print(nvtx.attached, os.environ.get("NVTX_INJECTION64_PATH", "none"))
"""

ON = {"GPUPROBE_NVTX": "on"}


class NvtxTest(harness.EndToEndTest):
    def setUp(self):
        super().setUp()
        if not os.path.exists(os.path.join(SIM_LIBRARIES, "lib", "libcupti.so.13")):
            self.skipTest("the simulated GPU was not built")

    def host(self, code, *options, **extra):
        return self.run_sim(["--clock", "virtual", *options, "--", sys.executable, "-c", code], **extra).stdout

    def markers(self):
        return self.dump().get("marker", [])

    def test_off_nothing_is_recorded_and_the_environment_is_as_it_was(self):
        self.assertEqual(self.host(STEPS), "False none\n")
        self.assertEqual(self.markers(), [])
        kinds = [k["name"] for k in self.report("info")["processes"][0]["kinds"]]
        self.assertNotIn("MARKER", kinds)
        self.assertEqual(self.report("steps")["devices"][0].get("source", "none"), "none")

    def test_on_ranges_arrive_and_mark_the_steps(self):
        out = self.host(STEPS, **ON)
        self.assertTrue(out.startswith("True ") and out.endswith("libgpuprobe.so\n"), out)
        markers = self.markers()
        self.assertEqual(len(markers), 2 * 12)
        self.assertEqual(sorted({m["name"] for m in markers if m["flags"] == 2}),
                         ["forward"] + ["train_step %d" % i for i in range(6)])
        self.assertEqual([m for m in markers if m["flags"] == 4 and "name" in m], [])
        steps = self.report("steps")["devices"][0]
        self.assertEqual((steps["source"], steps["marker"], steps["count"]), ("nvtx", "train_step #", 6))
        self.assertEqual([s["operations"] for s in steps["steps"]], [5] * 6)

    def test_every_cupti(self):
        for folder, version in (("lib-cupti12", "26"), ("lib-cupti11", "18")):
            with self.subTest(folder=folder):
                self.run_folder = os.path.join(self.folder, folder)
                self.host(STEPS, "--lib-dir", os.path.join(SIM_LIBRARIES, folder), "--cupti", version, **ON)
                self.assertEqual(len(self.markers()), 24)
                self.assertEqual(self.report("steps")["devices"][0]["source"], "nvtx")

    def test_nvtx_before_cuda(self):
        code = HEAD + """
nvtx.push("before")
nvtx.pop()
gpu = Gpu()
gpu.launch("first", 1000)
nvtx.push("after")
gpu.launch("kernel", 1000)
nvtx.pop()
gpu.sync()
print(nvtx.attached)
"""
        self.assertEqual(self.host(code, **ON), "True\n")
        self.assertEqual([m["name"] for m in self.markers() if m["flags"] == 2], ["after"])
        self.assertEqual(self.report("info")["processes"][0]["warnings"], [])

    def test_nested_and_across_threads(self):
        code = HEAD + """
gpu = Gpu()
gpu.launch("first", 1000)
ids = [nvtx.start("request %d" % i) for i in range(8)]
def work(i):
    nvtx.push("outer")
    nvtx.push("inner")
    gpu.launch("kernel", 1000)
    nvtx.pop()
    nvtx.end(ids[i])
    nvtx.pop()
threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
for t in threads: t.start()
for t in threads: t.join()
nvtx.mark("a mark")
nvtx.push("never popped")
gpu.sync()
"""
        self.host(code, **ON)
        markers = self.markers()
        begins = [m for m in markers if m["flags"] == 2]
        ends = {m["id"]: m for m in markers if m["flags"] == 4}
        self.assertEqual(len(begins), 8 * 3 + 1)
        self.assertEqual([m["name"] for m in markers if m["flags"] == 1], ["a mark"])
        self.assertEqual([m["name"] for m in begins if m["id"] not in ends], ["never popped"])
        for begin in begins:
            if begin["id"] not in ends:
                continue
            end = ends[begin["id"]]
            self.assertLessEqual(begin["start_ns"], end["start_ns"])
            self.assertEqual(begin["thread"] == end["thread"], not begin["name"].startswith("request"))
        self.report("steps")

    def test_domains(self):
        code = HEAD + """
gpu = Gpu()
gpu.launch("first", 1000)
domain = nvtx.domain("NCCL")
nvtx.push("all_reduce", domain)
gpu.launch("kernel", 1000)
nvtx.pop(domain)
gpu.sync()
"""
        self.host(code, **ON)
        begins = [m for m in self.markers() if m["flags"] == 2]
        self.assertEqual([(m["name"], m["domain"]) for m in begins], [("all_reduce", "NCCL")])

    def test_ten_thousand_names(self):
        code = HEAD + """
gpu = Gpu()
gpu.launch("first", 1000)
for i in range(10_000):
    nvtx.push("%s request" % "".join(chr(97 + i // 26 ** k % 26) for k in range(4)) + "x" * (i % 400))
    nvtx.pop()
gpu.launch("last", 1000)
gpu.sync()
"""
        self.host(code, **ON)
        markers = self.markers()
        self.assertEqual(len(markers), 20_000)
        names = {m["name"] for m in markers if m["flags"] == 2}
        self.assertEqual(len(names), 10_000)
        self.assertLessEqual(max(len(n) for n in names), 256)
        self.assertEqual(self.report("summary")["loss"]["cupti_dropped"], 0)

    def test_another_tools_nvtx_is_left_alone(self):
        out = self.host(STEPS, NVTX_INJECTION64_PATH="/nonexistent/libtool.so", **ON)
        self.assertEqual(out, "False /nonexistent/libtool.so\n")
        self.assertEqual(self.markers(), [])

    def test_our_entry_does_nothing_where_the_tier_is_off(self):
        library = os.path.join(harness.BUILD, "dist", "lib", "libgpuprobe.so")
        self.assertEqual(self.host(STEPS, NVTX_INJECTION64_PATH=library), "False %s\n" % library)
        self.assertEqual(self.markers(), [])

    def test_a_process_without_cuda_gets_no_file(self):
        code = HEAD + """
nvtx.push("alone")
nvtx.pop()
print(threading.active_count(), len(os.listdir("/proc/self/task")))
"""
        self.assertEqual(self.host(code, **ON), "1 1\n")
        self.assertEqual(self.traces(), [])

    def test_a_forked_child_is_not_attached(self):
        code = HEAD + """
gpu = Gpu()
gpu.launch("kernel", 1000)
gpu.sync()
child = os.fork()
if child == 0:
    nvtx.push("child")
    nvtx.pop()
    os._exit(5 if nvtx.attached else 0)
print(os.waitpid(child, 0)[1])
"""
        self.assertEqual(self.host(code, **ON), "0\n")
        self.assertEqual(self.markers(), [])


if __name__ == "__main__":
    unittest.main()
