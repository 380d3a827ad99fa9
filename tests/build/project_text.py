# SPDX-License-Identifier: Apache-2.0
"""Rules over the text of every file: licence line, nothing left to do, nothing of the machine on which it
was written, sizes."""

import os
import re

from project_files import project_files, read

LICENCE = "SPDX-License-Identifier: Apache-2.0"
WANT_LICENCE = re.compile(r"(.*/)?(CMakeLists\.txt|Makefile|Dockerfile)|"
                          r".*\.(cc|h|c|cu|py|sh|cmake|in|proto|inc|map|yml|yaml)|(scripts|\.ci)/[^.]+")
# Data and texts that are not ours to word.
LEFT_ALONE = re.compile(r"LICENSE|tests/testdata/.*|.*\.(gz|zst|gpuprobe|png|svg|bin|gitignore)")

# Written apart, so that this file keeps its own rules.
UNFINISHED = re.compile(r"\b(TO" r"DO|FIX" r"ME|XX" r"X)\b")
# Folders of the machine that a text was written on; a home in an example is written $HOME or ~.
# An entry of /proc/PID may have such a name.
MACHINE = re.compile(r"(?<![\w.$}])(?<!pid, \")/(wo" r"rk|ro" r"ot|home/\w+|Users/\w+|mnt/\w+)(?=[/\s\"'`):;,]|$)", re.MULTILINE)
REGISTRY = re.compile(r"(py" r"pi\.org|files\.python" r"hosted|deb\.deb" r"ian\.org|archive\.ubu" r"ntu\.com)")

# Past the first, ask what a file is really made of; past the second, it is split.
LONG_LINES = 600
TOO_LONG_LINES = 1000
MADE_OF_LINES = (".cc", ".h", ".c", ".py")


def finding(name, text, match, what):
    line = text.count("\n", 0, match.start()) + 1
    return f"{name}:{line}: {what}: {match.group(0)}"


def problems_of(root):
    problems = []
    for name in project_files(root):
        if LEFT_ALONE.fullmatch(name):
            continue
        text = read(root, name)
        if WANT_LICENCE.fullmatch(name) and LICENCE not in "\n".join(text.split("\n")[:3]):
            problems.append(f"{name}: wants \"{LICENCE}\" in its first three lines")
        for pattern, what in ((UNFINISHED, "unfinished"), (MACHINE, "a folder of some machine"),
                              (REGISTRY, "a registry's host")):
            problems += [finding(name, text, match, what) for match in pattern.finditer(text)]
        if "\r" in text:
            problems.append(f"{name}: carriage returns")
        if text and not text.endswith("\n"):
            problems.append(f"{name}: no newline at the end")
        if re.search(r"[ \t]+$", text, re.MULTILINE) and not name.endswith(".md"):
            problems.append(f"{name}: blanks at the end of a line")
    for name, lines in long_files(root):
        if lines > TOO_LONG_LINES:
            problems.append(f"{name}: {lines} lines, more than {TOO_LONG_LINES}")
    return problems


def long_files(root):
    """(name, lines) of sources past LONG_LINES, longest first. Generated tables do not count."""
    found = []
    for name in project_files(root):
        if os.path.splitext(name)[1] in MADE_OF_LINES:
            text = read(root, name)
            lines = text.count("\n")
            if lines > LONG_LINES and "enerated" not in "".join(text.split("\n")[:6]):
                found.append((name, lines))
    return sorted(found, key=lambda item: -item[1])
