# SPDX-License-Identifier: Apache-2.0
# Copyright the gpuprobe authors.
"""The tables of side_by_side.py, made of its raw lines alone."""
import statistics

import ratios
from members import PROFILERS

OWN_NONE = "none, own process"
FLOOR_OF = {"gpuprobe, GPU work only": "floor, GPU work only"}
HEADER = ("profiler", "turns", "median", "of none", "of floor", "CPU of none", "CPU +", "bytes a kernel",
          "bytes an operation", "RSS +MiB", "end s", "report s")
EXPLAINED = """
median: as the clock has it, in the heading's unit. of none, of floor: ratio within a turn; where the host's speed
matters, of figures over their yardsticks to the power with which they follow them in these very lines; median and 95 %
interval over turns and sets. CPU: user and system time of the process, all its threads, per operation, as a ratio and
in the unit of the median. RSS: resident memory after the last block, less that of 'none' that came through the same
door (forked, or a process of its own). end: from the last block to the process's end, profiler included; report: to the
first line of the profiler's report (torch.profiler: of its table, from the end of its window). Bytes: on disk; a tool
that does not count kernels recorded the same steps as gpuprobe."""


def distinct_sets(lines):
    """The lines of one or more runs, each of which begins with its machine: their sets, numbered through."""
    run = -1
    for line in lines:
        run += line["kind"] == "machine"
        yield {**line, "set": (run, line["set"])} if "set" in line else line


class Raw:
    """The raw lines of one workload."""

    def __init__(self, lines, workload):
        mine = [line for line in lines if line.get("workload") == workload]
        self.blocks = [line for line in mine if line["kind"] == "block"]
        self.ends = [line for line in mine if line["kind"] == "end"]
        described = [line for line in mine if line["kind"] == "workload"]
        self.unit = described[0]["unit"] if described else "?"
        beside = bool(described and described[0]["yardsticks"])
        self.exponent = ratios.exponent_of(self.blocks) if beside else 0.0

    def blocks_of(self, profiler):
        return [block for block in self.blocks if block["profiler"] == profiler]

    def ends_of(self, profiler, *keys):
        mine = (end for end in self.ends if end["profiler"] == profiler)
        return [end for end in mine if all(end.get(key) is not None for key in keys)]

    def without(self, profiler, lines):
        """Of `lines` (blocks or ends) those without a profiler that `profiler` is compared with: of a process of its
        own, if it is one and the set has such a one."""
        own = profiler in PROFILERS and PROFILERS[profiler].own and profiler != OWN_NONE
        sets = {line["set"] for line in lines if own and line["profiler"] == OWN_NONE}
        return [line for line in lines if line["profiler"] == (OWN_NONE if line["set"] in sets else "none")]

    def middle(self, profiler, key):
        values = [end[key] for end in self.ends_of(profiler, key)]
        return statistics.median(values) if values else None

    def kernels_per_op(self):
        """As gpuprobe counted them; None where it was not there or there are none."""
        found = [end["kernels"] / end["ops_recorded"] for end in self.ends_of("gpuprobe", "kernels", "ops_recorded")]
        return (statistics.median(found) if found else None) or None

    def bytes_per_op(self, profiler):
        found = [end["bytes"] / end["ops_recorded"] for end in self.ends_of(profiler, "bytes", "ops_recorded")]
        return statistics.median(found) if found else None

    def added_rss_mib(self, profiler):
        none = {end["set"]: end["rss_kib"] for end in self.without(profiler, self.ends)
                if end.get("rss_kib") is not None}
        found = [end["rss_kib"] - none[end["set"]] for end in self.ends_of(profiler, "rss_kib") if end["set"] in none]
        return statistics.median(found) / 1024 if found else None

    def compared(self, profiler, base_blocks, of):
        pairs = ratios.paired(self.blocks_of(profiler), base_blocks, ratios.ratio(of, self.exponent))
        return ratios.interval_of_sets(pairs)

    def added_cpu(self, profiler):
        """In the unit of the figures."""
        scale = 1e9 if self.unit.startswith("ns") else 1e3

        def compare(block, base):
            return (block["cpu_s"] / block["ops"] - base["cpu_s"] / base["ops"]) * scale

        pairs = ratios.paired(self.blocks_of(profiler), self.without(profiler, self.blocks), compare)
        values = [value for values in pairs for value in values]
        return statistics.median(values) if values else None


def number(value, digits):
    return "-" if value is None else f"{value:.{digits}f}"


def row(raw, profiler):
    blocks = raw.blocks_of(profiler)
    median = statistics.median(ratios.plain_time_of(block) for block in blocks)
    none, kernels, size = raw.without(profiler, raw.blocks), raw.kernels_per_op(), raw.bytes_per_op(profiler)
    digits = 2 if median < 1000 else 0
    return (profiler, str(len(blocks)), number(median, digits),
            ratios.text_of(raw.compared(profiler, none, ratios.time_of)),
            ratios.text_of(raw.compared(profiler, raw.blocks_of(FLOOR_OF.get(profiler, "floor")), ratios.time_of)),
            ratios.text_of(raw.compared(profiler, none, ratios.cpu_of)), number(raw.added_cpu(profiler), digits),
            number(size / kernels if size and kernels else None, 1), number(size, 1),
            number(raw.added_rss_mib(profiler), 1), number(raw.middle(profiler, "end_s"), 2),
            number(raw.middle(profiler, "report_s"), 2))


def table(lines, workload):
    """The table of one workload as lines of Markdown; none where nothing was measured of it."""
    raw = Raw(lines, workload)
    if not raw.blocks:
        return
    sets = len({block["set"] for block in raw.blocks})
    over = f", over yardsticks to the power {raw.exponent:.2f}" if raw.exponent else ""
    yield f"\n## {workload} ({raw.unit}), {sets} {'set' if sets == 1 else 'sets'} of processes{over}\n"
    yield "| " + " | ".join(HEADER) + " |"
    yield "|---" * len(HEADER) + "|"
    for profiler in dict.fromkeys([*PROFILERS, *(block["profiler"] for block in raw.blocks)]):
        if raw.blocks_of(profiler):
            yield "| " + " | ".join(row(raw, profiler)) + " |"


def all_tables(lines, workloads=None):
    """Of these workloads, or of all in the order in which they come."""
    lines = list(distinct_sets(lines))
    names = workloads or list(dict.fromkeys(line["workload"] for line in lines if line.get("workload")))
    for name in names:
        yield from table(lines, name)
    yield EXPLAINED


def over_gpuprobe(raw, profiler, of):
    """Where it is below 1, `profiler` costs less."""
    return ratios.text_of(raw.compared(profiler, raw.blocks_of("gpuprobe"), of))


def short_table(lines):
    """The few figures that one looks for first, one line for each rival and workload."""
    lines = list(distinct_sets(lines))
    yield "| workload | profiler | of none | of floor | of gpuprobe | CPU of gpuprobe | bytes a kernel |"
    yield "|---|---|---|---|---|---|---|"
    for name in dict.fromkeys(line["workload"] for line in lines if line.get("workload")):
        raw = Raw(lines, name)
        for profiler in ("floor", "gpuprobe", "torch.profiler CUDA", "torch.profiler CPU+CUDA", "nsys -t cuda"):
            if raw.blocks_of(profiler):
                cells = row(raw, profiler)
                yield "| " + " | ".join((name, profiler, cells[3], cells[4],
                                         over_gpuprobe(raw, profiler, ratios.time_of),
                                         over_gpuprobe(raw, profiler, ratios.cpu_of), cells[7])) + " |"
