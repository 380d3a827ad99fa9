# SPDX-License-Identifier: Apache-2.0
# Copyright the gpuprobe authors.
"""Planted: the main thread parses a large JSON document and runs a regular expression over its beginning
before every step: single calls into C extensions (_json, _sre) of tens of milliseconds, with the GIL held.

json.loads takes most of it, the regular expression the rest.

Usage: planted_json_records.py [SECONDS]
"""

import json
import random
import re
import time

import torch
from workload import StepClock, lines_marked, report, seconds_from_command_line

STAMP = re.compile(r"\b(\d{4})-(\d\d)-(\d\d)\b")


def make_document(records=30_000):
    values = random.Random(0)
    return json.dumps(
        [
            {
                "id": i,
                "day": "20%02d-%02d-%02d"
                % (values.randrange(100), values.randrange(1, 13), values.randrange(1, 29)),
                "features": [values.random() for _ in range(8)],
                "name": "record-%06d" % i,
            }
            for i in range(records)
        ]
    )


def parse(document):
    return json.loads(document)  # planted


def days(document):
    return STAMP.findall(document)  # planted


def score(model, records):
    features = torch.tensor([record["features"] for record in records[:512]]).cuda()
    for layer in model:
        features = torch.tanh(layer(features))
    return features


def main():
    seconds = seconds_from_command_line()
    document = make_document()
    records = parse(document)
    model = [torch.nn.Linear(8, 4096).cuda()]
    model += [torch.nn.Linear(4096, 4096).cuda() for _ in range(8)]
    with torch.no_grad():
        for _ in range(3):
            score(model, records)
        torch.cuda.synchronize()

        clock, steps, begin = StepClock(torch.cuda.Event), 0, time.perf_counter()
        while time.perf_counter() - begin < seconds:
            records = parse(document)
            found = days(document[:1_000_000])
            assert found
            clock.begin()
            score(model, records)
            clock.end()
            steps += 1
        torch.cuda.synchronize()
    total = time.perf_counter() - begin
    share = 1 - clock.seconds() / total
    report(["host_native", "host_python"], lines_marked(__file__), share, steps, total)


if __name__ == "__main__":
    main()
