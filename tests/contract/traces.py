# SPDX-License-Identifier: Apache-2.0
"""Reads trace files on its own: libzstd over ctypes and the wire format of protobuf, nothing of proto/'s
reader. What a third party would write from FORMAT.md; so a mistake that writer and reader share shows."""

import collections
import ctypes
import ctypes.util
import pathlib

ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
MAX_FRAME_BYTES = 16 << 20

# Field numbers of Packet in gpuprobe.proto.
KERNELS, API, COPIES, SETS, SYNCS, GRAPHS = 1, 2, 3, 4, 5, 6
DICTIONARY, FRAME_HEADER, PROCESS, CAPTURE, LOSS, BLIND, COST, END = 9, 10, 16, 17, 18, 19, 20, 21
HOST_SAMPLES, USAGE = 23, 24
COUNT_FIELD = {KERNELS: 13, API: 8, COPIES: 13, SETS: 13, SYNCS: 9, GRAPHS: 13}

# Packet-level Timing.
UNFINISHED = 2

# LossCause in ringbuf/records.h.
POOL_EXHAUSTED, CUPTI_DROPPED, WRITE_FAILED, SIZE_CAP = 2, 1, 7, 8


def _load_zstd():
    library = ctypes.CDLL(ctypes.util.find_library("zstd") or "libzstd.so.1")
    for name in ("ZSTD_findFrameCompressedSize", "ZSTD_decompress"):
        getattr(library, name).restype = ctypes.c_size_t
    library.ZSTD_getFrameContentSize.restype = ctypes.c_ulonglong
    return library


_zstd = _load_zstd()


def _varint(data, at):
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7


def fields(data):
    """(number, value) of a message: integers for varints and fixed, bytes for the rest."""
    at, found = 0, []
    while at < len(data):
        key, at = _varint(data, at)
        number, wire = key >> 3, key & 7
        if wire == 0:
            value, at = _varint(data, at)
        elif wire == 1:
            value, at = int.from_bytes(data[at:at + 8], "little"), at + 8
        elif wire == 2:
            length, at = _varint(data, at)
            value, at = bytes(data[at:at + length]), at + length
            if len(value) != length:
                raise ValueError("message is cut")
        elif wire == 5:
            value, at = int.from_bytes(data[at:at + 4], "little"), at + 4
        else:
            raise ValueError(f"wire type {wire}")
        found.append((number, value))
    return found


def one(message, number, otherwise=0):
    """The last value of a field, as protobuf has it."""
    values = [v for n, v in fields(message) if n == number]
    return values[-1] if values else otherwise


def text(message, number):
    return one(message, number, b"").decode()


def packed(message, number):
    values, at, data = [], 0, one(message, number, b"")
    while at < len(data):
        value, at = _varint(data, at)
        values.append(value)
    return values


def signed(value):
    return value - (1 << 64) if value >= 1 << 63 else value


class Trace:
    """One file. `packets`: by field number, in file order; `damage`: (offset, what) of bytes that are no
    healthy frame; an unfinished last frame is `torn` alone."""

    def __init__(self, path):
        self.path = pathlib.Path(path)
        self.packets = collections.defaultdict(list)
        self.headers, self.damage, self.torn = [], [], 0
        self._read(self.path.read_bytes())

    def _read(self, data):
        at = 0
        while at < len(data):
            view = data[at:]
            if view[:4] != ZSTD_MAGIC[:len(view[:4])]:
                self.damage.append((at, "no frame"))
                return
            size = _zstd.ZSTD_findFrameCompressedSize(view, ctypes.c_size_t(len(view)))
            if size > len(view):
                self.torn = len(view)
                return
            content = _zstd.ZSTD_getFrameContentSize(view[:size], ctypes.c_size_t(size))
            if content > MAX_FRAME_BYTES:
                self.damage.append((at, f"content size {content}"))
                return
            out = ctypes.create_string_buffer(max(content, 1))
            done = _zstd.ZSTD_decompress(out, ctypes.c_size_t(content), view[:size], ctypes.c_size_t(size))
            if done != content:
                self.damage.append((at, "does not decompress"))
            else:
                self._take(out.raw[:content])
            at += size

    def _take(self, message):
        for number, packet in fields(message):
            if number != 1:
                continue
            for kind, payload in fields(packet):
                self.packets[kind].append(payload)
                if kind == FRAME_HEADER:
                    self.headers.append({"file_id": one(payload, 2), "sequence": one(payload, 3),
                                         "records": one(payload, 7), "written_ns": signed(one(payload, 9)),
                                         "flush_period_ms": one(payload, 10)})

    def count(self, kind):
        return sum(one(batch, COUNT_FIELD[kind]) for batch in self.packets[kind])

    @property
    def kernels(self):
        return self.count(KERNELS)

    @property
    def unfinished_kernels(self):
        """Kernels that a forced flush returned while they ran."""
        return sum(one(batch, 13) for batch in self.packets[KERNELS] if one(batch, 12) == UNFINISHED)

    @property
    def records(self):
        return sum(header["records"] for header in self.headers)

    @property
    def sequence_is_whole(self):
        return [header["sequence"] for header in self.headers] == list(range(len(self.headers)))

    @property
    def is_healthy(self):
        """Readable from end to end. A process that is killed may leave an unfinished last frame, or, in its
        first millisecond, nothing in the file."""
        return not self.damage and self.sequence_is_whole

    @property
    def is_closed(self):
        return bool(self.packets[END])

    @property
    def end_reason(self):
        return text(self.packets[END][-1], 1) if self.is_closed else None

    @property
    def pid(self):
        return one(self.packets[PROCESS][-1], 1)

    @property
    def door(self):
        return text(self.packets[CAPTURE][-1], 2)

    @property
    def off_reason(self):
        return text(self.packets[CAPTURE][-1], 9) if self.packets[CAPTURE] else ""

    @property
    def warnings(self):
        return [value.decode() for capture in self.packets[CAPTURE] for n, value in fields(capture) if n == 10]

    @property
    def settings(self):
        """The settings in force, as text."""
        return {text(value, 1): text(value, 2) for capture in self.packets[CAPTURE]
                for number, value in fields(capture) if number == 6}

    def outcomes(self, field=7):
        """Name and result of every activity kind (7) or attribute (8) that was asked for."""
        found = {}
        for capture in self.packets[CAPTURE]:
            for number, value in fields(capture):
                if number == field:
                    result = one(value, 2)
                    found[text(value, 1)] = signed(result)
        return found

    @property
    def names(self):
        """Every name in the dictionaries: kernels and API calls."""
        return {value.decode() for dictionary in self.packets[DICTIONARY]
                for number, value in fields(dictionary) if number == 1}

    @property
    def losses(self):
        """Lost records by cause."""
        found = collections.Counter()
        for loss in self.packets[LOSS]:
            found[one(loss, 1)] += one(loss, 2)
        return found

    @property
    def blind_periods(self):
        """(begin, end, who, reason), each once: open ones are repeated frame by frame until they end."""
        found = {}
        for blind in self.packets[BLIND]:
            begin, end = signed(one(blind, 1)), signed(one(blind, 2))
            if end or begin not in found:
                found[begin] = (begin, end, text(blind, 3), text(blind, 4))
        return [found[begin] for begin in sorted(found)]


def in_folder(folder):
    """All traces below a folder, by name."""
    return [Trace(path) for path in sorted(pathlib.Path(folder).rglob("*.gpuprobe"))]
