# SPDX-License-Identifier: Apache-2.0
# Copyright the gpuprobe authors.
"""What the planted workloads share: their command line, and the line of JSON that says what was planted.

    {"expected_kind": [acceptable kinds, best first], "expected_line": "file.py:NN" or null,
     "expected_lines": [other lines that are as right], "behind_line": "file.py:NN" or null,
     "line_required": bool, "share": of the loop's time that was lost, "steps": n, "ms_per_step": x}

expected_line is where the thread stands that ought to feed the GPU; behind_line, where there is one, what another
thread or process does there that keeps it: a loader's worker, the holder of the GIL. Lines are found by the comment `# planted` in the script's own source, so that they cannot go stale.
"""

import json
import linecache
import os
import sys


def lines_marked(path, marker="planted"):
    """["file.py:NN", ...] of the lines of this file that end in `# marker`, in order."""
    ending = "# " + marker
    found = []
    for number, text in enumerate(linecache.getlines(path), 1):
        if text.rstrip().endswith(ending):
            found.append("%s:%d" % (os.path.basename(path), number))
    if not found:
        raise LookupError("%s has no line marked %r" % (path, ending))
    return found


def seconds_from_command_line(default=4.5):
    """How long the loop runs: the first argument."""
    return float(sys.argv[1]) if len(sys.argv) > 1 else default


class StepClock:
    """How long the GPU takes for the work of each step, from the first submission to its end. The rest of the
    loop's time it waited for what lies between the steps. Events only: nothing waits. `event` is
    torch.cuda.Event; seconds() wants a synchronised device."""

    def __init__(self, event):
        self._event, self._pairs = event, []

    def begin(self):
        self._pairs.append((self._event(enable_timing=True), self._event(enable_timing=True)))
        self._pairs[-1][0].record()

    def end(self):
        self._pairs[-1][1].record()

    def seconds(self):
        return sum(begun.elapsed_time(ended) for begun, ended in self._pairs) / 1e3


def report(kinds, lines, share, steps, loop_seconds, behind_line=None, line_required=True, **more):
    """Prints the line of JSON. `lines`: the best one first; none: no line is to blame."""
    print(
        json.dumps(
            dict(
                more,
                expected_kind=kinds,
                expected_line=lines[0] if lines else None,
                expected_lines=list(lines),
                behind_line=behind_line,
                line_required=bool(lines) and line_required,
                share=round(share, 4),
                steps=steps,
                ms_per_step=round(loop_seconds * 1e3 / max(steps, 1), 3),
            )
        ),
        flush=True,
    )
