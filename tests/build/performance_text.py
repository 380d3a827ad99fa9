# SPDX-License-Identifier: Apache-2.0
"""The README's paragraph on cost, made of figures in the tables of bench/RESULTS.md: no figure is typed by hand.

usage: python3 tests/build/performance_text.py --write    (rewrites the section in README.md)

A figure is named {heading|row|column}: the tables below the heading of RESULTS.md that begins with `heading`, the row
whose first cell begins with `row`, the column whose head begins with `column`; {heading|row|column|range}: smallest to
largest of the numbers in front of the cell's first bracket."""

import re

import readme_section

BEGIN = "<!-- cost: from bench/RESULTS.md, by tests/build/performance_text.py --write -->\n"
END = "<!-- end of cost -->\n"
WIDTH = 115

SIDE, KINDS, PLAIN = "Side by side", "What CUPTI itself costs", "Results"
TEMPLATE = f"""
On one H200, as ratios with their 95 % interval: a kernel launch takes {{{SIDE}|launch storm, 1|gpuprobe, of none}} of
its time without a profiler, and {{{SIDE}|launch storm, 1|of the floor}} of its time under a CUPTI client that asks for
the same and throws it away: what it costs is CUPTI's cost. torch.profiler's record kinds cost
{{{KINDS}|those of torch.profiler|launch, 40}} of gpuprobe's. A GPT training step that is bound by launches took
{{{SIDE}|GPT step|gpuprobe, of none}} of its time, {{{SIDE}|GPT step, bound|of the floor}} of the floor. Matrix products that keep the GPU busy take
{{{PLAIN}|matrix products|ratio}} of their time. A record takes {{{PLAIN}|bytes a record, full|A|range}} bytes on disk,
and {{{PLAIN}|the drain thread|B|range}} ns of the one thread that writes.
[bench/RESULTS.md](bench/RESULTS.md) has the machines, the commands, and where a budget is missed or a rival is cheaper.
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


def number_range(cell):
    numbers = sorted(re.findall(r"\d+(?:\.\d+)?", cell.split("(")[0]), key=float)
    return f"{numbers[0]} to {numbers[-1]}"


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
    filled = re.sub(r"\{([^{}|]+)\|([^{}|]+)\|([^{}|]+)(\|range)?\}",
                    lambda m: (number_range if m[4] else str)(figure(found, *m.groups()[:3])), TEMPLATE)
    return "\n".join(wrapped(paragraph) for paragraph in filled.strip().split("\n\n"))


if __name__ == "__main__":
    readme_section.main(BEGIN, END, "bench/RESULTS.md", text)
