# SPDX-License-Identifier: Apache-2.0
# Copyright the gpuprobe authors.
"""Native code that the host sampler has met is named from the file that ran, and from no other.

A thread waits for the GPU in libcuda, which lies in a folder of the test's own. The trace has its build id: the name
does not depend on when the file was written, and ends when another file lies there.
"""
import os
import shutil
import struct
import subprocess
import sys
import unittest

import harness

LIBRARIES = os.path.join(harness.BUILD, "sim", "lib")
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


class SymbolsTest(harness.EndToEndTest):
    def setUp(self):
        super().setUp()
        self.libcuda = os.path.join(self.folder, "lib", "libcuda.so.1")
        os.mkdir(os.path.dirname(self.libcuda))
        shutil.copy(os.path.join(LIBRARIES, "libcuda.so.1"), self.libcuda)
        with open(self.libcuda, "rb") as file:
            if GNU_BUILD_ID not in file.read():
                self.skipTest("linked without a build id")
        self.run_sim(["--lib-dir", os.path.dirname(self.libcuda), "--", sys.executable, "-c", PROGRAM])

    def places(self):
        """What `hot` says of the waiting thread, as one text."""
        return "\n".join("%s  %s" % (row["where"], row["detail"]) for row in self.report("hot")["lines"])

    def replace_libcuda(self, name):
        """Another file, and an older one: by its time it could have been there all along."""
        shutil.copy(os.path.join(LIBRARIES, name), self.libcuda)
        os.utime(self.libcuda, (1e9, 1e9))

    def test_the_file_that_ran_names_its_functions_whatever_its_time(self):
        os.utime(self.libcuda, (4e9, 4e9))
        print(self.places())


if __name__ == "__main__":
    unittest.main()
