# SPDX-License-Identifier: Apache-2.0
"""scripts/run-tests: what it counts, on made-up test programs."""

import os
import shutil
import stat
import subprocess
import sys
import tempfile
import unittest

SOURCE = os.environ.get("GPUPROBE_TEST_SOURCE_DIR", os.path.join(os.path.dirname(__file__), "../.."))
CASE = {"p": '<testcase name="a" status="run" result="completed"/>',
        "f": '<testcase name="a" status="run" result="completed"><failure message="no"/></testcase>',
        "s": '<testcase name="a" status="run" result="skipped"><skipped message="why"/></testcase>',
        "d": '<testcase name="a" status="notrun" result="suppressed"/>'}


class CountingTest(unittest.TestCase):
    def setUp(self):
        self.build = tempfile.mkdtemp(prefix="counting-test-")
        self.addCleanup(shutil.rmtree, self.build)
        self.lines = []
        with open(os.path.join(self.build, "CMakeCache.txt"), "w", encoding="ascii") as file:
            file.write("GPUPROBE_SANITIZE:STRING=\n")

    def program(self, name, cases=None, status=0, properties="", tests=1, says=""):
        """A program that writes a result file as GoogleTest would; cases None: writes none."""
        path = os.path.join(self.build, name)
        xml = "<testsuites><testsuite>" + "".join(CASE[c] for c in cases or "") + "</testsuite></testsuites>"
        with open(path, "w", encoding="ascii") as file:
            file.write("#!/bin/sh\n")
            if cases is not None:
                file.write(f'out="${{GTEST_OUTPUT#xml:}}{name}"\nn=""\n'
                           'while ! (set -C; > "$out$n.xml") 2> /dev/null; do n=_$((${n#_} + 1)); done\n'
                           f"echo '{xml}' > \"$out$n.xml\"\n")
            file.write(f"echo '{says}'\nexit {status}\n")
        os.chmod(path, os.stat(path).st_mode | stat.S_IXUSR)
        for i in range(tests):
            test = name if i == 0 else f"{name}.{i}"
            self.lines.append(f'add_test("{test}" "{path}")\n')
            if properties:
                self.lines.append(f'set_tests_properties("{test}" PROPERTIES {properties})\n')

    def run_it(self, *arguments):
        with open(os.path.join(self.build, "CTestTestfile.cmake"), "w", encoding="ascii") as file:
            file.writelines(self.lines)
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("CTEST_", "GTEST_"))}
        result = subprocess.run([sys.executable, os.path.join(SOURCE, "scripts/run-tests"), self.build, *arguments],
                                capture_output=True, text=True, env=environment, check=False)
        self.output = result.stdout
        return result.stdout.splitlines()[-1] if result.stdout else result.stderr, result.returncode

    def test_cases_of_all_programs_are_summed(self):
        self.program("one", "ppsd")
        self.program("two", "pp")
        self.assertEqual(self.run_it(), ("4 passed, 0 failed, 1 skipped", 0))

    def test_failed_cases_fail_the_run(self):
        self.program("one", "pff", status=1)
        self.assertEqual(self.run_it()[0], "1 passed, 2 failed, 0 skipped")
        self.assertNotEqual(self.run_it()[1], 0)

    def test_program_without_result_file_is_one_case(self):
        self.program("one")
        self.program("two", status=1)
        self.program("three", status=77, properties="SKIP_RETURN_CODE 77")
        self.assertEqual(self.run_it()[0], "1 passed, 1 failed, 1 skipped")

    def test_reasons_of_skipped_cases_are_told_and_counted(self):
        self.program("one", "ssp")
        self.program("two", status=77, properties="SKIP_RETURN_CODE 77", says="no GPU here")
        self.assertEqual(self.run_it(), ("1 passed, 0 failed, 3 skipped", 0))
        self.assertIn("skipped 2: why\nskipped 1: no GPU here\n", self.output)

    def test_program_that_fails_after_its_cases_passed_is_a_failure(self):
        self.program("one", "ppp", status=1)
        self.assertEqual(self.run_it()[0], "3 passed, 1 failed, 0 skipped")

    def test_program_that_several_tests_run_is_counted_for_each(self):
        self.program("one", "pp", tests=3, properties="RUN_SERIAL TRUE")
        self.assertEqual(self.run_it(), ("6 passed, 0 failed, 0 skipped", 0))

    def test_no_test_is_a_failure(self):
        self.program("one", "p")
        self.assertNotEqual(self.run_it("-R", "no-such-test")[1], 0)


if __name__ == "__main__":
    unittest.main()
