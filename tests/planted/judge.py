# SPDX-License-Identifier: Apache-2.0
# Copyright the gpuprobe authors.
"""Holds a summary report against what a workload planted. Pure: JSON in, a Verdict out.

`planted` is the line of JSON that tests/workloads/workload.py describes; `summary` what
`probe-report summary --format json` prints, `text` the same as text.

What has to be right: the kind of the verdict; the line of code, wherever in the verdict or at the top site of
the largest idle cause it stands (which field is left open, the line is not); where another thread or process is
behind it, that one's line, too; nearly all idle time has a cause that says more than "host" or "unknown"; and
the size is about right.
"""

import dataclasses
import re

EXPLAINED_AT_LEAST = 0.90
# Below this share of the window the idle time is crumbs, and its causes prove nothing.
IDLE_WORTH_EXPLAINING = 0.05
# The script's own measure of what was lost and the report's are two ways to see one thing. A report that
# takes the time in which the script's thread found no CPU ("starved") for what it is names that much less.
SHARE_OFF_AT_MOST = 0.2
# Kinds that speak of the time in which the GPU is busy.
BUSY_KINDS = ("gpu_bound", "busy_but_empty")
OUTSIDE = ("start", "end")
# The rules give two causes where the reader is told one.
# gil_wait: the wait in front of the fight is charged with what the thread would have been ahead (rule 6).
SAME = {
    "launch_bound": ("launch_bound", "launch_latency"),
    "cpu_starved": ("cpu_starved", "input_wait"),
    "gil_wait": ("gil_wait", "synchronisation"),
}
# A line of bytecode that calls C functions has both, and its own measure cannot tell them apart.
AT_THE_SAME_LINE = {"host_python": "host_native", "host_native": "host_python"}
VAGUE = ("host", "unknown")
# The first screen, which may name the line behind it.
SCREEN_LINES = 16

_PLACE = re.compile(r"[^\s/:()\"'<>]+\.py:\d+")


@dataclasses.dataclass
class Verdict:
    expected: list
    got: str = ""
    line_expected: str = "-"
    line_got: str = "-"
    idle_share: float = 0.0
    explained: float = 1.0  # of the idle time between start and end
    planted_share: float = 0.0
    reported_share: float = None  # of the window; None: cannot be compared
    problems: list = dataclasses.field(default_factory=list)


def places(text):
    """["train.py:88", ...] in the order in which they stand in this text."""
    return _PLACE.findall(text or "")


def strings(value):
    """All strings in a piece of JSON, depth first."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from strings(item)
    elif isinstance(value, list):
        for item in value:
            yield from strings(item)


def about_others(value):
    """All strings below keys that speak of what others did meanwhile."""
    if isinstance(value, dict):
        for key, item in value.items():
            others = "worker" in key or "meanwhile" in key or "holder" in key
            yield from strings(item) if others else about_others(item)
    elif isinstance(value, list):
        for item in value:
            yield from about_others(item)


def causes_of(summary):
    """{cause: [total_ns, {where: total_ns}]} over all devices, without what lies outside the run."""
    totals = {}
    for device in summary["devices"]:
        for cause in device["idle_causes"]:
            if cause["cause"] in OUTSIDE:
                continue
            total = totals.setdefault(cause["cause"], [0, {}])
            total[0] += cause["total_ns"]
            for site in cause["sites"]:
                total[1][site["where"]] = total[1].get(site["where"], 0) + site["total_ns"]
    return totals


def top_site(totals):
    """Where the largest cause has its largest site; "" if there is none."""
    if not totals:
        return ""
    sites = max(totals.values(), key=lambda total: total[0])[1]
    return max(sites, key=sites.get) if sites else ""


def line_reported(summary, totals, wanted):
    """A wanted line if it stands where a reader is sent first, else the line that stands there."""
    seen = places(top_site(totals))
    for text in strings(summary["verdict"]):
        seen += places(text)
    return next((line for line in wanted if line in seen), seen[0] if seen else "-")


def of_lines(totals, wanted):
    """Idle time of the wanted lines, in ns, whatever the cause."""
    return sum(
        ns
        for _, sites in totals.values()
        for where, ns in sites.items()
        if any(line in wanted for line in places(where))
    )


def share_reported(summary, totals, wanted, span, share, expected=()):
    """Of the window: the cause that the verdict names, and those that may be named for it; else all idle time of the
    wanted lines."""
    kind = summary["verdict"]["kind"]
    if kind in BUSY_KINDS:
        return None
    if kind == "periodic_stall":  # made of many causes, and of nothing else between two stalls
        return sum(device["idle_ns"] for device in summary["devices"]) / span
    same = {*SAME.get(kind, (kind,)), *(expected if kind in expected else ())}
    named = sum(totals[cause][0] for cause in same if cause in totals)
    if kind == "pageable_copy":
        # The GPU may be busy with them: whether that counts as lost is the script's choice.
        copying = sum(device["breakdown"]["copy_ns"] for device in summary["devices"])
        return min((named / span, (named + copying) / span), key=lambda s: abs(s - share))
    if named:
        other = AT_THE_SAME_LINE.get(kind)
        with_it = {other: totals[other]} if other in totals and other not in same else {}
        return (named + of_lines(with_it, wanted)) / span
    return of_lines(totals, wanted) / span or None


def judge(planted, summary, text):
    wanted = planted["expected_lines"]
    verdict = Verdict(planted["expected_kind"], planted_share=planted["share"])
    verdict.line_expected = planted["expected_line"] or "-"
    verdict.got = summary["verdict"]["kind"]
    if summary["partial"]:
        verdict.problems.append("partial")
    if verdict.got not in planted["expected_kind"]:
        verdict.problems.append("kind")
    span = sum(device["window_ns"]["span"] for device in summary["devices"])
    if span == 0:
        verdict.problems.append("no GPU work")
        return verdict

    totals = causes_of(summary)
    verdict.line_got = line_reported(summary, totals, wanted)
    if planted["line_required"] and verdict.line_got not in wanted:
        verdict.problems.append("line")
    if planted["behind_line"]:
        screen = "\n".join(text.splitlines()[:SCREEN_LINES])
        told = "\n".join([screen, *strings(summary["verdict"]), *about_others(summary)])
        if planted["behind_line"] not in places(told):
            verdict.problems.append("behind " + planted["behind_line"])

    verdict.idle_share = sum(device["idle_ns"] for device in summary["devices"]) / span
    inside = sum(total for total, _ in totals.values())
    vague = sum(totals[cause][0] for cause in VAGUE if cause in totals)
    if inside > 0:
        verdict.explained = 1 - vague / inside
    if verdict.idle_share >= IDLE_WORTH_EXPLAINING and verdict.explained < EXPLAINED_AT_LEAST:
        verdict.problems.append("explained")
    verdict.reported_share = reported = share_reported(
        summary, totals, wanted, span, planted["share"], planted["expected_kind"]
    )
    if reported is not None:
        less = planted["share"] - reported
        if not -SHARE_OFF_AT_MOST <= less <= SHARE_OFF_AT_MOST + max(planted.get("starved", 0), 0):
            verdict.problems.append("share")
    return verdict
