# SPDX-License-Identifier: Apache-2.0
# Copyright the gpuprobe authors.
"""Native code that the host sampler has met is named from the file that ran, and from no other.

A thread waits for the GPU in libcuda, which lies in a folder of the test's own. The trace has its build id: the name
does not depend on when the file was written, and ends when another file lies there.
"""
import os
import struct
import sys
import unittest

import harness

# Ten waits of 100 ms each.
PROGRAM = """
import sys
sys.path.insert(0, %r)
from gpusim import Gpu
gpu = Gpu()
stream = gpu.stream()
for _ in range(10):
    gpu.launch("long", 100_000_000, stream)
    gpu.sync(stream)
""" % os.path.join(harness.SOURCE, "tests", "sim")
GNU_BUILD_ID = struct.pack("<II", 20, 3) + b"GNU\0"
FUNCTION = r"gpuprobe::sim::\w+::\w+ \(libcuda\.so\.1\)"


class SymbolsTest(harness.EndToEndTest):
    def setUp(self):
        super().setUp()
        self.libcuda = os.path.join(self.folder, "lib", "libcuda.so.1")
        os.mkdir(os.path.dirname(self.libcuda))
        with open(os.path.join(harness.BUILD, "sim", "lib", "libcuda.so.1"), "rb") as file:
            self.bytes = file.read()
        if GNU_BUILD_ID not in self.bytes:
            self.skipTest("linked without a build id")
        self.write_libcuda(self.bytes)
        self.run_sim(["--lib-dir", os.path.dirname(self.libcuda), "--", sys.executable, "-c", PROGRAM])

    def write_libcuda(self, content):
        with open(self.libcuda, "wb") as file:
            file.write(content)

    def wait(self):
        """Where in native code the thread stood while it waited, as `hot` has it."""
        row = max(self.report("hot")["lines"], key=lambda row: row["blocked_ns"])
        self.assertIn("libcuda.so.1", row["detail"], row)
        return row["detail"]

    def test_the_file_that_ran_names_its_functions_whatever_its_time(self):
        os.utime(self.libcuda, (4e9, 4e9))
        self.assertRegex(self.wait(), FUNCTION)

    def test_a_file_with_another_build_id_names_nothing(self):
        # The same functions at the same places, and old enough to have been there all along.
        at = self.bytes.index(GNU_BUILD_ID) + len(GNU_BUILD_ID)
        self.write_libcuda(self.bytes[:at] + bytes([self.bytes[at] ^ 1]) + self.bytes[at + 1:])
        os.utime(self.libcuda, (1e9, 1e9))
        self.assertNotRegex(self.wait(), FUNCTION)


if __name__ == "__main__":
    unittest.main()
