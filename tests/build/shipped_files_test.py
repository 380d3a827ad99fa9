# SPDX-License-Identifier: Apache-2.0
"""What build/dist ships, looked at as a loader would: needed libraries, symbol versions, exports."""

import os
import re
import subprocess
import unittest

BUILD = os.environ["GPUPROBE_TEST_BUILD_DIR"]
SOURCE = os.environ["GPUPROBE_TEST_SOURCE_DIR"]
STATIC = os.environ.get("GPUPROBE_TEST_STATIC_TOOLS", "OFF") == "ON"
LIBRARY = os.path.join(BUILD, "dist/lib/libgpuprobe.so")
TOOLS = os.path.join(BUILD, "dist/bin")

LIBC_FAMILY = {"libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1", "ld-linux-x86-64.so.2"}
OLDEST_GLIBC = (2, 28)
# HAZARD: a big thread-local block does not fit what the loader keeps for libraries that come late.
MAX_TLS_BYTES = 64


def readelf(*arguments):
    return subprocess.run(["readelf", "-W", *arguments], check=True, capture_output=True, text=True).stdout


def needed(path):
    return set(re.findall(r"\(NEEDED\)\s+Shared library: \[([^\]]+)\]", readelf("-d", path)))


def tools():
    return sorted(os.path.join(TOOLS, name) for name in os.listdir(TOOLS)) if os.path.isdir(TOOLS) else []


@unittest.skipUnless(tools(), "no tool was built")
class ToolsTest(unittest.TestCase):
    def test_they_need_no_library_that_may_be_missing(self):
        for tool in tools():
            self.assertLessEqual(needed(tool), set() if STATIC else LIBC_FAMILY, tool)

    def test_they_run_with_an_empty_environment(self):
        for tool in tools():
            result = subprocess.run([tool, "--help"], env={}, cwd="/", capture_output=True, text=True, check=False)
            self.assertEqual((result.returncode, result.stderr), (0, ""), tool)
            self.assertIn("usage: " + os.path.basename(tool), result.stdout)


class PathsTest(unittest.TestCase):
    @unittest.skipUnless(os.path.isdir(os.path.join(BUILD, "dist")), "nothing was built")
    def test_no_file_names_the_folder_it_was_built_in(self):
        for folder, _, names in os.walk(os.path.join(BUILD, "dist")):
            for name in names:
                with open(os.path.join(folder, name), "rb") as file:
                    self.assertNotIn(os.fsencode(SOURCE), file.read(), name)


@unittest.skipUnless(os.path.exists(LIBRARY), "libgpuprobe.so was not built")
class LibraryTest(unittest.TestCase):
    def test_it_needs_libc_alone(self):
        self.assertLessEqual(needed(LIBRARY), LIBC_FAMILY)

    def test_it_loads_on_the_oldest_glibc(self):
        versions = {tuple(map(int, v.split("."))) for v in re.findall(r"GLIBC_([\d.]+)", readelf("-V", LIBRARY))}
        self.assertTrue(versions)
        self.assertLessEqual(max(versions)[:2], OLDEST_GLIBC)
        self.assertNotRegex(readelf("-V", LIBRARY), "GLIBCXX|CXXABI")

    def test_it_exports_its_doors_and_the_fronts_of_cupti_alone(self):
        exported = {line.split()[7].split("@")[0] for line in readelf("--dyn-syms", LIBRARY).splitlines()
                    if re.match(r"\s*\d+:", line) and line.split()[4] in ("GLOBAL", "WEAK", "UNIQUE") and
                    line.split()[6] not in ("UND", "ABS") and len(line.split()) > 7}
        self.assertIn("InitializeInjection", exported)
        self.assertEqual([s for s in exported if not re.match(r"InitializeInjection|cupti[A-Z]|gpuprobe_", s)], [])

    def test_its_thread_local_storage_is_small_and_not_static(self):
        sizes = [int(line.split()[5], 16) for line in readelf("-l", LIBRARY).splitlines() if line.split()[:1] == ["TLS"]]
        self.assertLessEqual(sum(sizes), MAX_TLS_BYTES)
        self.assertNotIn("STATIC_TLS", readelf("-d", LIBRARY))

    def test_it_has_no_search_path_and_no_executable_stack(self):
        self.assertNotRegex(readelf("-d", LIBRARY), "RPATH|RUNPATH")
        stack = [line for line in readelf("-l", LIBRARY).splitlines() if "GNU_STACK" in line]
        self.assertEqual(len(stack), 1)
        self.assertNotIn("RWE", stack[0])

    def test_it_can_stay_loaded_for_ever(self):
        # Hooks and callbacks point into it; dlclose by the driver must not unmap it.
        self.assertRegex(readelf("-d", LIBRARY), r"NODELETE")


if __name__ == "__main__":
    unittest.main()
