# SPDX-License-Identifier: Apache-2.0
"""What README.md says about the project is what the project does."""

import os
import re
import unittest

import performance_text
import readme_section
import settings_table

ROOT = os.environ.get("GPUPROBE_TEST_SOURCE_DIR", os.path.join(os.path.dirname(__file__), "../.."))


def read(name):
    with open(os.path.join(ROOT, name), encoding="utf-8") as file:
        return file.read()


class ReadmeTest(unittest.TestCase):
    def test_settings_are_those_of_the_table_in_config(self):
        readme, config = read("README.md"), read("inject/config.cc")
        begin, end = readme_section.find(readme, settings_table.BEGIN, settings_table.END)
        self.assertEqual(readme[begin:end], settings_table.table(config),
                         "run: python3 tests/build/settings_table.py --write")
        # The pattern must have understood every row.
        self.assertEqual([row[0] for row in settings_table.rows(config)],
                         re.findall(r'\{"(GPUPROBE_\w+)", SettingType', config))

    def test_cost_is_that_of_the_results(self):
        readme = read("README.md")
        begin, end = readme_section.find(readme, performance_text.BEGIN, performance_text.END)
        self.assertEqual(readme[begin:end], performance_text.text(read("bench/RESULTS.md")),
                         "run: python3 tests/build/performance_text.py --write")

    def test_make_targets_exist(self):
        targets = set(re.findall(r"^([\w-]+):.*##", read("Makefile"), re.MULTILINE))
        for document in ("README.md", "CONTRIBUTING.md"):
            named = set(re.findall(r"`make ([a-z][\w-]*)", read(document)))
            self.assertLessEqual(named, targets, document)

    def test_files_that_are_linked_exist(self):
        for document in ("README.md", "CONTRIBUTING.md"):
            for link in re.findall(r"\]\((?!https?:|#)([^)#]+)", read(document)):
                self.assertTrue(os.path.exists(os.path.join(ROOT, link)), f"{document}: {link}")

    def test_options_of_probe_run_are_those_it_has(self):
        known = set(re.findall(r"(--[a-z][\w-]*)", read("tools/run/options.cc"))) | {"--help", "--version"}
        text = read("README.md")
        start = text.index("## probe-run")
        named = set(re.findall(r"`(--[a-z][\w-]*)", text[start:text.index("\n## ", start)]))
        self.assertLessEqual(named, known)
        self.assertTrue(named)


if __name__ == "__main__":
    unittest.main()
