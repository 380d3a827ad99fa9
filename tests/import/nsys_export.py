#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
# Copyright the gpuprobe authors.
"""Databases with the tables that `nsys export --type sqlite` writes, small enough to reckon with by hand.

    nsys_export.py FOLDER     writes one of each kind (seeds for the fuzzer)
"""
import os
import sqlite3
import sys

VM = 1 << 48
START = 1_000_000  # of the first kernel

OPERATION = "start end deviceId contextId greenContextId streamId correlationId globalPid"
TABLES = {
    "StringIds": "id value",
    "ThreadNames": "nameId priority globalTid",
    "PROCESSES": "globalPid pid name",
    "TARGET_INFO_SYSTEM_ENV": "globalVid devStateName name nameEnum value",
    "TARGET_INFO_SESSION_START_TIME": "utcEpochNs utcTime localTime systemClockNs",
    "TARGET_INFO_GPU": "vmId id name busLocation totalMemory smCount uuid cuDevice",
    "TARGET_INFO_CUDA_DEVICE": "gpuId cudaId pid uuid numMultiprocessors",
    "TARGET_INFO_CUDA_CONTEXT_INFO": "nullStreamId hwId vmId processId deviceId contextId",
    "META_DATA_EXPORT": "name value",
    "META_DATA_CAPTURE": "name value",
    "DIAGNOSTIC_EVENT": "timestamp timestampType source severity text globalPid",
    "CUPTI_ACTIVITY_KIND_RUNTIME": "start end eventClass globalTid correlationId nameId returnValue callchainId",
    "CUPTI_ACTIVITY_KIND_KERNEL": OPERATION + " demangledName shortName mangledName registersPerThread "
        "gridX gridY gridZ blockX blockY blockZ staticSharedMemory dynamicSharedMemory localMemoryPerThread "
        "graphNodeId graphId clusterX clusterY clusterZ",
    "CUPTI_ACTIVITY_KIND_MEMCPY": OPERATION + " bytes copyKind srcKind dstKind srcDeviceId dstDeviceId graphNodeId",
    "CUPTI_ACTIVITY_KIND_MEMSET": OPERATION + " value bytes graphNodeId memKind",
    "CUPTI_ACTIVITY_KIND_GRAPH_TRACE": OPERATION + " graphId graphExecId",
    "CUPTI_ACTIVITY_KIND_SYNCHRONIZATION": OPERATION + " deprecatedSyncType syncType eventId eventSyncId",
    "CUPTI_ACTIVITY_KIND_CUDA_EVENT": "timestamp deviceId contextId greenContextId streamId correlationId globalPid "
        "eventId eventSyncId",
    "CUPTI_ACTIVITY_KIND_OVERHEAD": "start end eventClass globalTid correlationId nameId overheadType",
    "NVTX_EVENTS": "start end eventType rangeId category color text globalTid endGlobalTid textId domainId",
    "PROFILER_OVERHEAD": "start end globalTid nameId overheadType",
}
TEXTS = {"value", "name", "uuid", "text", "utcTime", "localTime", "devStateName", "busLocation"}
RUNTIME, DRIVER = 0, 1  # eventClass
PUSH_POP, START_END, DOMAIN = 59, 60, 75  # eventType


def pid_of(pid):
    return VM | pid << 24


def columns_of(table):
    return TABLES[table].split()


class Export:
    """Rows by table. What is changed in `rows` and `columns` before write() is in the file."""

    def __init__(self):
        self.columns = {table: columns_of(table) for table in TABLES}
        self.rows = {table: [] for table in TABLES}
        self.strings = {}
        self.meta("META_DATA_EXPORT", EXPORT_PRODUCT_VERSION="2026.2.1.210", EXPORT_SCHEMA_VERSION="3.25.0")
        self.meta("META_DATA_CAPTURE", **{"CUDA_GRAPH_TRACE_OPTIONS:MODE": "Graph"})
        for number, (name, value) in enumerate((("Hostname", "box"), ("CudaDriverVersion", "13000"))):
            self.add("TARGET_INFO_SYSTEM_ENV", globalVid=VM, devStateName="Local", name=name, nameEnum=number,
                     value=value)
        self.add("TARGET_INFO_SESSION_START_TIME", utcEpochNs=1_800_000_000_000_000_000, systemClockNs=5)

    def add(self, table, **values):
        unknown = set(values) - set(columns_of(table))
        if unknown:
            raise KeyError(unknown)
        self.rows[table].append(values)
        return values

    def meta(self, table, **values):
        for name, value in values.items():
            self.add(table, name=name, value=value)

    def string(self, text):
        if text not in self.strings:
            self.strings[text] = len(self.strings) + 1
            self.add("StringIds", id=self.strings[text], value=text)
        return self.strings[text]

    def process(self, pid, name="python3", device=0, gpu=None, context=1):
        self.add("PROCESSES", globalPid=pid_of(pid), pid=pid, name=name)
        self.add("ThreadNames", nameId=self.string(name + " main"), priority=20, globalTid=pid_of(pid) | pid)
        gpu = device if gpu is None else gpu
        self.add("TARGET_INFO_CUDA_DEVICE", gpuId=gpu, cudaId=device, pid=pid, numMultiprocessors=132)
        self.add("TARGET_INFO_CUDA_CONTEXT_INFO", nullStreamId=7, hwId=0, vmId=1, processId=pid, deviceId=device,
                 contextId=context)

    def gpu(self, number, name="NVIDIA H200"):
        self.add("TARGET_INFO_GPU", vmId=VM, id=number, name=name, totalMemory=150_000_000_000, smCount=132,
                 uuid="00000000-0000-0000-0000-%012d" % number, cuDevice=number)

    def call(self, pid, name, start, end, correlation, driver=False, tid=None, result=0):
        self.add("CUPTI_ACTIVITY_KIND_RUNTIME", start=start, end=end, eventClass=DRIVER if driver else RUNTIME,
                 globalTid=pid_of(pid) | (tid or pid), correlationId=correlation, nameId=self.string(name),
                 returnValue=result)

    def operation(self, table, pid, start, end, correlation, device=0, stream=7, context=1, **values):
        return self.add("CUPTI_ACTIVITY_KIND_" + table, start=start, end=end, deviceId=device, contextId=context,
                        greenContextId=0, streamId=stream, correlationId=correlation, globalPid=pid_of(pid), **values)

    def kernel(self, pid, start, end, correlation, name="void work<int>(float*)", **values):
        shape = dict(registersPerThread=32, gridX=100, gridY=1, gridZ=1, blockX=128, blockY=1, blockZ=1,
                     staticSharedMemory=0, dynamicSharedMemory=0, localMemoryPerThread=0, clusterX=0, clusterY=0,
                     clusterZ=0)
        shape.update(values)
        return self.operation("KERNEL", pid, start, end, correlation, demangledName=self.string(name),
                              shortName=self.string(name.split("<")[0]), mangledName=self.string("_Z" + name), **shape)

    def nvtx(self, pid, start, end, text=None, kind=PUSH_POP, registered=None, domain=0):
        self.add("NVTX_EVENTS", start=start, end=end, eventType=kind, text=text, globalTid=pid_of(pid) | pid,
                 textId=None if registered is None else self.string(registered), domainId=domain)

    def write(self, path, page_size=4096, types=None, views=()):
        """`types`: declared type by column; views: tables to be written under another name, seen through a view."""
        if os.path.exists(path):
            os.remove(path)
        database = sqlite3.connect(path)
        database.execute("PRAGMA page_size=%d" % page_size)
        for table, columns in self.columns.items():
            if not columns:
                continue
            stored = table + "_STORED" if table in views else table
            declared = ", ".join('"%s" %s' % (c, (types or {}).get(c, "TEXT" if c in TEXTS else "INTEGER"))
                                 for c in columns)
            database.execute('CREATE TABLE "%s" (%s)' % (stored, declared))
            origin = columns_of(self.origin(table))
            kept = [c for c in columns if c in origin]
            database.executemany(
                'INSERT INTO "%s" (%s) VALUES (%s)' % (stored, ", ".join('"%s"' % c for c in kept),
                                                       ", ".join("?" * len(kept))),
                [[row.get(c) for c in kept] for row in self.rows[table]])
            if table in views:
                database.execute('CREATE VIEW "%s" AS SELECT * FROM "%s"' % (table, stored))
        database.commit()
        database.close()
        return path

    @staticmethod
    def origin(table):
        """The table of TABLES whose name `table` carries with a version, in other letters, or as it is."""
        return max((t for t in TABLES if table.lower().startswith(t.lower())), key=len)

    def rename(self, table, name):
        self.columns = {name if t == table else t: c for t, c in self.columns.items()}
        self.rows[name] = self.rows.pop(table)

    def drop_table(self, table):
        self.columns[table] = []

    def drop_column(self, table, column):
        self.columns[table] = [c for c in self.columns[table] if c != column]


def training():
    """Two processes with the same correlation ids, one GPU each. Times of process 100, in us after START:
    kernel 0-100, kernel 150-250 (its launch ends at 140, after a wait from 20 to 110), copy 260-280, set 280-281,
    graph 300-400. Process 200: the same 7 us later on GPU 1, without the graph.
    """
    export = Export()
    for pid, device, context, shift in ((100, 0, 1, 0), (200, 1, 2, 7)):
        export.process(pid, device=device, context=context)
        export.gpu(device)

        def at(us, shift=shift):
            return START + 1000 * (us + shift)
        where = dict(device=device, context=context)
        export.call(pid, "cudaLaunchKernel_v7000", at(-10), at(-5), 1)
        export.call(pid, "cuLaunchKernelEx", at(-9), at(-6), 1, driver=True)
        export.kernel(pid, at(0), at(100), 1, **where)
        export.call(pid, "cudaEventRecord_v3020", at(12), at(13), 2)
        export.add("CUPTI_ACTIVITY_KIND_CUDA_EVENT", timestamp=0, deviceId=0, contextId=context, streamId=7,
                   correlationId=2, globalPid=pid_of(pid), eventId=5, eventSyncId=50)
        export.call(pid, "cudaStreamSynchronize_v3020", at(20), at(110), 3)
        # The device is 0 in such rows, whichever it was.
        export.operation("SYNCHRONIZATION", pid, at(21), at(109), 3, device=0, context=context, syncType=3,
                         eventId=0xffffffff, eventSyncId=0)
        export.call(pid, "cudaLaunchKernel_ptsz_v7000", at(130), at(140), 4)
        export.kernel(pid, at(150), at(250), 4, name="ncclDevKernel_AllReduce_Sum_f32_RING_LL(int)", **where)
        export.call(pid, "cudaMemcpyAsync_v3020", at(141), at(145), 5)
        export.operation("MEMCPY", pid, at(260), at(280), 5, bytes=4096, copyKind=1, srcKind=1, dstKind=2, **where)
        export.call(pid, "cudaMemsetAsync_v3020", at(146), at(147), 6)
        export.operation("MEMSET", pid, at(280), at(281), 6, value=0, bytes=64, memKind=2, **where)
        if device == 0:
            export.call(pid, "cudaGraphLaunch_v10000", at(148), at(149), 7)
            export.operation("GRAPH_TRACE", pid, at(300), at(400), 7, graphId=11, graphExecId=12, **where)
        export.add("CUPTI_ACTIVITY_KIND_OVERHEAD", start=at(-8), end=at(-7), eventClass=103, correlationId=1,
                   globalTid=pid_of(pid) | pid, nameId=export.string("Lazy Function Loading"), overheadType=7)
        export.add("PROFILER_OVERHEAD", start=at(141), end=at(142), globalTid=pid_of(pid) | pid,
                   nameId=export.string("CUPTI Buffer flush"), overheadType=3)
    export.add("DIAGNOSTIC_EVENT", timestamp=0, timestampType=1, source=1, severity=2, text="something is odd",
               globalPid=VM)
    return export


def marked_steps(mark):
    """Five steps of three kernels each of 5 us, every 100 us, 1 ms behind their submission; mark(export, step, begin,
    end) adds the range around the submissions.
    """
    export = Export()
    export.process(100)
    export.gpu(0)
    for step in range(5):
        begin = START + 100_000 * step
        for k in range(3):
            number = 3 * step + k + 1
            export.call(100, "cudaLaunchKernel_v7000", begin + 2000 * k, begin + 2000 * k + 1000, number)
            export.kernel(100, begin + 1_000_000 + 10_000 * k, begin + 1_005_000 + 10_000 * k, number,
                          name="kernel_%s" % "abcdefghijklmno"[number - 1])
        mark(export, step, begin, begin + 20_000)
    return export


def many_kernels(count):
    """One process, one stream, a kernel of 5 us every 10 us."""
    export = Export()
    export.process(300)
    export.gpu(0)
    for i in range(count):
        at = START + 10_000 * i
        export.call(300, "cudaLaunchKernel_v7000", at - 3000, at - 1000, i + 1)
        export.kernel(300, at, at + 5000, i + 1)
    return export


def main(folder):
    training().write(os.path.join(folder, "training.sqlite"), page_size=512)
    many_kernels(20).write(os.path.join(folder, "kernels.sqlite"), page_size=512)
    training().write(os.path.join(folder, "views.sqlite"), page_size=512,
                     views=("CUPTI_ACTIVITY_KIND_KERNEL", "StringIds"))


if __name__ == "__main__":
    main(sys.argv[1])
