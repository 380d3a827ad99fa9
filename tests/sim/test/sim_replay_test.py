# SPDX-License-Identifier: Apache-2.0
# Copyright the gpuprobe authors.
"""A recording comes back as it was, whatever the client's buffers look like."""

import gzip
import json
import os
import struct
import tempfile
import unittest

from harness import RECORDINGS, ROOT, SimTestCase
import recording

NAME_OFFSET = {10: 104, 8: 136}


def without_names(buffers, version=130001):
    """All bytes in order, name pointers blanked, and the pointers' values."""
    out, pointers = bytearray(), []
    for buffer in buffers:
        for kind, record in recording.split_records(buffer, version):
            record = bytearray(record)
            if kind in NAME_OFFSET:
                pointers.append(struct.unpack_from("<Q", record, NAME_OFFSET[kind])[0])
                struct.pack_into("<Q", record, NAME_OFFSET[kind], 0)
            out += record
    return bytes(out), pointers


class ReplayTest(SimTestCase):
    def assert_replayed(self, path, version, run):
        original = recording.split_buffers(recording.read_raw(path))
        wanted, old_pointers = without_names(original, version)
        got, new_pointers = without_names(run.buffers, version)
        self.assertEqual(len(got), len(wanted))
        self.assertTrue(got == wanted, "records differ")
        names = recording.read_names(recording.names_path(path))
        self.assertEqual([run.names[p] for p in new_pointers], [names[p] for p in old_pointers])
        self.assertEqual(run.truth["violations"], [])
        counts = run.truth["counts"]
        self.assertEqual(
            (counts["records_delivered"], counts["records_dropped"]), (counts["records_emitted"], 0)
        )

    def replay(self, path, version=130001, **env):
        return self.run_command(None, "--replay", path, env=env, version=version)

    def test_own_recordings_of_every_version_come_back_byte_for_byte(self):
        with open(os.path.join(RECORDINGS, "expected.json"), encoding="utf-8") as file:
            files = json.load(file)["files"]
        self.assertGreater(len(files), 2)
        for name, facts in files.items():
            path = os.path.join(RECORDINGS, name)
            run = self.replay(path, facts["cupti_version"])
            self.assert_replayed(path, facts["cupti_version"], run)
            self.assertEqual([len(b) for b in run.buffers], [b["bytes"] for b in facts["buffers"]])

    def test_smaller_buffers_split_at_record_boundaries_and_keep_the_order(self):
        path = os.path.join(RECORDINGS, "sim_mixed.cuptibuf.gz")
        for size in (256, 1000, 65536):
            run = self.replay(path, SIM_RECORDER_BYTES=str(size))
            self.assert_replayed(path, 130001, run)
            self.assertLessEqual(max(len(b) for b in run.buffers), size)

    def test_recordings_of_a_real_gpu_come_back_byte_for_byte(self):
        folder = os.path.join(
            os.environ.get("GPUPROBE_TEST_SHARED", os.path.join(ROOT, "..", "shared")),
            "cupti-recordings",
        )
        if not os.path.isdir(folder):
            self.skipTest("recordings of a real GPU are not part of a clone")
        for name in ("gpt_train", "resnet_dataloader"):
            path = os.path.join(folder, name + ".cuptibuf.gz")
            self.assert_replayed(path, 130001, self.replay(path, SIM_RECORDER_BYTES="262144"))

    def test_an_uncompressed_recording_works_too(self):
        with tempfile.TemporaryDirectory() as folder:
            source = os.path.join(RECORDINGS, "sim_mixed")
            with (
                open(os.path.join(folder, "r.cuptibuf"), "wb") as file,
                gzip.open(source + ".cuptibuf.gz") as packed,
            ):
                file.write(packed.read())
            with (
                open(os.path.join(folder, "r.names"), "w") as file,
                open(source + ".names") as names,
            ):
                file.write(names.read())
            path = os.path.join(folder, "r.cuptibuf")
            self.assert_replayed(path, 130001, self.replay(path))

    def test_cuptis_clock_is_the_recordings(self):
        path = os.path.join(RECORDINGS, "sim_mixed.cuptibuf.gz")
        first = min(r["start"] for r in recording.records(path) if r.get("start"))
        run = self.scenario(
            """
            from cupti_client import Client
            gpu, client = Gpu(), Client().start()
            a, b = client.timestamp(), client.timestamp()
            out([a, b])
            """,
            "--replay",
            path,
            recorder=False,
        )
        a, b = run.result
        self.assertTrue(first <= a <= b < first + 60 * 10**9)

    def test_a_client_that_refuses_buffers_loses_counted_records(self):
        path = os.path.join(RECORDINGS, "sim_mixed.cuptibuf.gz")
        run = self.replay(
            path, SIM_RECORDER_BUFFERS="1", SIM_RECORDER_BYTES="4096", GPUSIM_REPLAY_DROP="1"
        )
        counts = run.truth["counts"]
        self.assertGreater(counts["records_dropped"], 0)
        self.assertEqual(
            counts["records_emitted"], counts["records_delivered"] + counts["records_dropped"]
        )
        self.assertEqual(counts["records_emitted"], len(recording.records(path)))

    def test_no_client_and_unreadable_recordings_are_told_apart(self):
        path = os.path.join(RECORDINGS, "sim_mixed.cuptibuf.gz")
        self.run_command(None, "--replay", path, recorder=False, code=3)
        with tempfile.TemporaryDirectory() as folder:
            broken = os.path.join(folder, "broken.cuptibuf")
            with open(broken, "wb") as file:
                file.write(recording.read_raw(path)[:1000])
            self.run_command(None, "--replay", broken, code=4)


class ExpectedTest(unittest.TestCase):
    def test_expected_values_match_the_recordings(self):
        with open(os.path.join(RECORDINGS, "expected.json"), encoding="utf-8") as file:
            files = json.load(file)["files"]
        for name, facts in files.items():
            self.assertEqual(
                recording.expected(os.path.join(RECORDINGS, name), facts["cupti_version"]), facts
            )

    def test_the_reader_agrees_with_the_values_given_for_recordings_of_a_real_gpu(self):
        folder = os.path.join(
            os.environ.get("GPUPROBE_TEST_SHARED", os.path.join(ROOT, "..", "shared")),
            "cupti-recordings",
        )
        if not os.path.isdir(folder):
            self.skipTest("recordings of a real GPU are not part of a clone")
        with open(os.path.join(folder, "expected.json"), encoding="utf-8") as file:
            files = json.load(file)["files"]
        for name, facts in files.items():
            got = recording.expected(os.path.join(folder, name))
            for key in got.keys() & facts.keys() - {"devices"}:
                self.assertEqual(got[key], facts[key], key)
            for device, values in facts["devices"].items():
                for key, value in values.items():
                    self.assertEqual(got["devices"][device][key], value, key)


if __name__ == "__main__":
    unittest.main()
