# SPDX-License-Identifier: Apache-2.0
"""The README's paragraph on cost, made of figures in the tables of bench/RESULTS.md: no figure is typed by hand.

usage: python3 tests/build/performance_text.py --write    (rewrites the section in README.md)

A figure is named {heading|row|column}: the table below the heading of RESULTS.md that begins with `heading`, the row
whose first cell begins with `row`, the column whose head begins with `column`. `head`: what comes before the first
blank of the cell."""

import os
import re
import sys

BEGIN = "<!-- cost: from bench/RESULTS.md, by tests/build/performance_text.py --write -->\n"
END = "<!-- end of cost -->\n"
WIDTH = 115

SIDE = "Side by side"
TEMPLATE = f"""
On one H200 (ratios of runs side by side, [95 % interval]): a launch takes {{{SIDE}|launch storm, 1|gpuprobe, of none}}
of its time without a profiler, a launch-bound GPT step {{{SIDE}|GPT step|gpuprobe, of none}}; of that a CUPTI client
that throws everything away costs all but a factor of {{{SIDE}|launch storm, 1|of the floor}} and
{{{SIDE}|GPT step|of the floor}}.
"""


def tables(results):
    """heading -> list of rows, each a dictionary of the head of its columns, first column under ''."""
    found, heading, head = {}, "", None
    for line in results.splitlines():
        if line.startswith("#"):
            heading, head = line.lstrip("# "), None
        elif line.startswith("|"):
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            if head is None:
                head = cells
            elif not set(line) <= set("|-: "):
                row = dict(zip(head, cells))
                row[""] = cells[0]
                found.setdefault(heading, []).append(row)
        else:
            head = None
    return found


def figure(found, heading, row, column):
    matches = [(name, r) for name, rows in found.items() if name.startswith(heading)
               for r in rows if r[""].replace("`", "").startswith(row)]
    cells = {cell for _, r in matches for name, cell in r.items() if name and name.startswith(column)}
    if len(cells) != 1:
        raise KeyError(f"{heading}|{row}|{column}: {len(cells)} cells in bench/RESULTS.md")
    return cells.pop()


def wrapped(text):
    lines, line = [], ""
    for word in text.split():
        if line and len(line) + 1 + len(word) > WIDTH:
            lines.append(line)
            line = word
        else:
            line = f"{line} {word}".strip()
    return "\n".join([*lines, line]) + "\n"


def text(results):
    found = tables(results)
    filled = re.sub(r"\{([^{}|]+)\|([^{}|]+)\|([^{}|]+)\}", lambda m: figure(found, *m.groups()), TEMPLATE)
    return "\n".join(wrapped(paragraph) for paragraph in filled.strip().split("\n\n"))


def section(readme):
    begin = readme.index(BEGIN) + len(BEGIN)
    return begin, readme.index(END, begin)


def main():
    root = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../..")
    path = os.path.join(root, "README.md")
    with open(os.path.join(root, "bench/RESULTS.md"), encoding="utf-8") as file:
        results = file.read()
    with open(path, encoding="utf-8") as file:
        readme = file.read()
    begin, end = section(readme)
    if "--write" in sys.argv:
        with open(path, "w", encoding="utf-8") as file:
            file.write(readme[:begin] + text(results) + readme[end:])
    elif readme[begin:end] != text(results):
        sys.exit("README.md differs from bench/RESULTS.md: run with --write")


if __name__ == "__main__":
    main()
