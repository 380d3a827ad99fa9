#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright the gpuprobe authors.
"""Writes seeds for fuzz_kineto: small documents with a row of every kind, in every form and packing.

usage: kineto_seeds.py FOLDER
"""
import gzip
import json
import os
import sys


def x(category, name, ts, dur, pid=411, tid=411, **args):
    return {"ph": "X", "cat": category, "name": name, "pid": pid, "tid": tid, "ts": ts, "dur": dur, "args": args}


ROWS = [
    {"ph": "M", "name": "process_name", "pid": 411, "tid": 0, "args": {"name": "python3"}},
    {"ph": "M", "name": "process_labels", "pid": 411, "tid": 0, "args": {"labels": "CPU"}},
    {"ph": "M", "name": "thread_name", "pid": 411, "tid": 411, "args": {"name": "thread 411 (main)"}},
    x("python_function", "train.py(10): main", 1, 500),
    x("cpu_op", "aten::add", 2.5, 30),
    x("user_annotation", "step", 2, 40),
    x("cuda_runtime", "cudaLaunchKernel", 3.125, 4, correlation=1),
    x("cuda_driver", "cuLaunchKernel", 3.5, 3, correlation=1),
    x("kernel", "void add<float>(float*, int)", 10, 5.5, 0, 7, device=0, context=1, stream=7, correlation=1,
      grid=[2, 1, 1], block=[128, 1, 1]),
    x("cuda_runtime", "cudaMemcpyAsync", 20, 4, correlation=2),
    x("gpu_memcpy", "Memcpy HtoD (Pageable -> Device)", 22, 5, 0, 7, device=0, context=1, stream=7, correlation=2,
      bytes=4096),
    x("gpu_memset", "Memset (Device)", 40, 1, 0, 20, device=0, context=1, stream=20, correlation=3, bytes=64),
    x("cuda_sync", "Stream Wait Event", 45, 0, 0, 20, cuda_sync_kind="Stream Wait Event", device=0, context=1,
      stream=20, correlation=4, wait_on_stream=7, wait_on_cuda_event_id=5, wait_on_cuda_event_record_corr_id=2),
    x("cuda_runtime", "cudaStreamSynchronize", 50, 20, correlation=5),
    x("overhead", "Lazy Function Loading", 80, 5, -1, 0),
    {"ph": "B", "cat": "kernel", "name": "open", "pid": 0, "tid": 7, "ts": 90, "args": {"device": 0, "stream": 7}},
    {"ph": "E", "pid": 0, "tid": 7, "ts": 95},
    {"ph": "s", "id": 1, "cat": "ac2g", "name": "ac2g", "pid": 411, "tid": 411, "ts": 3},
    {"ph": "C", "name": "memory", "pid": 1, "ts": "3", "args": {}},
]
MEMBERS = {
    "schemaVersion": 1, "baseTimeNanoseconds": 1700000000000000000,
    "distributedInfo": {"rank": 0, "world_size": 2, "backend": "nccl"},
    "deviceProperties": [{"id": 0, "name": "GPU", "totalGlobalMem": 1 << 30, "numSms": 10}],
}


def main(folder):
    document = json.dumps(dict(MEMBERS, traceEvents=ROWS, traceName="x]y"))
    seeds = {
        "document": document.encode(),
        "indented": json.dumps(dict(MEMBERS, traceEvents=ROWS), indent=2).encode(),
        "array": json.dumps(ROWS).encode(),
        "open_array": json.dumps(ROWS)[:-1].encode(),
        "strings": json.dumps([{k: str(v) if k in ("ts", "dur", "pid", "tid") else v for k, v in row.items()}
                               for row in ROWS]).encode(),
        "nested": json.dumps({"traceEvents": {"traceEvents": ROWS}}).encode(),
        "cut": document[:-300].encode(),
        "quotes": document.replace("add<float>", 'add<"float">').replace("\\", "").encode(),
        "two": (document + document).encode(),
        "nan": document.replace("5.5", "NaN").encode(),
        "gzip": gzip.compress(document.encode(), mtime=0),
        "members": gzip.compress(document[:400].encode(), mtime=0) + gzip.compress(document[400:].encode(), mtime=0),
        "empty": b"{}",
    }
    os.makedirs(folder, exist_ok=True)
    for name, content in seeds.items():
        with open(os.path.join(folder, name), "wb") as file:
            file.write(content)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    main(sys.argv[1])
