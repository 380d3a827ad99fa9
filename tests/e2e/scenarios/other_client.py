# SPDX-License-Identifier: Apache-2.0
# Copyright the gpuprobe authors.
"""Another client of CUPTI for a while, as torch.profiler is one: 20 kernels before, 20 for it, 20 after.

On the real clock. Prints {"kernels": [...]}: the correlation ids of the kernels that the client was given.
"""
import ctypes
import json
import os
import sys
from ctypes import POINTER, byref, c_size_t, c_uint32, c_void_p

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "sim"))
import recording  # noqa: E402
from gpusim import Gpu  # noqa: E402
from scenario import EXIT_CODE, us  # noqa: E402

CONCURRENT_KERNEL = 10
BUFFER_BYTES = 1 << 16
_REQUEST = ctypes.CFUNCTYPE(None, POINTER(c_void_p), POINTER(c_size_t), POINTER(c_size_t))
_COMPLETE = ctypes.CFUNCTYPE(None, c_void_p, c_uint32, c_void_p, c_size_t, c_size_t)


class Client:
    """Reaches CUPTI by name in the global scope, as a library that is linked with it does."""

    def __init__(self):
        self.cupti = ctypes.CDLL(None)
        self.buffers, self.kernels = {}, []
        self.callbacks = _REQUEST(self.request), _COMPLETE(self.complete)

    def call(self, name, *arguments):
        code = getattr(self.cupti, name)(*arguments)
        if code != 0:
            raise RuntimeError("%s returned %d" % (name, code))

    def request(self, data, size, max_records):
        buffer = ctypes.create_string_buffer(BUFFER_BYTES)
        self.buffers[ctypes.addressof(buffer)] = buffer
        data[0], size[0], max_records[0] = ctypes.addressof(buffer), BUFFER_BYTES, 0

    def complete(self, _context, _stream, data, _size, valid):
        content = self.buffers.pop(data).raw[:valid]
        records = [recording.fields(kind, record) for kind, record in recording.split_records(content)]
        self.kernels += [r["correlation"] for r in records if r["kind"] == CONCURRENT_KERNEL]

    def start(self):
        self.call("cuptiActivityRegisterCallbacks", *self.callbacks)
        self.call("cuptiActivityEnable", c_uint32(CONCURRENT_KERNEL))

    def stop(self):
        self.call("cuptiActivityDisable", c_uint32(CONCURRENT_KERNEL))
        self.call("cuptiActivityFlushAll", c_uint32(1))


def burst():
    gpu.host(us(5000))
    for _ in range(20):
        gpu.launch("a", us(20), stream)
    gpu.sync(stream)
    gpu.host(us(5000))


gpu = Gpu()
gpu.call("cuModuleLoadData", byref(c_void_p()), b"simulated")
stream, client = gpu.stream(), Client()
burst()
client.start()
burst()
client.stop()
burst()
print(json.dumps({"kernels": client.kernels}))
sys.exit(EXIT_CODE)
