# SPDX-License-Identifier: Apache-2.0
# Copyright the gpuprobe authors.
"""From raw figures to ratios: what is compared was measured in the same turn of the same set, and the interval says
how far the median would move with other sets and other turns (resampled: sets, and turns within them)."""
import collections
import math
import random
import statistics

RESAMPLED = 2000


def interval(values, seed=1):
    """Median and the 95 % interval of it, by resampling."""
    return interval_of_sets([values], seed)


def interval_of_sets(sets, seed=1):
    """The same of values that came in sets, whose members have something in common (their processes)."""
    sets = [values for values in sets if values]
    if not sets:
        return None
    generator = random.Random(seed)
    medians = sorted(
        statistics.median(value for values in generator.choices(sets, k=len(sets))
                          for value in generator.choices(values, k=len(values)))
        for _ in range(RESAMPLED))
    low, high = RESAMPLED // 40, RESAMPLED - 1 - RESAMPLED // 40
    return statistics.median(value for values in sets for value in values), medians[low], medians[high]


def text_of(found):
    return "-" if found is None else f"{found[0]:.3f} [{found[1]:.3f}, {found[2]:.3f}]"


def exponent_of(blocks):
    """How far figures follow the yardstick timed beside them: b in log(figure) = a + b log(yardstick), with an `a` for
    each process, from 0 (not at all) to 1 (in step). Measured on each workload, since dividing by a yardstick that a
    figure follows only half-way adds more noise than it takes away (GPT step on an H200: b 0.35; spread of a figure
    0.13, over the yardstick 0.18, over its power 0.10)."""
    processes = collections.defaultdict(list)
    for block in blocks:
        processes[block["profiler"], block["set"]] += [
            (math.log(yardstick), math.log(figure))
            for figure, yardstick in zip(block["figures"], block["yardsticks"]) if figure > 0 and yardstick > 0]
    together = apart = 0.0
    for points in processes.values():
        middle_x, middle_y = (statistics.fmean(values) for values in zip(*points)) if points else (0, 0)
        together += sum((x - middle_x) * (y - middle_y) for x, y in points)
        apart += sum((x - middle_x) ** 2 for x, _ in points)
    return min(max(together / apart, 0.0), 1.0) if apart > 1e-9 else 0.0


def time_of(block, exponent):
    """What a block is compared by: the mean of its figures, each over its yardstick to this power. Not the median,
    which would leave out what a profiler does twice a second."""
    return statistics.fmean(figure / yardstick ** exponent
                            for figure, yardstick in zip(block["figures"], block["yardsticks"]))


def plain_time_of(block):
    return statistics.fmean(block["figures"])


def cpu_of(block, exponent):
    """CPU time of an operation, over the block's yardsticks as its time is."""
    return block["cpu_s"] / block["ops"] / statistics.fmean(block["yardsticks"]) ** exponent


def by_turn(blocks):
    return {(block["set"], block["turn"]): block for block in blocks}


def paired(blocks, base_blocks, compare):
    """[[compare(block, base block) of each turn], ...], one list a set; None is left out."""
    base = by_turn(base_blocks)
    sets = collections.defaultdict(list)
    for key, block in by_turn(blocks).items():
        value = compare(block, base[key]) if key in base else None
        if value is not None:
            sets[key[0]].append(value)
    return list(sets.values())


def ratio(of, exponent):
    """compare() for paired(): of(block, exponent) over that of the base."""
    def compare(block, base):
        over = of(base, exponent)
        return of(block, exponent) / over if over else None
    return compare
