# SPDX-License-Identifier: Apache-2.0
# Copyright the gpuprobe authors.
"""Reads .cuptibuf recordings by byte offsets alone, and computes what a correct reader must find
in one.

    python3 recording.py expected FILE.cuptibuf[.gz] [--version 130001]    one JSON object on stdout
    python3 recording.py dump FILE.cuptibuf[.gz] [--version 130001]        one line a record

The offsets are written down here a second time on purpose: this file shares nothing with the C++
that it is used to check.
"""

import argparse
import collections
import gzip
import hashlib
import json
import os
import struct

KINDS = {
    1: "MEMCPY",
    2: "MEMSET",
    4: "DRIVER",
    5: "RUNTIME",
    8: "DEVICE",
    9: "CONTEXT",
    10: "CONCURRENT_KERNEL",
    17: "OVERHEAD",
    22: "MEMCPY2",
    36: "CUDA_EVENT",
    37: "STREAM",
    38: "SYNCHRONIZATION",
    39: "EXTERNAL_CORRELATION",
    51: "GRAPH_TRACE",
    200: "UNKNOWN_TO_CLIENTS",
}
_SAME = {2: 88, 4: 40, 5: 40, 22: 96, 37: 24, 39: 24, 200: 32}
SIZES = {
    130001: {**_SAME, 1: 96, 8: 184, 9: 32, 10: 216, 17: 56, 36: 56, 38: 56, 51: 56},
    26: {**_SAME, 1: 96, 8: 184, 9: 32, 10: 208, 17: 56, 36: 56, 38: 56, 51: 56},
    18: {**_SAME, 1: 88, 8: 176, 9: 16, 10: 200, 17: 40, 36: 24, 38: 40, 51: 48},
}
SIZES[28] = SIZES[26]
# kind: (start, end, device, context, stream, correlation) byte offsets of GPU work
WORK = {
    1: (16, 24, 32, 36, 40, 44),
    2: (16, 24, 32, 36, 40, 44),
    10: (16, 24, 40, 44, 48, 92),
    22: (16, 24, 32, 36, 40, 60),
    51: (8, 16, 24, 32, 36, 4),
}
SYNC_TYPES = {
    1: "EVENT_SYNCHRONIZE",
    2: "STREAM_WAIT_EVENT",
    3: "STREAM_SYNCHRONIZE",
    4: "CONTEXT_SYNCHRONIZE",
}
OVERHEAD_KINDS = {
    0: "UNKNOWN",
    1: "DRIVER_COMPILER",
    1 << 16: "CUPTI_BUFFER_FLUSH",
    2 << 16: "CUPTI_INSTRUMENTATION",
    3 << 16: "CUPTI_RESOURCE",
    4 << 16: "RUNTIME_TRIGGERED_MODULE_LOADING",
    5 << 16: "LAZY_FUNCTION_LOADING",
    6 << 16: "COMMAND_BUFFER_FULL",
    7 << 16: "ACTIVITY_BUFFER_REQUEST",
}


def read_raw(path):
    opener = gzip.open if path.endswith(".gz") else open
    with opener(path, "rb") as file:
        return file.read()


def split_buffers(raw):
    """The contents of the buffers of a recording, in file order."""
    at, buffers = 0, []
    while at < len(raw):
        (size,) = struct.unpack_from("<Q", raw, at)
        if at + 8 + size > len(raw):
            raise ValueError("recording ends inside a buffer")
        buffers.append(raw[at + 8 : at + 8 + size])
        at += 8 + size
    return buffers


def split_records(buffer, version=130001):
    """(kind, bytes) of every record of a buffer."""
    sizes, at = SIZES[version], 0
    while at < len(buffer):
        (kind,) = struct.unpack_from("<I", buffer, at)
        if kind not in sizes or at + sizes[kind] > len(buffer):
            raise ValueError("no record of kind %d at byte %d" % (kind, at))
        yield kind, buffer[at : at + sizes[kind]]
        at += sizes[kind]


def u32(record, at):
    return struct.unpack_from("<I", record, at)[0]


def u64(record, at):
    return struct.unpack_from("<Q", record, at)[0]


def fields(kind, record):
    """The fields of a record that tests look at, as a dictionary."""
    out = {"kind": kind}
    if kind in WORK:
        start, end, device, context, stream, correlation = WORK[kind]
        out.update(
            start=u64(record, start),
            end=u64(record, end),
            device=u32(record, device),
            context=u32(record, context),
            stream=u32(record, stream),
            correlation=u32(record, correlation),
        )
    if kind in (1, 22):
        out.update(
            copy_kind=record[4],
            src_kind=record[5],
            dst_kind=record[6],
            flags=record[7],
            bytes=u64(record, 8),
        )
    if kind == 2:
        out.update(value=u32(record, 4), bytes=u64(record, 8))
    if kind == 10:
        out.update(
            name=u64(record, 104),
            graph_id=u32(record, 156),
            graph_node_id=u64(record, 144),
            queued=u64(record, 120),
            submitted=u64(record, 128),
            grid=struct.unpack_from("<3i", record, 52),
            block=struct.unpack_from("<3i", record, 64),
        )
    if kind == 22:
        out.update(src_device=u32(record, 44), dst_device=u32(record, 52))
    if kind == 51:
        out.update(graph_id=u32(record, 28))
    if kind in (4, 5):
        out.update(
            cbid=u32(record, 4),
            start=u64(record, 8),
            end=u64(record, 16),
            process=u32(record, 24),
            thread=u32(record, 28),
            correlation=u32(record, 32),
            result=u32(record, 36),
        )
    if kind == 38:
        out.update(
            type=u32(record, 4),
            start=u64(record, 8),
            end=u64(record, 16),
            correlation=u32(record, 24),
            context=u32(record, 28),
            stream=u32(record, 32),
            event=u32(record, 36),
        )
    if kind == 17:
        out.update(overhead_kind=u32(record, 4), start=u64(record, 24), end=u64(record, 32))
    if kind == 8:
        out.update(name=u64(record, 136), device=u32(record, 112))
    if kind == 37:
        out.update(context=u32(record, 4), stream=u32(record, 8))
    if kind == 36:
        out.update(
            correlation=u32(record, 4),
            context=u32(record, 8),
            stream=u32(record, 12),
            event=u32(record, 16),
        )
    return out


def records(path, version=130001):
    """All records of a recording as dictionaries, in file order."""
    return [
        fields(kind, record)
        for buffer in split_buffers(read_raw(path))
        for kind, record in split_records(buffer, version)
    ]


def names_path(path):
    for suffix in (".gz", ".cuptibuf"):
        if path.endswith(suffix):
            path = path[: -len(suffix)]
    return path + ".names"


def read_names(path):
    names = {}
    if not os.path.exists(path):
        return names
    with open(path, encoding="utf-8", errors="surrogateescape") as file:
        for line in file:
            pointer, _, name = line.rstrip("\n").partition("\t")
            names[int(pointer, 16)] = name
    return names


def union(intervals):
    total, last = 0, None
    holes = []
    for start, end in sorted(intervals):
        if last is None or start > last:
            if last is not None:
                holes.append(start - last)
            total += end - start
            last = end
        elif end > last:
            total += end - last
            last = end
        # else: inside what is counted already
    return total, holes


def _device(work, names):
    kernels = [r for r in work if r["kind"] == 10]
    spans = [(r["start"], r["end"]) for r in work]
    kernel_spans = [(r["start"], r["end"]) for r in kernels]
    busy, holes = union(spans)
    first, last = min(s for s, _ in spans), max(e for _, e in spans)
    by_name = collections.defaultdict(lambda: [0, 0])
    for r in kernels:
        entry = by_name[names.get(r["name"], "")]
        entry[0] += 1
        entry[1] += r["end"] - r["start"]
    overlaps, streams = 0, collections.defaultdict(list)
    for r in kernels:
        streams[(r["context"], r["stream"])].append((r["start"], r["end"]))
    for intervals in streams.values():
        intervals.sort()
        overlaps += sum(1 for a, b in zip(intervals, intervals[1:]) if b[0] < a[1])
    copies = [r for r in work if r["kind"] in (1, 22)]
    return {
        "kernel_count": len(kernels),
        "kernel_zero_length": sum(1 for s, e in kernel_spans if s == e),
        "copy_count": len(copies),
        "copy_bytes": sum(r["bytes"] for r in copies),
        "set_count": sum(1 for r in work if r["kind"] == 2),
        "copy_set_count": sum(1 for r in work if r["kind"] in (1, 2, 22)),
        "graph_count": sum(1 for r in work if r["kind"] == 51),
        "kernel_streams": len(streams),
        "kernel_same_stream_overlaps": overlaps,
        "first_start_ns": first,
        "last_end_ns": last,
        "span_ns": last - first,
        "kernel_sum_ns": sum(e - s for s, e in kernel_spans),
        "kernel_union_ns": union(kernel_spans)[0],
        "busy_union_ns": busy,
        "idle_ns": last - first - busy,
        "gaps": {
            label: {
                "count": sum(1 for h in holes if h >= least),
                "total_ns": sum(h for h in holes if h >= least),
            }
            for label, least in (("1ms", 1_000_000), ("10us", 10_000), ("1us", 1000))
        },
        "kernel_names": len(by_name),
        "top_kernels": [
            {"name": n, "count": c, "total_ns": t}
            for n, (c, t) in sorted(by_name.items(), key=lambda item: (-item[1][1], item[0]))[:5]
        ],
    }


def expected(path, version=130001):
    """What is in a recording: exact integers, the keys of expected.json (definitions in the
    README)."""
    raw, names = read_raw(path), read_names(names_path(path))
    buffers, all_records = [], []
    for buffer in split_buffers(raw):
        decoded = [fields(kind, record) for kind, record in split_records(buffer, version)]
        counts = collections.Counter(r["kind"] for r in decoded)
        buffers.append(
            {"bytes": len(buffer), "records": {KINDS[k]: counts[k] for k in sorted(counts)}}
        )
        all_records += decoded
    work = [r for r in all_records if r["kind"] in WORK]
    runtime = [r for r in all_records if r["kind"] == 5]
    driver = [r for r in all_records if r["kind"] == 4]
    correlations = {r["correlation"] for r in runtime}
    kernels = [r for r in work if r["kind"] == 10]
    counts = collections.Counter(r["kind"] for r in all_records)

    def grouped(kind, field, labels):
        groups = collections.defaultdict(lambda: {"count": 0, "total_ns": 0})
        for r in all_records:
            if r["kind"] == kind:
                group = groups["%d %s" % (r[field], labels.get(r[field], "?"))]
                group["count"] += 1
                group["total_ns"] += r["end"] - r["start"]
        return dict(sorted(groups.items(), key=lambda item: int(item[0].split()[0])))

    with open(path, "rb") as file:
        compressed = file.read()
    return {
        "names_file": os.path.basename(names_path(path)),
        "bytes": len(compressed),
        "sha256": hashlib.sha256(compressed).hexdigest(),
        "raw_sha256": hashlib.sha256(raw).hexdigest(),
        "format": "cupti-activity-buffers",
        "cupti_version": version,
        "raw_bytes": len(raw),
        "buffers": buffers,
        "records": len(all_records),
        "records_by_kind": {"%d %s" % (k, KINDS[k]): counts[k] for k in sorted(counts)},
        "device_names": sorted({names.get(r["name"], "") for r in all_records if r["kind"] == 8}),
        "processes": len({r["process"] for r in runtime + driver}),
        "api_threads": len({r["thread"] for r in runtime + driver}),
        "devices": {
            str(d): _device([r for r in work if r["device"] == d], names)
            for d in sorted({r["device"] for r in work})
        },
        "kernels_with_runtime_record": sum(1 for r in kernels if r["correlation"] in correlations),
        "kernels_without_runtime_record": sum(
            1 for r in kernels if r["correlation"] not in correlations
        ),
        "copies_sets_with_runtime_record": sum(
            1 for r in work if r["kind"] in (1, 2, 22) and r["correlation"] in correlations
        ),
        "unresolved_kernel_names": sum(1 for r in kernels if r["name"] not in names),
        "sync_by_type": grouped(38, "type", SYNC_TYPES),
        "overhead_by_kind": grouped(17, "overhead_kind", OVERHEAD_KINDS),
        "runtime_api_records": len(runtime),
        "runtime_api_distinct": len({r["cbid"] for r in runtime}),
        "driver_api_records": len(driver),
        "driver_api_distinct": len({r["cbid"] for r in driver}),
        "runtime_api_nonzero_return": sum(1 for r in runtime if r["result"] != 0),
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("command", choices=["expected", "dump"])
    parser.add_argument("file")
    parser.add_argument("--version", type=int, default=130001, choices=sorted(SIZES))
    options = parser.parse_args()
    if options.command == "expected":
        print(json.dumps(expected(options.file, options.version), indent=1))
        return
    for record in records(options.file, options.version):
        print(json.dumps(record))


if __name__ == "__main__":
    main()
