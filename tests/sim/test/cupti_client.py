# SPDX-License-Identifier: Apache-2.0
# Copyright the gpuprobe authors.
"""A CUPTI client in a few lines of ctypes, for scenarios that need to misbehave or to look
closely."""

import ctypes
import threading
from ctypes import POINTER, byref, c_size_t, c_uint32, c_uint64, c_uint8, c_void_p

import recording

REQUESTED = ctypes.CFUNCTYPE(None, POINTER(c_void_p), POINTER(c_size_t), POINTER(c_size_t))
COMPLETED = ctypes.CFUNCTYPE(None, c_void_p, c_uint32, c_void_p, c_size_t, c_size_t)
TIMESTAMP = ctypes.CFUNCTYPE(c_uint64)
CALLBACK = ctypes.CFUNCTYPE(None, c_void_p, ctypes.c_int, c_uint32, c_void_p)
FORCED = 1


class Client:
    """Keeps every completed buffer's bytes in `completed`, with the completing thread's
    identifier."""

    def __init__(self, size=1 << 16, limit=None, version=130001):
        self.cupti = ctypes.CDLL("libcupti.so.13")
        self.size, self.limit, self.version = size, limit, version
        self.completed, self.requests, self.request_threads = [], 0, []
        self.on_completed = lambda: None
        self._buffers, self.requested_fn, self.completed_fn = (
            {},
            REQUESTED(self._request),
            COMPLETED(self._complete),
        )
        self.max_records = 0
        self.reuse_same_buffer = False
        self.dirty = False

    def start(self, *kinds):
        self.register()
        for kind in kinds:
            self.ok("cuptiActivityEnable", kind)
        return self

    def register(self):
        self.ok("cuptiActivityRegisterCallbacks", self.requested_fn, self.completed_fn)

    def code(self, name, *arguments):
        return getattr(self.cupti, name)(*arguments)

    def ok(self, name, *arguments):
        code = self.code(name, *arguments)
        assert code == 0, "%s returned %d" % (name, code)

    def _request(self, buffer, size, max_records):
        self.requests += 1
        self.request_threads.append(threading.get_native_id())
        size[0], max_records[0] = self.size, self.max_records
        if self.limit is not None and self.requests > self.limit:
            buffer[0] = None
            return
        if self.reuse_same_buffer and self._buffers:
            buffer[0] = next(iter(self._buffers))
            return
        memory = (c_uint64 * (self.size // 8))()
        if self.dirty:
            memory[len(memory) - 1] = 1
        buffer[0] = ctypes.addressof(memory)
        self._buffers[ctypes.addressof(memory)] = memory

    def _complete(self, _context, _stream, buffer, size, valid):
        self.completed.append(
            {
                "own": buffer in self._buffers,
                "size": size,
                "valid": valid,
                "thread": threading.get_native_id(),
                "data": ctypes.string_at(buffer, min(valid, size)),
            }
        )
        self.on_completed()

    def flush(self, forced=False):
        self.ok("cuptiActivityFlushAll", FORCED if forced else 0)

    def dropped(self):
        count = c_size_t()
        self.ok("cuptiActivityGetNumDroppedRecords", None, 0, byref(count))
        return count.value

    def timestamp(self):
        value = c_uint64()
        self.ok("cuptiGetTimestamp", byref(value))
        return value.value

    def set_attribute(self, attribute, value, kind=c_uint8):
        stored, size = kind(value), c_size_t(ctypes.sizeof(kind))
        return self.code("cuptiActivitySetAttribute", attribute, byref(size), byref(stored))

    def records(self, kind=None):
        found = []
        for buffer in self.completed:
            for k, record in recording.split_records(buffer["data"], self.version):
                if kind is None or k == kind:
                    found.append(recording.fields(k, record))
        return found

    def walk(self, data):
        """Kinds of the records as CUPTI's own iterator finds them, and the code that ended the
        walk."""
        memory = ctypes.create_string_buffer(data, len(data) + 8)
        record, kinds = c_void_p(), []
        while True:
            code = self.code(
                "cuptiActivityGetNextRecord", memory, c_size_t(len(data)), byref(record)
            )
            if code != 0:
                return kinds, code
            kinds.append(c_uint32.from_address(record.value).value)
