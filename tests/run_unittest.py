#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs one unittest file and, where GTEST_OUTPUT=xml:DIR/ asks for it, writes DIR/NAME.xml in the form
of GoogleTest, so that scripts/run-tests counts its cases.

usage: tests/run_unittest.py --name NAME FILE
"""

import argparse
import importlib.util
import os
import sys
import time
import unittest
import xml.etree.ElementTree as ElementTree


class RecordingResult(unittest.TextTestResult):
    """A text result that also keeps every case with its outcome."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.cases = []
        self._started = 0.0

    def startTest(self, test):
        super().startTest(test)
        self._started = time.monotonic()

    def _keep(self, test, outcome, text=""):
        self.cases.append((test.id(), outcome, text, time.monotonic() - self._started))

    def addSuccess(self, test):
        super().addSuccess(test)
        self._keep(test, "passed")

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self._keep(test, "failure", self.failures[-1][1])

    def addError(self, test, err):
        super().addError(test, err)
        self._keep(test, "failure", self.errors[-1][1])

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self._keep(test, "skipped", reason)

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err is not None:
            self._keep(subtest, "failure", str(err[1]))


def write_xml(path, name, cases):
    root = ElementTree.Element("testsuites", name=name, tests=str(len(cases)))
    suite = ElementTree.SubElement(root, "testsuite", name=name)
    for case_name, outcome, text, seconds in cases:
        case = ElementTree.SubElement(suite, "testcase", name=case_name, status="run",
                                      time=f"{seconds:.3f}")
        if outcome != "passed":
            ElementTree.SubElement(case, outcome, message=text)
    ElementTree.ElementTree(root).write(path, encoding="utf-8")


def main():
    os.environ.pop("COLUMNS", None)  # reports would be as wide as the terminal of whoever runs the tests
    parser = argparse.ArgumentParser()
    parser.add_argument("--name", required=True)
    parser.add_argument("file")
    arguments = parser.parse_args()

    sys.path.insert(0, os.path.dirname(os.path.abspath(arguments.file)))
    spec = importlib.util.spec_from_file_location("test_file", arguments.file)
    module = importlib.util.module_from_spec(spec)
    sys.modules["test_file"] = module
    spec.loader.exec_module(module)
    suite = unittest.defaultTestLoader.loadTestsFromModule(module)
    if suite.countTestCases() == 0:
        print(f"{arguments.file}: no test", file=sys.stderr)
        return 1
    result = unittest.TextTestRunner(resultclass=RecordingResult, verbosity=1).run(suite)

    output = os.environ.get("GTEST_OUTPUT", "")
    if output.startswith("xml:") and output.endswith("/"):
        write_xml(os.path.join(output[len("xml:"):], arguments.name + ".xml"), arguments.name, result.cases)
    return 0 if result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
