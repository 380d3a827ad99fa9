# SPDX-License-Identifier: Apache-2.0
"""A part of README.md, between two lines of its own, that is made from another file of the project."""

import os
import sys

ROOT = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")


def read(name):
    with open(os.path.join(ROOT, name), encoding="utf-8") as file:
        return file.read()


def find(readme, begin_line, end_line):
    begin = readme.index(begin_line) + len(begin_line)
    return begin, readme.index(end_line, begin)


def main(begin_line, end_line, source, make):
    """Rewrites the part with make(text of `source`) if told to by --write, else says whether it differs."""
    readme, made = read("README.md"), make(read(source))
    begin, end = find(readme, begin_line, end_line)
    if "--write" in sys.argv:
        with open(os.path.join(ROOT, "README.md"), "w", encoding="utf-8") as file:
            file.write(readme[:begin] + made + readme[end:])
    elif readme[begin:end] != made:
        sys.exit(f"README.md differs from {source}: run with --write")
