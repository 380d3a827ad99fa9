# SPDX-License-Identifier: Apache-2.0
import os
import shutil
import tempfile
import unittest

import project_text

ROOT = os.environ.get("GPUPROBE_TEST_SOURCE_DIR", os.path.join(os.path.dirname(__file__), "../.."))
LICENCE = "// SPDX-License-Identifier: Apache-2.0\n"


class ProjectTextTest(unittest.TestCase):
    def test_the_project_keeps_the_rules(self):
        for name, lines in project_text.long_files(ROOT):
            print(f"long file: {name}, {lines} lines")
        problems = project_text.problems_of(ROOT)
        self.assertEqual(problems, [], "\n" + "\n".join(problems))

    def problems_with(self, name, text):
        root = tempfile.mkdtemp(prefix="project-text-")
        self.addCleanup(shutil.rmtree, root)
        path = os.path.join(root, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "w", encoding="ascii", newline="") as file:
            file.write(text)
        return project_text.problems_of(root)

    def test_clean_files_have_no_problem(self):
        self.assertEqual(self.problems_with("tools/x.cc", LICENCE + "int x;  // in ./src/x, $HOME/root/\n"), [])
        self.assertEqual(self.problems_with("scripts/x", "#!/bin/sh\n#" + LICENCE[2:]), [])
        self.assertEqual(self.problems_with("docs/x.md", "Prose.\n"), [])

    def test_missing_licence_is_found(self):
        for name in ("tools/x.cc", "scripts/x", "tools/CMakeLists.txt", "cmake/x.cmake", "proto/x.proto"):
            self.assertIn("wants", self.problems_with(name, "text\n")[0])

    def test_unfinished_work_is_found(self):
        self.assertEqual(len(self.problems_with("tools/x.cc", LICENCE + "// TO" + "DO: all\n")), 1)

    def test_folders_of_a_machine_are_found(self):
        for folder in ("/wo" + "rk/x", "/home" + "/ada/x", "/ro" + "ot/.cache"):
            problems = self.problems_with("README.md", f"see {folder}\n")
            self.assertEqual(len(problems), 1, folder)
            self.assertIn("README.md:1", problems[0])

    def test_file_that_grew_too_long_is_found(self):
        self.assertEqual(self.problems_with("tools/x.cc", LICENCE + "\n" * 900), [])
        self.assertEqual(len(self.problems_with("tools/x.cc", LICENCE + "\n" * 1100)), 1)
        self.assertEqual(self.problems_with("tools/x.cc", LICENCE + "// Generated.\n" + "\n" * 1100), [])

    def test_blanks_and_carriage_returns_are_found(self):
        self.assertEqual(len(self.problems_with("tools/x.cc", LICENCE + "int x; \n")), 1)
        self.assertEqual(len(self.problems_with("tools/x.cc", LICENCE + "int x;\r\n")), 1)
        self.assertEqual(len(self.problems_with("tools/x.cc", LICENCE + "int x;")), 1)


if __name__ == "__main__":
    unittest.main()
