# SPDX-License-Identifier: Apache-2.0
"""Processes that fork, exec, daemonise and close what they did not open."""

import os
import subprocess
import sys

import host
from host import CUDA_IN_PYTHON as CUDA

FORKS = host.host("contract_forks")
DESCRIPTORS = host.host("contract_descriptors")
QUICK = {"GPUPROBE_FLUSH_MS": "50"}

MULTIPROCESSING = CUDA + """
import multiprocessing
def child(count):
    work(count)
    time.sleep(0.6)  # many flush periods: workers end by os._exit
    return os.getpid()
if __name__ == "__main__":
    method, parent_works = sys.argv[1], sys.argv[2] == "1"
    if parent_works:
        work(10)
    with multiprocessing.get_context(method).Pool(3) as pool:
        pids = pool.map(child, [100] * 3, chunksize=1)
        pool.close()
        pool.join()
    print("pids=" + ",".join(map(str, sorted(set(pids)))), "tasks=3", "parent=%d" % os.getpid())
"""

CLOSERANGE = CUDA + """
work(100)
time.sleep(0.3)
os.closerange(3, 4096)
files = [open("data%d" % i, "w") for i in range(3)]
work(100)
for file in files:
    file.write("the host's own line\\n")
    file.flush()
    assert os.fstat(file.fileno()).st_size == 20
work(100)
time.sleep(0.3)
print("numbers=" + ",".join(str(f.fileno()) for f in files), "launched=300")
"""


class CudaTest(host.ContractTest):
    def setUp(self):
        super().setUp()
        self.need_simulation()

    def python(self, text, *arguments, **more):
        script = self.root / "script.py"
        script.write_text(text)
        return self.run_host([sys.executable, script, *arguments], sim=True, **more)


class ForkTest(CudaTest):
    def test_a_child_has_no_thread_and_no_file_and_ends_in_order(self):
        _, watched = self.assert_cannot_tell([FORKS, "inspect"], sim=True, env=QUICK)
        self.assertEqual((watched.fields()["child"], watched.stderr), (4, b"exit took no time\n"))
        self.assertEqual(watched.fields()["threads"], "1,1")
        trace = self.only_trace(watched)
        self.assertEqual((trace.kernels, trace.end_reason), (watched.fields()["launched"], "exit"))

    def test_64_children_while_four_threads_launch(self):
        result = self.run_host([FORKS, "storm", "64"], sim=True, env=QUICK, timeout=120)
        fields = result.fields()
        self.assertEqual((result.status, result.stderr, fields["good"], fields["hung"]), (0, b"", 64, 0))
        trace = self.only_trace(result)
        self.assertEqual((trace.kernels, trace.end_reason), (fields["launched"], "exit"))

    def test_a_child_of_a_parent_without_cuda_gets_a_trace_of_its_own(self):
        _, watched = self.assert_no_difference_but_pids([FORKS, "child"])
        trace = self.only_trace(watched)
        self.assertEqual((trace.pid, trace.kernels, trace.end_reason),
                         (watched.fields()["pid"], watched.fields()["launched"], "exit"))

    def test_a_daemon_gets_a_trace_of_its_own(self):
        _, watched = self.assert_no_difference_but_pids([FORKS, "daemon"])
        trace = self.only_trace(watched)
        self.assertEqual((trace.pid, trace.kernels, trace.end_reason),
                         (watched.fields()["pid"], watched.fields()["launched"], "exit"))

    def assert_no_difference_but_pids(self, command):
        without, watched = (self.run_host(command, probe, sim=True) for probe in ("none", "preload"))
        for result in (without, watched):
            self.assertEqual((result.status, result.stderr), (0, b""))
        self.assertEqual({k: v for k, v in without.fields().items() if k != "pid"},
                         {k: v for k, v in watched.fields().items() if k != "pid"})
        return without, watched

    def test_subprocesses_of_a_working_parent_leave_nothing(self):
        script = CUDA + ("import subprocess\nwork(100)\n"
                         "for i in range(20): subprocess.run(['sh', '-c', 'echo $0 | tr a b', 'a'], check=True)\n"
                         "os.system('true'); print(os.popen('echo from a pipe').read())\nwork(100)\n")
        without, watched = (self.python(script, probe=probe) for probe in ("none", "preload"))
        self.assertEqual(watched.seen, without.seen)
        self.assertEqual(self.only_trace(watched).kernels, 200)


class ChildrenOffTest(CudaTest):
    """GPUPROBE_CHILDREN=0: one process is recorded, whatever door its children could use."""

    ALONE = dict(QUICK, GPUPROBE_CHILDREN="0")

    def test_a_child_that_uses_cuda_leaves_nothing(self):
        result = self.run_host([FORKS, "child"], sim=True, env=self.ALONE)
        self.assertEqual((result.status, result.stderr), (0, b""))
        self.assertEqual(result.traces, [])

    def test_of_a_tree_only_the_root_is_recorded(self):
        script = CUDA + ("import subprocess\nwork(100)\nif len(sys.argv) == 1:\n"
                         "    subprocess.run([sys.executable, sys.argv[0], 'child'], check=True)\n"
                         "    print('root', os.getpid(), os.environ['LD_PRELOAD'] == '')\n")
        result = self.python(script, env=self.ALONE)
        self.assertEqual((result.status, result.stderr), (0, b""))
        self.assertRegex(result.stdout, rb"\Aroot \d+ True\n\Z")
        trace = self.only_trace(result)
        self.assertEqual((trace.pid, trace.kernels), (int(result.stdout.split()[1]), 100))
        self.assertEqual(trace.warnings, [])

    def test_the_next_image_of_the_same_process_is_recorded(self):
        result = self.run_host([FORKS, "exec", "2"], sim=True, env=self.ALONE)
        self.assertEqual([trace.kernels for trace in result.traces], [result.fields()["launched"]] * 2)


class MultiprocessingTest(CudaTest):
    def check(self, method, parent_works):
        result = self.python(MULTIPROCESSING, method, str(int(parent_works)), env=QUICK)
        self.assertEqual((result.status, result.stderr), (0, b""))
        workers = {int(pid) for pid in str(result.fields()["pids"]).split(",")}
        found = result.traces
        for trace in found:
            self.assertTrue(trace.is_healthy, (trace.damage, trace.headers))
        by_pid = {trace.pid: trace for trace in found}
        self.assertEqual(len(by_pid), len(found))
        expected = workers | ({result.fields()["parent"]} if parent_works else set())
        self.assertEqual(set(by_pid), expected)
        self.assertEqual(sum(by_pid[pid].kernels for pid in workers), 3 * 100)

    def test_forked_workers(self):
        self.check("fork", parent_works=False)

    def test_spawned_workers(self):
        self.check("spawn", parent_works=True)

    def test_workers_of_a_fork_server(self):
        self.check("forkserver", parent_works=True)


class ExecTest(CudaTest):
    def test_five_images_of_one_process_leave_five_traces(self):
        images = 5
        without, watched = (self.run_host([FORKS, "exec", str(images)], probe, sim=True, env=QUICK)
                            for probe in ("none", "preload"))
        self.assertEqual(watched.status, 0, watched.stderr)
        found = watched.traces
        self.assertEqual(len(found), images)
        self.assertEqual(len({trace.path.name for trace in found}), images)
        for trace in found:
            self.assertTrue(trace.is_healthy, trace.damage)
            self.assertEqual(trace.pid, watched.fields()["pid"])
            self.assertEqual(trace.kernels, watched.fields()["launched"])
        self.assertEqual(sum(trace.is_closed for trace in found), 1)
        # The last image has its own trace open and nothing that an earlier one has left.
        self.assertEqual(watched.fields()["descriptors"], without.fields()["descriptors"] + 1)


class DescriptorsTest(CudaTest):
    def test_a_host_that_closes_all_and_takes_every_number_keeps_its_file(self):
        result = self.run_host([DESCRIPTORS, "data"], sim=True, env=QUICK)
        self.assertEqual((result.status, result.stderr), (0, b""))
        trace = self.only_trace(result)
        self.assertEqual((trace.kernels, trace.end_reason), (result.fields()["launched"], "exit"))

    def test_a_host_that_closes_all_in_a_loop_while_the_file_is_opened_is_recorded(self):
        result = self.run_host([DESCRIPTORS, "unused", "loop"], sim=True, env=QUICK)
        self.assertEqual((result.status, result.stderr), (0, b""))
        trace = self.only_trace(result)
        self.assertEqual((trace.kernels, trace.end_reason), (result.fields()["launched"], "exit"))

    def test_closerange_in_python(self):
        result = self.python(CLOSERANGE, env=QUICK)
        self.assertEqual((result.status, result.stderr), (0, b""))
        # The numbers that open() would have returned without us.
        self.assertEqual(result.fields()["numbers"], "3,4,5")
        for i in range(3):
            self.assertEqual((result.folder / f"data{i}").read_text(), "the host's own line\n")
        self.assertEqual(self.only_trace(result).kernels, result.fields()["launched"])

    def test_open_returns_the_numbers_that_it_would_return_without_us(self):
        script = CUDA + ("work(10)\ntime.sleep(0.3)\n"
                         "print([os.open('/dev/null', os.O_RDONLY) for _ in range(20)])\n")
        without, watched = (self.python(script, probe=probe, env=QUICK) for probe in ("none", "preload"))
        self.assertEqual(watched.seen, without.seen)

    def test_a_low_limit_on_descriptors_is_no_obstacle(self):
        script = CUDA + ("import resource\nresource.setrlimit(resource.RLIMIT_NOFILE, (24, 24))\nwork(10)\n"
                         "time.sleep(0.2)\nprint(os.open('/dev/null', os.O_RDONLY))\n")
        without, watched = (self.python(script, probe=probe, env=QUICK) for probe in ("none", "preload"))
        self.assertEqual(watched.seen, without.seen)
        self.assertEqual(self.only_trace(watched).kernels, 10)

    def test_no_descriptor_is_left_for_the_host_is_no_failure_of_the_host(self):
        script = CUDA + ("import resource\nwork(1)\ntime.sleep(0.2)\n"
                         "resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))\ntime.sleep(0.2)\nprint('done')\n")
        result = self.python(script, env=QUICK)
        self.assertEqual((result.status, result.stdout, result.stderr), (0, b"done\n", b""))
        self.assertTrue(self.only_trace(result).is_healthy)


class NamespaceTest(CudaTest):
    def test_process_one_of_a_container_is_recorded_and_64_of_them_do_not_collide(self):
        if os.geteuid() != 0:
            self.skipTest("unshare wants root")
        if self.run_host(["unshare", "-pf", "--mount-proc", "true"], "none").status != 0:
            self.skipTest("no pid namespaces here")
        count, running = 64, []
        command = ["unshare", "-pf", "--mount-proc", host.host("contract_endings"), "return_synchronized", "50"]
        out = self.root / "shared"
        for batch in range(0, count, 8):
            running = []
            for i in range(batch, batch + 8):
                running.append(self.run_in_background(command, out, i))
            for process in running:
                self.assertEqual(process.wait(timeout=60), 4)
        found = host.traces.in_folder(out)
        self.assertEqual(len(found), count)
        self.assertEqual({(t.pid, t.kernels, t.is_healthy) for t in found}, {(1, 50, True)})

    def run_in_background(self, command, out, i):
        return subprocess.Popen([str(c) for c in command], cwd=self.folder(f"run{i}"), stdout=subprocess.DEVNULL,
                                stderr=subprocess.DEVNULL, env=self.environment("preload", out, sim=True))
