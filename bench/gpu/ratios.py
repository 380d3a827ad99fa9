# SPDX-License-Identifier: Apache-2.0
# Copyright the gpuprobe authors.
"""From raw figures to ratios: what is compared was measured in the same turn of the same set, and the interval says
how far the median would move with other sets and other turns (resampled: sets, and turns within them)."""
import collections
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


def time_of(block, yardsticks):
    """What a block is compared by: its mean, over the yardsticks' where they say anything. Not the median, which would
    leave out what a profiler does twice a second."""
    return plain_time_of(block) / (statistics.fmean(block["yardsticks"]) if yardsticks else 1)


def plain_time_of(block):
    return statistics.fmean(block["figures"])


def cpu_of(block, yardsticks):
    """CPU time of an operation, over the block's yardsticks as its time is."""
    plain = block["cpu_s"] / block["ops"]
    return plain / statistics.fmean(block["yardsticks"]) if yardsticks else plain


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


def ratio(of, yardsticks):
    """compare() for paired(): of(block, yardsticks) over that of the base."""
    def compare(block, base):
        over = of(base, yardsticks)
        return of(block, yardsticks) / over if over else None
    return compare
