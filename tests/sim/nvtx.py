# SPDX-License-Identifier: Apache-2.0
# Copyright the gpuprobe authors.
"""A module that uses NVTX, as its header-only library (v3) makes one of every module that includes it: at the
first call the library that NVTX_INJECTION64_PATH names is opened and given the table of the module's functions,
which do nothing until a tool has put its own there.

    nvtx = Nvtx()
    nvtx.push("step 1"); nvtx.pop()
    i = nvtx.start("request"); nvtx.end(i)
    nvtx.push("all_reduce", domain=nvtx.domain("NCCL"))
"""
import ctypes
import os
from ctypes import c_char_p, c_int, c_uint, c_uint16, c_uint32, c_uint64, c_void_p

CORE, CORE2 = 1, 5
# Places in the tables: (module, index, result, arguments).
_FUNCTIONS = {
    "mark": (CORE, 2, None, (c_char_p,)),
    "start": (CORE, 5, c_uint64, (c_char_p,)),
    "end": (CORE, 7, None, (c_uint64,)),
    "push": (CORE, 9, c_int, (c_char_p,)),
    "pop": (CORE, 11, c_int, ()),
    "domain_push": (CORE2, 4, c_int, (c_void_p, c_void_p)),
    "domain_pop": (CORE2, 5, c_int, (c_void_p,)),
    "domain_create": (CORE2, 12, c_void_p, (c_char_p,)),
}
_SIZES = {CORE: 16, CORE2: 16}
_GET_MODULE = ctypes.CFUNCTYPE(c_int, c_int, ctypes.POINTER(c_void_p), ctypes.POINTER(c_uint))
_GET_TABLE = ctypes.CFUNCTYPE(c_void_p, c_uint32)


class _Callbacks(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("module", _GET_MODULE)]


class _Event(ctypes.Structure):
    _fields_ = [("version", c_uint16), ("size", c_uint16), ("category", c_uint32), ("color_type", c_int),
                ("color", c_uint32), ("payload_type", c_int), ("reserved", c_int), ("payload", c_uint64),
                ("message_type", c_int), ("message", c_char_p), ("category2", c_uint32)]


class Nvtx:
    def __init__(self):
        self.attached, self._functions = None, {}
        self._pointers = {m: (c_void_p * n)() for m, n in _SIZES.items()}
        self._tables = {m: (c_void_p * n)(*[ctypes.addressof(self._pointers[m]) + 8 * i for i in range(n)])
                        for m, n in _SIZES.items()}
        self._callbacks = _Callbacks(ctypes.sizeof(_Callbacks), _GET_MODULE(self._module))
        self._get_table = _GET_TABLE(lambda table: ctypes.addressof(self._callbacks) if table == 1 else None)

    def _module(self, module, table, count):
        if module not in self._tables:
            return 0
        table[0], count[0] = ctypes.addressof(self._tables[module]), _SIZES[module]
        return 1

    def _attach(self):
        self.attached = False
        path = os.environ.get("NVTX_INJECTION64_PATH")
        if not path:
            return
        try:
            initialise = ctypes.CDLL(path).InitializeInjectionNvtx2
        except (OSError, AttributeError):
            return
        initialise.argtypes = [_GET_TABLE]
        self.attached = initialise(self._get_table) == 1

    def _call(self, name, *arguments):
        if self.attached is None:
            self._attach()
        module, index, result, types = _FUNCTIONS[name]
        address = self._pointers[module][index]  # a tool may put it there at any time
        if address not in self._functions:
            self._functions[address] = ctypes.CFUNCTYPE(result, *types)(address) if address else None
        function = self._functions[address]
        return function(*arguments) if function else None

    def mark(self, name):
        self._call("mark", name.encode())

    def start(self, name):
        return self._call("start", name.encode()) or 0

    def end(self, identifier):
        self._call("end", identifier)

    def domain(self, name):
        return self._call("domain_create", name.encode())

    def push(self, name, domain=None):
        if domain is None:
            return self._call("push", name.encode())
        event = _Event(version=3, size=ctypes.sizeof(_Event), message_type=1, message=name.encode())
        return self._call("domain_push", domain, ctypes.addressof(event))

    def pop(self, domain=None):
        return self._call("pop") if domain is None else self._call("domain_pop", domain)
