# SPDX-License-Identifier: Apache-2.0
# Copyright the gpuprobe authors.
"""The host programs, the runner and the library variants."""

import ctypes
import os
import subprocess
import sys
import tempfile
import unittest

from harness import BUILD, RECORDER, RUN_SIM, SIM, SimTestCase

STORM = os.path.join(BUILD, "sim", "bin", "sim_storm")
ENDINGS = os.path.join(BUILD, "sim", "bin", "sim_endings")


class StormTest(SimTestCase):
    def test_every_launch_of_every_thread_has_its_record(self):
        for extra in ([], ["--driver"]):
            run = self.run_command(
                [
                    STORM,
                    "--threads",
                    "6",
                    "--kernels",
                    "2000",
                    "--copies",
                    "10",
                    "--sync-every",
                    "500",
                    *extra,
                ],
                clock="real",
                env={"SIM_RECORDER_BYTES": "65536"},
            )
            self.assertEqual(run.result["launched"], 12_000)
            kernels = [r for r in run.records if r["kind"] == 10]
            self.assertEqual(len(kernels), 12_000)
            self.assertEqual(
                sorted((k["start"], k["end"], k["correlation"]) for k in kernels),
                sorted((op["start"], op["end"], op["correlation"]) for op in run.ops("kernel")),
            )
            self.assertEqual(len([r for r in run.records if r["kind"] == 1]), run.result["copies"])
            self.assertEqual(run.truth["violations"], [])

    def test_records_lost_for_want_of_buffers_are_counted_exactly(self):
        run = self.run_command(
            [STORM, "--threads", "4", "--kernels", "3000"],
            clock="real",
            env={"SIM_RECORDER_BYTES": "65536", "SIM_RECORDER_BUFFERS": "8"},
        )
        counts = run.truth["counts"]
        self.assertEqual(counts["buffers_completed"], 8)
        self.assertGreater(counts["records_dropped"], 0)
        self.assertEqual(len(run.records), counts["records_delivered"])
        self.assertEqual(
            counts["records_emitted"], counts["records_delivered"] + counts["records_dropped"]
        )


class EndingsTest(SimTestCase):
    def test_every_ending_is_what_it_says_with_and_without_a_client(self):
        table = subprocess.run(
            [ENDINGS],
            capture_output=True,
            text=True,
            check=True,
            env=dict(os.environ, LD_LIBRARY_PATH=os.path.join(BUILD, "sim", "lib")),
        ).stdout
        endings = [line.split() for line in table.splitlines()]
        self.assertGreaterEqual(len(endings), 14)
        for name, how, number in endings:
            wanted = -int(number) if how == "signal" else int(number)
            for recorder in (True, False):
                with self.subTest(name, recorder=recorder):
                    run = self.run_command([ENDINGS, name, "20"], recorder=recorder, code=wanted)
                    self.assertGreaterEqual(run.truth["counts"]["kernels"], 20)


class SecondClientTest(SimTestCase):
    """What is known from torch.profiler beside another client happens here too."""

    HOST = os.path.join(BUILD, "sim", "bin", "sim_second_client")

    def test_alone_every_window_gets_exactly_its_kernels(self):
        for clock in ("real", "virtual"):
            for options in ([], ["--ticks"]):
                run = self.run_command([self.HOST, *options], recorder=False, clock=clock)
                self.assertEqual(run.result["subscribe"], 0)
                self.assertEqual([w["kernels"] for w in run.result["windows"]], [200] * 3)
                self.assertEqual(run.truth["violations"], [])

    def test_a_naive_first_client_loses_its_buffer_to_it_and_takes_its_records(self):
        run = self.run_command([self.HOST], code=1)
        first = run.result["windows"][0]
        self.assertEqual((first["kernels"], first["unknown_buffers"]), (0, 1))

    def test_a_client_that_holds_the_subscriber_slot_shuts_it_out(self):
        run = self.run_command([self.HOST], code=1, env={"SIM_RECORDER_CALLBACKS": "1"})
        self.assertEqual(run.result["subscribe"], 39)


class TrainTest(SimTestCase):
    def test_modes_plant_what_they_say(self):
        def idle_share(mode):
            run = self.run_command(
                [sys.executable, os.path.join(SIM, "sim_train.py"), "--mode", mode, "--steps", "8"]
            )
            spans = sorted((op["start"], op["end"]) for op in run.truth["ops"])
            busy, last = 0, spans[0][0]
            for start, end in spans:
                busy += max(0, end - max(start, last))
                last = max(last, end)
            return 1 - busy / (last - spans[0][0])

        self.assertGreater(idle_share("input"), 0.5)
        self.assertGreater(idle_share("launch"), 0.3)
        self.assertLess(idle_share("gpu"), 0.05)

    def test_it_also_runs_on_the_real_clock(self):
        run = self.run_command(
            [sys.executable, os.path.join(SIM, "sim_train.py"), "--steps", "4", "--batch-ms", "2"],
            clock="real",
        )
        self.assertEqual(run.result["kernels"], run.truth["counts"]["kernels"])


class RunnerTest(SimTestCase):
    def run_sim(self, *arguments, cwd="/", **env):
        environment = {**os.environ, "GPUPROBE_BUILD_DIR": BUILD, "GPUPROBE_LIB": RECORDER, **env}
        return subprocess.run(
            [RUN_SIM, *arguments],
            capture_output=True,
            text=True,
            env=environment,
            cwd=cwd,
            check=False,
            timeout=60,
        )

    def test_exit_codes_and_output_pass_through(self):
        got = self.run_sim("--", "sh", "-c", "echo out; echo err >&2; exit 37")
        self.assertEqual((got.returncode, got.stdout, got.stderr), (37, "out\n", "err\n"))

    def test_doors(self):
        show = ["--", "sh", "-c", "echo \"$LD_PRELOAD|$CUDA_INJECTION64_PATH\""]
        self.assertEqual(self.run_sim("--door", "preload", *show).stdout, RECORDER + "|\n")
        self.assertEqual(self.run_sim("--door", "injection", *show).stdout, "|" + RECORDER + "\n")
        self.assertEqual(
            self.run_sim("--door", "both", *show).stdout, RECORDER + "|" + RECORDER + "\n"
        )
        self.assertEqual(self.run_sim("--no-preload", *show).stdout, "|\n")

    def test_an_existing_preload_stays(self):
        other = os.path.join(BUILD, "sim", "lib", "libcudart.so.13")
        got = self.run_sim(
            "--",
            "sh",
            "-c",
            "echo $LD_PRELOAD",
            LD_PRELOAD=other,
            LD_LIBRARY_PATH=os.path.join(BUILD, "sim", "lib"),
        )
        self.assertEqual(got.stdout.strip(), RECORDER + ":" + other)

    def test_it_works_from_any_folder_and_through_a_link(self):
        with tempfile.TemporaryDirectory() as folder:
            link = os.path.join(folder, "a link")
            os.symlink(RUN_SIM, link)
            got = subprocess.run(
                [link, "--truth", "t-%p.json", "--", STORM, "--threads", "1", "--kernels", "3"],
                cwd=folder,
                env=dict(os.environ, GPUPROBE_BUILD_DIR=BUILD, GPUPROBE_LIB=RECORDER),
                check=False,
                capture_output=True,
            )
            self.assertEqual(got.returncode, 0)
            self.assertEqual(len([f for f in os.listdir(folder) if f.startswith("t-")]), 1)

    def test_wrong_usage_is_told(self):
        for arguments in (
            ["--clock", "sundial", "--", "true"],
            ["--door"],
            ["--nonsense"],
            [],
            ["--replay", "/nowhere", "--", "true"],
        ):
            got = self.run_sim(*arguments)
            self.assertEqual(got.returncode, 125, arguments)
            self.assertNotEqual(got.stderr, "")
        self.assertEqual(self.run_sim("--", "true", GPUPROBE_LIB="/nowhere").returncode, 125)


class VariantsTest(SimTestCase):
    def address(self, path, symbol):
        library = ctypes.CDLL(path, mode=os.RTLD_LOCAL)
        dlsym = ctypes.CDLL(None).dlsym
        dlsym.restype, dlsym.argtypes = ctypes.c_void_p, [ctypes.c_void_p, ctypes.c_char_p]
        return dlsym(library._handle, symbol.encode())

    def test_symbols_can_be_missing_or_null(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "libcupti.so.13")
            subprocess.run(
                [
                    sys.executable,
                    os.path.join(SIM, "cupti_variant.py"),
                    "--from",
                    os.path.join(BUILD, "sim", "lib", "libcupti.so.13"),
                    "--to",
                    path,
                    "--remove",
                    "cuptiGetTimestamp",
                    "--null",
                    "cuptiSubscribe",
                ],
                check=True,
            )
            self.assertIsNone(self.address(path, "cuptiGetTimestamp"))
            self.assertIsNone(self.address(path, "cuptiSubscribe"))
            self.assertIsNotNone(self.address(path, "cuptiUnsubscribe"))

    def test_older_libraries_lack_what_the_real_ones_lack(self):
        old = os.path.join(BUILD, "sim", "lib-cupti11", "libcupti.so.11.8")
        self.assertIsNone(self.address(old, "cuptiActivityEnableRuntimeApi"))
        self.assertIsNotNone(self.address(old, "cuptiActivityEnable"))
        self.assertIsNotNone(
            self.address(
                os.path.join(BUILD, "sim", "lib-cupti12", "libcupti.so.12"),
                "cuptiActivityEnableRuntimeApi",
            )
        )

    def test_only_the_api_leaves_the_libraries(self):
        for folder, name in (
            ("lib", "libcuda.so.1"),
            ("lib", "libcudart.so.13"),
            ("lib", "libcupti.so.13"),
            ("lib-cupti11", "libcupti.so.11.8"),
            ("lib-cupti12", "libcupti.so.12"),
        ):
            symbols = subprocess.run(
                [
                    "nm",
                    "-D",
                    "--defined-only",
                    "--format=posix",
                    os.path.join(BUILD, "sim", folder, name),
                ],
                capture_output=True,
                text=True,
                check=True,
            ).stdout.splitlines()
            # The last one is how NVTX reaches libcupti.
            known = ("cu", "gpusim_", "InitializeInjectionNvtx2 ")
            strangers = [s for s in symbols if not s.startswith(known)]
            self.assertEqual(strangers, [], name)
            self.assertGreater(len(symbols), 20)


if __name__ == "__main__":
    unittest.main()
