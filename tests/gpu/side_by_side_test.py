# SPDX-License-Identifier: Apache-2.0
# Copyright the gpuprobe authors.
"""bench/gpu/side_by_side.py on the simulated GPU: who is measured, what is said when something fails, and that known
raw figures give known tables."""
import argparse
import contextlib
import io
import json
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import textwrap
import time
import unittest
import unittest.mock

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parent.parent
BUILD = pathlib.Path(os.environ.get("GPUPROBE_TEST_BUILD_DIR", ROOT / "build"))
SIDE_BY_SIDE = ROOT / "bench" / "gpu" / "side_by_side.py"
SIM_STEPS = HERE / "sim_steps.py"
TIMEOUT_S = 240
sys.path.insert(0, str(SIDE_BY_SIDE.parent))
import members  # noqa: E402
import ratios  # noqa: E402
import side_by_side  # noqa: E402
import stepper  # noqa: E402
import tables  # noqa: E402

FAKE_NSYS = """\
#!/bin/sh
if [ "$1" = stats ]; then
  echo "Generating SQLite file"; test -s "$4" && echo " ** CUDA GPU Kernel Summary"
  exit
fi
while [ "$1" != -o ]; do shift; done
out=$2; shift 2
"$@"; code=$?
echo recorded > "$out.nsys-rep"
exit $code
"""

FAKE_TORCH_PROFILER = """\
import enum
class ProfilerActivity(enum.Enum):
    CPU, CUDA = 0, 1
class profile:
    def __init__(self, activities, with_stack):
        self.text = "%d activities, stacks %s" % (len(activities), with_stack)
    def __enter__(self): return self
    def __exit__(self, *_): pass
    def key_averages(self): return self
    def table(self, row_limit): return self.text
    def export_chrome_trace(self, path):
        with open(path, "w") as file: file.write(self.text)
"""


def simulated_environment(**more):
    environment = {k: v for k, v in os.environ.items()
                   if k not in ("LD_PRELOAD", "CUDA_INJECTION64_PATH") and not k.startswith(("GPUPROBE_", "GPUSIM_"))}
    environment.update(GPUPROBE_BUILD_DIR=str(BUILD), GPUPROBE_MICRO=str(BUILD / "bench" / "gpu" / "micro_sim"),
                       LD_LIBRARY_PATH=str(BUILD / "sim" / "lib"), PYTHONDONTWRITEBYTECODE="1",
                       GPUSIM_SET="kernel_ns=500", **more)
    return environment


class Outcome:
    def __init__(self, code, text):
        self.code, self.text = code, text
        self.lines = [json.loads(line) for line in text.splitlines() if line.startswith("{")]

    def of(self, kind, profiler=None):
        return [line for line in self.lines
                if line["kind"] == kind and profiler in (None, line.get("profiler"))]

    def notes(self):
        return "\n".join(line["text"] for line in self.of("note"))

    def end(self, profiler):
        (found,) = self.of("end", profiler)
        return found

    def row(self, profiler):
        """Cells of the first table's row."""
        for line in self.text.splitlines():
            if line.startswith(f"| {profiler} |"):
                return [cell.strip() for cell in line.strip("|").split("|")]
        raise AssertionError(f"no row of {profiler}:\n{self.text[-3000:]}")


class SideBySide(unittest.TestCase):
    maxDiff = None

    def setUp(self):
        for needed in ("dist/lib/libgpuprobe.so", "dist/bin/probe-report", "bench/gpu/libgpuprobe_floor.so",
                       "bench/gpu/micro_sim", "sim/lib/libcuda.so.1"):
            if not (BUILD / needed).exists():
                self.skipTest(f"{needed} is not built")
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def run_bench(self, *arguments, profilers=None, **environment):
        command = [sys.executable, str(SIDE_BY_SIDE), "--minutes", "3", *map(str, arguments)]
        if profilers:
            command += ["--profilers", ";".join(profilers)]
        done = subprocess.run(command, env=simulated_environment(**environment), stdout=subprocess.PIPE,
                              stderr=subprocess.STDOUT, timeout=TIMEOUT_S, check=False)
        return Outcome(done.returncode, done.stdout.decode())

    def run_steps(self, *arguments, module=SIM_STEPS, **more):
        return self.run_bench("--step", f"steps={module}", "--workloads", "steps", "--sets", "1", "--turns", "2",
                              *arguments, **more)

    def module(self, name, text):
        path = self.folder / f"{name}.py"
        path.write_text(f"import sys\nsys.path.insert(0, {str(HERE)!r})\n" + textwrap.dedent(text))
        return path

    def test_forked_processes_record_every_kernel_of_their_own_and_nobody_elses(self):
        names = ["none", "floor", "gpuprobe", "gpuprobe, no sampler", "gpuprobe, capture off"]
        raw = self.folder / "raw"
        outcome = self.run_steps("--raw", raw, profilers=names)
        self.assertEqual((0, ""), (outcome.code, outcome.notes()), outcome.text)
        for name in names:
            self.assertEqual([0, 1], [block["turn"] for block in outcome.of("block", name)], name)
            self.assertRegex(outcome.row(name)[3], r"^[\d.]+ \[[\d.]+, [\d.]+\]$")
        for name in ("gpuprobe", "gpuprobe, no sampler"):
            # Two steps to warm up and four, to settle; then two blocks of two and two times four.
            self.assertEqual((26, 26), (outcome.end(name)["ops"], outcome.end(name)["kernels"]), name)
        self.assertEqual(0, outcome.end("gpuprobe, capture off")["kernels"])
        self.assertNotIn("bytes", outcome.end("none"))
        self.assertEqual([10], sorted({block["ops"] for block in outcome.of("block")}))
        self.assertEqual(outcome.lines, [json.loads(line) for line in raw.read_text().splitlines()])

    def test_tables_of_the_raw_file_are_those_of_the_run(self):
        raw = self.folder / "raw"
        measured = self.run_steps("--raw", raw, profilers=["none", "gpuprobe"])
        again = self.run_bench("--from", raw)
        begins = "\n## steps"
        self.assertEqual(measured.text[measured.text.index(begins):], again.text[again.text.index(begins):])

    def test_processes_of_their_own_are_compared_with_such_a_one(self):
        names = ["none", "none, own process", "gpuprobe, preloaded"]
        outcome = self.run_steps(profilers=names)
        self.assertEqual((0, ""), (outcome.code, outcome.notes()), outcome.text)
        self.assertEqual(26, outcome.end("gpuprobe, preloaded")["kernels"])
        raw = tables.Raw(outcome.lines, "steps")
        for name, other in zip(names, ["none", "none", "none, own process"]):
            self.assertEqual({other}, {block["profiler"] for block in raw.without(name, raw.blocks)})
        # In a set that has none, with the forked one.
        further = [{**line, "set": 1} for line in outcome.lines if line.get("profiler") != "none, own process"]
        raw = tables.Raw(outcome.lines + further, "steps")
        others = raw.without("gpuprobe, preloaded", raw.blocks)
        self.assertEqual({(0, "none, own process"), (1, "none")},
                         {(block["set"], block["profiler"]) for block in others})

    def test_a_tier_is_one_more_row_with_its_settings_and_its_build(self):
        copy = self.folder / "other.so"
        copy.write_bytes((BUILD / "dist" / "lib" / "libgpuprobe.so").read_bytes())
        raw = self.folder / "raw"
        outcome = self.run_steps("--tier", f"other:LIBRARY={copy}", "--tier", "off:GPUPROBE_CAPTURE=0", "--raw", raw,
                                 profilers=["none", "other", "off"])
        self.assertEqual((0, ""), (outcome.code, outcome.notes()), outcome.text)
        self.assertEqual((26, 0), (outcome.end("other")["kernels"], outcome.end("off")["kernels"]))
        self.assertEqual(outcome.row("other"), self.run_bench("--from", raw).row("other"))

    def test_nsys_is_started_around_the_process_and_its_file_is_measured(self):
        nsys = self.folder / "nsys"
        nsys.write_text(FAKE_NSYS)
        nsys.chmod(0o755)
        outcome = self.run_steps(profilers=["none", "nsys -t cuda", "nsys defaults"],
                                 PATH=f"{self.folder}:{os.environ['PATH']}")
        self.assertEqual((0, ""), (outcome.code, outcome.notes()), outcome.text)
        self.assertIn("report_s", outcome.end("nsys -t cuda"))
        self.assertEqual(len("recorded\n"), outcome.end("nsys defaults")["bytes"])

    def test_torch_profiler_opens_a_window_around_each_block_and_exports_the_first(self):
        (self.folder / "torch").mkdir()
        (self.folder / "torch" / "__init__.py").touch()
        (self.folder / "torch" / "profiler.py").write_text(FAKE_TORCH_PROFILER)
        names = ["none", "torch.profiler CUDA", "torch.profiler stacks", "torch.profiler, off after a window"]
        outcome = self.run_steps(profilers=names, PYTHONPATH=str(self.folder))
        self.assertEqual((0, ""), (outcome.code, outcome.notes()), outcome.text)
        self.assertEqual(len("1 activities, stacks False"), outcome.end("torch.profiler CUDA")["bytes"])
        self.assertEqual(len("2 activities, stacks True"), outcome.end("torch.profiler stacks")["bytes"])
        self.assertEqual(6, outcome.end("torch.profiler CUDA")["ops_recorded"])
        self.assertEqual(27, outcome.end("torch.profiler, off after a window")["ops"])

    def test_one_that_hangs_is_killed_and_said_and_the_others_go_on(self):
        outcome = self.run_steps("--timeout", "20", profilers=["none", "floor", "gpuprobe"],
                                 SIM_STEPS_HANG_UNDER="floor")
        self.assertEqual(0, outcome.code, outcome.text)
        self.assertIn("steps under floor, set 1: no answer in 20 s: killed", outcome.notes())
        self.assertEqual([], outcome.of("block", "floor"))
        self.assertEqual(26, outcome.end("gpuprobe")["kernels"])
        self.assertEqual("-", outcome.row("gpuprobe")[4])

    def test_one_that_fails_is_said_with_what_it_printed(self):
        module = self.module("fails", """
            import os
            from sim_steps import *
            import sim_steps
            def make_step():
                if "GPUPROBE_OUT" in os.environ: sys.exit("cannot work like this")
                return sim_steps.make_step()
            """)
        outcome = self.run_steps(module=module, profilers=["none", "gpuprobe"])
        self.assertIn("steps under gpuprobe, set 1: ended, exit code 1\ncannot work like this", outcome.notes())
        self.assertEqual(2, len(outcome.of("block", "none")))

    def test_a_module_that_touches_cuda_when_imported_is_measured_without_forks(self):
        module = self.module("touches", """
            import gpusim_path
            import gpusim
            gpu = gpusim.Gpu()
            def make_step():
                gpu.call("cudaFree", None)
                return lambda: gpu.launch("step_kernel", 20_000)
            def drain(): gpu.sync()
            """)
        simulated = str(ROOT / "tests" / "sim")
        (self.folder / "gpusim_path.py").write_text(f"import sys\nsys.path.insert(0, {simulated!r})\n")
        outcome = self.run_steps(module=module, profilers=["none", "gpuprobe"])
        self.assertIn("nothing that was forked lives: once more without", outcome.notes())
        self.assertIn("nothing that was forked lives: from here on every process is one of its own", outcome.notes())
        self.assertEqual((26, 26), (outcome.end("none")["ops"], outcome.end("gpuprobe")["kernels"]), outcome.text)

    def test_what_only_touches_cuda_in_advance_is_forked_without_it(self):
        (self.folder / "gpu_in_advance.py").write_text("import sim_steps\nsim_steps.make_step()\n")
        module = self.module("advance", """
            from sim_steps import *
            PRELOAD = ["gpu_in_advance"]
            """)
        outcome = self.run_steps(module=module, profilers=["none", "gpuprobe"])
        self.assertIn("nothing that was forked lives: once more without", outcome.notes())
        self.assertNotIn("every process is one of its own", outcome.notes())
        self.assertEqual(26, outcome.end("gpuprobe")["kernels"], outcome.text)

    def test_threads_and_missing_modules_of_the_zygote_are_said(self):
        threads = self.module("threads", """
            import threading, time
            threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
            from sim_steps import *
            """)
        missing = self.module("missing", "import no_such_module\n")
        outcome = self.run_bench("--step", f"threads={threads}", "--step", f"missing={missing}", "--workloads",
                                 "threads,missing", "--sets", "1", "--turns", "1", profilers=["none"])
        self.assertIn("the zygote has 2 threads", outcome.notes())
        self.assertIn("missing is left out: No module named 'no_such_module'", outcome.notes())
        self.assertEqual(["threads"], [block["workload"] for block in outcome.of("block")])

    def test_when_the_time_is_up_the_sets_left_are_said_and_tables_printed(self):
        outcome = self.run_bench("--minutes", "0", "--count", "2", "--workloads", "storm-1,sync",
                                 profilers=["none", "gpuprobe"])
        self.assertEqual(0, outcome.code, outcome.text)
        self.assertIn("the time was up before sync (set 1), storm-1 (set 2), sync (set 2)", outcome.notes())
        self.assertEqual([0], sorted({block["turn"] for block in outcome.of("block", "gpuprobe")}))
        self.assertEqual("1", outcome.row("gpuprobe")[1])

    def test_in_several_calls_each_set_is_measured_once(self):
        raw = self.folder / "raw"
        arguments = ("--workloads", "sync,storm-1", "--sets", "2", "--turns", "1", "--count", "2", "--raw", raw,
                     "--resume")
        first = self.run_bench("--stop-after", "0", *arguments, profilers=["none"])
        self.assertEqual((3, []), (first.code, first.of("block")), first.text)
        whole = self.run_bench(*arguments, profilers=["none", "gpuprobe"])
        again = self.run_bench(*arguments, profilers=["none", "gpuprobe"])
        self.assertEqual((0, 0), (whole.code, again.code), whole.text + again.text)
        self.assertEqual([("sync", 0), ("storm-1", 0), ("sync", 1), ("storm-1", 1)],
                         [(line["workload"], line["set"]) for line in whole.of("set")])
        self.assertEqual([], again.of("set"))
        self.assertEqual(whole.row("gpuprobe"), again.row("gpuprobe"))

    def test_micro_counts_every_operation_it_made(self):
        for name, kernels in (("storm-8", True), ("sync", True), ("graph", False)):
            outcome = self.run_bench("--workloads", name, "--sets", "1", "--turns", "1", "--count", "3",
                                     profilers=["gpuprobe"])
            end = outcome.end("gpuprobe")
            self.assertEqual(end["ops"] if kernels else 0, end["kernels"], outcome.text)
            (block,) = outcome.of("block", "gpuprobe")
            self.assertEqual(3, len(block["figures"]))
            self.assertEqual(len(block["figures"]), len(block["yardsticks"]))

    def test_alone_starts_one_after_the_other(self):
        outcome = self.run_steps("--alone", profilers=["none", "gpuprobe"])
        order = [(line["kind"], line["profiler"]) for line in outcome.lines if line["kind"] in ("block", "end")]
        self.assertEqual([(kind, name) for name in ("none", "gpuprobe") for kind in ("block", "block", "end")], order)

    def test_interrupted_it_prints_its_tables_and_leaves_no_process(self):
        module = self.module("endless_steps", "from sim_steps import *\n")
        host = subprocess.Popen(
            [sys.executable, str(SIDE_BY_SIDE), "--minutes", "9", "--step", f"steps={module}", "--workloads", "steps",
             "--profilers", "none;gpuprobe"], env=simulated_environment(), stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT, text=True)
        self.addCleanup(host.kill)
        seen = ""
        while '"turn": 1' not in seen:
            seen = host.stdout.readline()
            self.assertTrue(seen, "it ended")
        host.send_signal(signal.SIGTERM)
        text = host.communicate(timeout=TIMEOUT_S)[0]
        self.assertIn("# interrupted", text)
        self.assertIn("| gpuprobe |", text)
        deadline = time.monotonic() + 60
        while (left := self.processes_with(str(module))) and time.monotonic() < deadline:
            time.sleep(0.05)
        self.assertEqual([], left)

    def test_all_goes_on_after_a_part_that_fails_and_does_later_what_was_left(self):
        build = self.folder / "build"
        (build / "bench").mkdir(parents=True)
        for name in ("dist", "sim", "bench/gpu"):
            (build / name).symlink_to(BUILD / name)
        for name, text in (("bench_drain", "echo drained; exit 7"), ("bench_host_sampler", "sleep 600")):
            (build / "bench" / name).write_text(f"#!/bin/sh\n{text}\n")
        (build / "bench" / "bench_drain").chmod(0o755)  # the other one cannot be started
        command = [sys.executable, str(SIDE_BY_SIDE.parent / "all.py"), "--out", str(self.folder / "out"), "--only",
                   "split,drain,sides", "--minutes", "2"]
        options = ["--", "--workloads", "sync", "--sets", "1", "--turns", "1", "--count", "2", "--profilers",
                   "none;gpuprobe"]
        environment = simulated_environment()
        environment["GPUPROBE_BUILD_DIR"] = str(build)
        outputs = []
        for seconds in ("40", "300", "300"):  # 40: enough for the part that needs the least alone
            done = subprocess.run([*command, "--seconds", seconds, *options], env=environment, stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, timeout=TIMEOUT_S, check=False, text=True)
            started = [line for line in done.stderr.splitlines() if line.startswith("#")]
            outputs.append((done.returncode, done.stdout, started))
        self.assertEqual((3, ["# drain ..."]), outputs[0][::2], outputs)
        self.assertIn("# drain: exit code 7", outputs[0][1])
        self.assertIn("\ndrained", outputs[0][1])
        self.assertEqual((0, ["# sides ...", "# split ..."]), outputs[1][::2], outputs)
        self.assertIn("# split: not started: Permission denied", outputs[1][1])
        self.assertIn("| sync | gpuprobe |", outputs[1][1])
        self.assertEqual((0, []), outputs[2][::2], outputs)

    @staticmethod
    def processes_with(argument):
        found = []
        for process in pathlib.Path("/proc").glob("[0-9]*"):
            try:
                if argument.encode() in (process / "cmdline").read_bytes():
                    found.append(process.name)
            except OSError:
                continue
        return found


def block(profiler, number, turn, figures, yardsticks=(100.0,), cpu_s=0.01):
    return {"kind": "block", "workload": "w", "profiler": profiler, "set": number, "turn": turn,
            "figures": list(figures), "yardsticks": list(yardsticks), "ops": 10, "cpu_s": cpu_s, "rss_kib": 1024}


def end(profiler, number, **what):
    return {"kind": "end", "workload": "w", "profiler": profiler, "set": number, **what}


class Tables(unittest.TestCase):
    def cells(self, lines, profiler):
        (found,) = (line for line in tables.table(lines, "w") if line.startswith(f"| {profiler} |"))
        return dict(zip(tables.HEADER, (cell.strip() for cell in found.strip("|").split("|"))))

    def test_a_ratio_is_taken_within_a_turn_and_over_yardsticks(self):
        lines = [{"kind": "workload", "workload": "w", "unit": "ms a step", "yardsticks": True}]
        for turn, speed in enumerate((1.0, 1.5, 3.0)):
            # The whole machine is slower from turn to turn, and in the middle of one, where the yardstick says so.
            lines.append(block("none", 0, turn, [10 * speed], [100 * speed]))
            lines.append(block("floor", 0, turn, [24 * speed], [200 * speed]))
            lines.append(block("gpuprobe", 0, turn, [15 * speed], [100 * speed], cpu_s=0.02))
        cells = self.cells(lines, "gpuprobe")
        self.assertEqual("1.500 [1.500, 1.500]", cells["of none"])
        self.assertEqual("1.250 [1.250, 1.250]", cells["of floor"])
        self.assertEqual("2.000 [2.000, 2.000]", cells["CPU of none"])
        self.assertEqual(("22.50", "1.00", "3"), (cells["median"], cells["CPU +"], cells["turns"]))

    def test_figures_that_follow_the_yardstick_half_way_are_compared_so(self):
        lines = [{"kind": "workload", "workload": "w", "unit": "ms a step", "yardsticks": True}]
        speeds = {"none": (1.0, 1.7, 1.2, 2.0), "gpuprobe": (1.9, 1.1, 1.6, 1.3)}
        for turn in range(4):
            for name, base in (("none", 10), ("gpuprobe", 15)):
                speed = speeds[name][turn]
                lines.append(block(name, 0, turn, [base * speed ** 0.5], [100 * speed]))
        self.assertAlmostEqual(0.5, tables.Raw(lines, "w").exponent)
        self.assertEqual("1.500 [1.500, 1.500]", self.cells(lines, "gpuprobe")["of none"])
        self.assertIn(", over yardsticks to the power 0.50", next(tables.table(lines, "w")))

    def test_the_power_of_a_yardstick_stays_between_none_and_in_step(self):
        def exponent(power):
            return ratios.exponent_of([block("none", 0, turn, [10 * speed ** power], [speed])
                                       for turn, speed in enumerate((1.0, 2.0, 3.0))])

        self.assertEqual((0.0, 1.0), (exponent(-1), exponent(2)))
        self.assertAlmostEqual(0.25, exponent(0.25))
        # Nothing to fit it to: one figure of each process, or a yardstick that stands still.
        self.assertEqual(0.0, ratios.exponent_of([block("none", 0, 0, [10]), block("floor", 0, 0, [30], [900])]))

    def test_without_yardsticks_figures_are_compared_as_they_are(self):
        lines = [{"kind": "workload", "workload": "w", "unit": "ms a step", "yardsticks": False}]
        lines += [block("none", 0, 0, [6, 11, 16], [100, 150, 90]), block("floor", 0, 0, [22], [500])]
        self.assertEqual("2.000 [2.000, 2.000]", self.cells(lines, "floor")["of none"])

    def test_turns_that_only_one_has_are_left_out(self):
        lines = [block("none", 0, 0, [10]), block("floor", 0, 0, [20]), block("floor", 0, 1, [90]),
                 block("floor", 1, 0, [90])]
        self.assertEqual("2.000 [2.000, 2.000]", self.cells(lines, "floor")["of none"])

    def test_sets_of_two_runs_are_not_taken_for_the_same(self):
        machine = {"kind": "machine"}
        lines = [machine, block("none", 0, 0, [10]), block("floor", 0, 0, [20]),
                 machine, block("none", 0, 0, [100]), block("floor", 0, 0, [200])]
        cells = self.cells(list(tables.distinct_sets(lines)), "floor")
        self.assertEqual(("2", "2.000 [2.000, 2.000]"), (cells["turns"], cells["of none"]))

    def test_bytes_a_kernel_are_over_gpuprobes_count_for_all(self):
        lines = [block("none", 0, 0, [1]), block("gpuprobe", 0, 0, [1]), block("nsys defaults", 0, 0, [1]),
                 end("none", 0, rss_kib=2048),
                 end("gpuprobe", 0, bytes=4000, kernels=1000, ops_recorded=10, rss_kib=5120),
                 end("nsys defaults", 0, bytes=120000, ops_recorded=20, rss_kib=2048)]
        self.assertEqual(("4.0", "400.0", "3.0"), tuple(
            self.cells(lines, "gpuprobe")[key] for key in ("bytes a kernel", "bytes an operation", "RSS +MiB")))
        self.assertEqual("60.0", self.cells(lines, "nsys defaults")["bytes a kernel"])

    def test_the_interval_holds_how_far_sets_lie_apart(self):
        turns = [1.0] * 20
        self.assertEqual((1.0, 1.0, 1.0), ratios.interval_of_sets([turns, turns]))
        middle, low, high = ratios.interval_of_sets([[1.0] * 20, [1.1] * 20, [1.2] * 20])
        self.assertEqual((1.1, 1.0, 1.2), (middle, low, high))
        self.assertIsNone(ratios.interval_of_sets([]))

    def test_the_interval_of_known_values_is_that_of_their_median(self):
        middle, low, high = ratios.interval(list(range(1, 102)))
        self.assertEqual(51, middle)
        # The median's standard error of 101 uniform values is about 1.25 * 29 / 10.
        self.assertTrue(39 <= low <= 47 and 55 <= high <= 63, (low, high))


class Plan(unittest.TestCase):
    def planned(self, minutes, stop_after_s, workloads, lines=()):
        """(finished, [(workload, set, share in seconds)]), by a clock that only sets move."""
        clock, order = [0.0], []

        class Planned(side_by_side.Bench):
            def start_zygote(self, names):
                pass

            def set_of(self, name, number, deadline):
                order.append((name, number, round(deadline - clock[0])))
                clock[0] = deadline

        arguments = argparse.Namespace(minutes=minutes, stop_after_s=stop_after_s, profilers=[])
        output = side_by_side.Output(None, list(lines))
        with unittest.mock.patch.object(side_by_side.time, "monotonic", lambda: clock[0]), \
                contextlib.redirect_stdout(io.StringIO()):
            finished = Planned(arguments, workloads, output).run()
        return finished, order, output.lines

    @staticmethod
    def workload(weight, sets=1):
        return side_by_side.Workload("ms", weight, sets, 1, 1)

    def test_time_is_shared_by_weight_and_first_sets_come_first(self):
        finished, order, _ = self.planned(10, float("inf"), {"a": self.workload(4, 2), "b": self.workload(1)})
        self.assertEqual((True, [("a", 0, 240), ("b", 0, 120), ("a", 1, 240)]), (finished, order))

    def test_what_does_not_fit_into_a_call_is_left_and_the_rest_done(self):
        workloads = {"a": self.workload(3), "b": self.workload(1), "c": self.workload(1)}
        finished, order, lines = self.planned(10, 300, workloads)
        self.assertEqual((False, [("b", 0, 120), ("c", 0, 120)]), (finished, order))
        # The next call has what is left of the ten minutes.
        self.assertEqual((True, [("a", 0, 360)]), self.planned(10, 400, workloads, lines)[:2])


class Parts(unittest.TestCase):
    def test_a_profilers_doors_are_its_environment_alone(self):
        doors = {name: profiler.door for name, profiler in members.PROFILERS.items()}
        self.assertEqual({"none", "floor", "gpuprobe", "preload", "nsys"}, set(doors.values()))
        self.assertEqual("none", doors["torch.profiler stacks"])

    def test_the_zygote_sees_whether_cuda_was_touched_by_open_files(self):
        self.assertFalse(stepper.touched_cuda())


if __name__ == "__main__":
    unittest.main()
