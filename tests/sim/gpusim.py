# SPDX-License-Identifier: Apache-2.0
# Copyright the gpuprobe authors.
"""Scenarios for the simulated GPU: a compact interface over its libcuda and libcudart by ctypes.

    from gpusim import Gpu
    gpu = Gpu()
    s = gpu.stream()
    gpu.launch("my_kernel", 20_000, stream=s)   # 20 us
    gpu.copy("htod", 1 << 20, stream=s)
    gpu.host(50_000)                            # the thread computes for 50 us
    gpu.sync(s)

Run it with tests/sim/run-sim, which puts the stand-ins on the library path. Times are
nanoseconds, sizes
bytes. Every call goes through the API that it names: the runtime's, or with api="driver" the
driver's.
A call that fails raises CudaError. Python 3.9 or later, no dependencies.
"""

import contextlib
import ctypes
import json
import os
import tempfile
from ctypes import byref, c_float, c_int, c_int64, c_size_t, c_uint, c_void_p

_COPY_KINDS = {"htod": 1, "dtoh": 2, "dtod": 3}  # enum cudaMemcpyKind
_HOST_FUNCTION = ctypes.CFUNCTYPE(None, c_void_p)


def _load(soname):
    try:
        return ctypes.CDLL(soname)
    except OSError:
        here = os.path.dirname(os.path.abspath(__file__))
        build = os.environ.get("GPUPROBE_BUILD_DIR", os.path.join(here, "..", "..", "build"))
        return ctypes.CDLL(os.path.join(build, "sim", "lib", soname))


class CudaError(RuntimeError):
    def __init__(self, call, code):
        super().__init__("%s returned %d" % (call, code))
        self.call, self.code = call, code


class _Dim3(ctypes.Structure):
    _fields_ = [("x", c_uint), ("y", c_uint), ("z", c_uint)]


class Stream:
    def __init__(self, gpu, handle):
        self.gpu, self.handle = gpu, handle

    def destroy(self):
        self.gpu.call("cudaStreamDestroy", self.handle)


class Event:
    def __init__(self, gpu, handle):
        self.gpu, self.handle = gpu, handle

    def record(self, stream=None):
        self.gpu.call("cudaEventRecord", self.handle, _handle(stream))
        return self

    def destroy(self):
        self.gpu.call("cudaEventDestroy", self.handle)


class Graph:
    """An instantiated graph; see Gpu.capture()."""

    def __init__(self, gpu):
        self.gpu, self.graph, self.executable = gpu, c_void_p(), c_void_p()

    def launch(self, stream=None):
        self.gpu.call("cudaGraphLaunch", self.executable, _handle(stream))

    def destroy(self):
        self.gpu.call("cudaGraphExecDestroy", self.executable)
        self.gpu.call("cudaGraphDestroy", self.graph)


def _handle(stream):
    return c_void_p() if stream is None else stream.handle


def _dim3(value):
    sizes = (value,) if isinstance(value, int) else tuple(value)
    return _Dim3(*(sizes + (1, 1, 1))[:3])


class Gpu:
    """One process's view of the simulated GPU. `settings`: see Gpu.set."""

    def __init__(self, device=None, settings=None, lazy=False):
        self.cuda = _load("libcuda.so.1")
        self.cudart = _load("libcudart.so.13")
        for name, result, arguments in (
            ("gpusim_now", c_int64, []),
            ("gpusim_advance", None, [c_int64]),
            ("gpusim_set", c_int, [ctypes.c_char_p, c_int64]),
            ("gpusim_get", c_int64, [ctypes.c_char_p]),
            ("gpusim_define_kernel", None, [ctypes.c_char_p, c_int64]),
            ("gpusim_next_duration", None, [c_int64]),
            ("gpusim_set_cost", None, [ctypes.c_char_p, c_int64]),
            ("gpusim_kernel", c_void_p, [ctypes.c_char_p]),
            ("gpusim_overhead", None, [ctypes.c_uint32, c_int64]),
            ("gpusim_write_truth_to", c_int, [ctypes.c_char_p]),
            ("gpusim_count", c_int64, [ctypes.c_char_p]),
            ("gpusim_violations", c_int64, []),
            ("gpusim_violation", ctypes.c_char_p, [c_int64]),
        ):
            function = getattr(self.cuda, name)
            function.restype, function.argtypes = result, arguments
        self.cudart.cudaLaunchKernel.argtypes = [
            c_void_p,
            _Dim3,
            _Dim3,
            c_void_p,
            c_size_t,
            c_void_p,
        ]
        self._functions, self._module, self._keep = {}, c_void_p(), []
        self._scratch = {}
        for key, value in (settings or {}).items():
            self.set(key, value)
        if device is not None:
            self.call("cudaSetDevice", c_int(device))
        elif not lazy:
            self.call("cudaFree", c_void_p())  # initialises the runtime

    # ---- plumbing ----

    def call(self, name, *arguments):
        library = self.cudart if name.startswith("cuda") else self.cuda
        code = getattr(library, name)(*arguments)
        if code != 0:
            raise CudaError(name, code)

    def try_call(self, name, *arguments):
        """The result code instead of an exception."""
        library = self.cudart if name.startswith("cuda") else self.cuda
        return getattr(library, name)(*arguments)

    # ---- script ----

    def set(self, key, value):
        if self.cuda.gpusim_set(key.encode(), value) != 0:
            raise KeyError(key)

    def cost(self, api_name, ns):
        self.cuda.gpusim_set_cost(api_name.encode(), ns)

    def kernel(self, name, duration_ns):
        self.cuda.gpusim_define_kernel(name.encode(), duration_ns)

    def host(self, ns):
        """The calling thread computes: moves the virtual clock, or spins on the real one."""
        self.cuda.gpusim_advance(int(ns))

    def overhead(self, kind, ns):
        """CUPTI or the driver is busy with itself (kind: CUpti_ActivityOverheadKind)."""
        self.cuda.gpusim_overhead(kind, ns)

    def now(self):
        return self.cuda.gpusim_now()

    # ---- objects ----

    def stream(self, blocking=False, priority=0):
        handle = c_void_p()
        self.call(
            "cudaStreamCreateWithPriority",
            byref(handle),
            c_uint(0 if blocking else 1),
            c_int(priority),
        )
        return Stream(self, handle)

    def event(self, timing=True):
        handle = c_void_p()
        self.call("cudaEventCreateWithFlags", byref(handle), c_uint(0 if timing else 2))
        return Event(self, handle)

    def alloc(self, nbytes):
        pointer = c_void_p()
        self.call("cudaMalloc", byref(pointer), c_size_t(nbytes))
        return pointer

    def free(self, pointer):
        self.call("cudaFree", pointer)

    def alloc_host(self, nbytes):
        pointer = c_void_p()
        self.call("cudaMallocHost", byref(pointer), c_size_t(nbytes))
        return pointer

    def free_host(self, pointer):
        self.call("cudaFreeHost", pointer)

    # ---- work ----

    def launch(self, name, duration_ns=None, stream=None, grid=1, block=32, api="runtime"):
        if duration_ns is not None:
            self.cuda.gpusim_next_duration(duration_ns)
        if api == "runtime":
            symbol = self.cuda.gpusim_kernel(name.encode())
            self.call(
                "cudaLaunchKernel", symbol, _dim3(grid), _dim3(block), None, 0, _handle(stream)
            )
            return
        g, b = _dim3(grid), _dim3(block)
        self.call(
            "cuLaunchKernel",
            self._function(name),
            g.x,
            g.y,
            g.z,
            b.x,
            b.y,
            b.z,
            0,
            _handle(stream),
            None,
            None,
        )

    def _function(self, name):
        if name not in self._functions:
            if not self._module:
                self.call("cuModuleLoadData", byref(self._module), b"simulated")
            function = c_void_p()
            self.call("cuModuleGetFunction", byref(function), self._module, name.encode())
            self._functions[name] = function
        return self._functions[name]

    def _buffer(self, place, nbytes):
        """A buffer of at least this size for copies whose content does not matter."""
        have = self._scratch.get(place)
        if have is None or have[0] < nbytes:
            if place == "pageable":
                pointer = ctypes.create_string_buffer(
                    min(nbytes, self.cuda.gpusim_get(b"copy_data_limit_bytes"))
                )
                self._keep.append(pointer)
                pointer = ctypes.cast(pointer, c_void_p)
            else:
                pointer = self.alloc_host(nbytes) if place == "pinned" else self.alloc(nbytes)
            self._scratch[place] = have = (nbytes, pointer)
        return have[1]

    def prepare_copies(self, nbytes):
        """Allocates what copies up to this size need, so that no allocation falls between them."""
        for place in ("device", "device2", "pinned", "pageable"):
            self._buffer(place, nbytes)

    def copy(self, kind, nbytes, stream=None, pinned=True, blocking=False, duration_ns=None):
        """kind: htod, dtoh, dtod. The content is of no interest; see memcpy for real pointers."""
        host = self._buffer("pinned" if pinned else "pageable", nbytes) if kind != "dtod" else None
        device = self._buffer("device", nbytes)
        to, source = {"htod": (device, host), "dtoh": (host, device)}.get(
            kind, (self._buffer("device2", nbytes) if kind == "dtod" else None, device)
        )
        if duration_ns is not None:
            self.cuda.gpusim_next_duration(duration_ns)
        self.memcpy(to, source, nbytes, kind, stream, blocking)

    def memcpy(self, to, source, nbytes, kind, stream=None, blocking=False):
        if blocking:
            self.call("cudaMemcpy", to, source, c_size_t(nbytes), c_int(_COPY_KINDS[kind]))
        else:
            self.call(
                "cudaMemcpyAsync",
                to,
                source,
                c_size_t(nbytes),
                c_int(_COPY_KINDS[kind]),
                _handle(stream),
            )

    def copy_peer(self, nbytes, to_device, from_device, stream=None, duration_ns=None):
        if duration_ns is not None:
            self.cuda.gpusim_next_duration(duration_ns)
        self.call(
            "cudaMemcpyPeerAsync",
            c_void_p(),
            c_int(to_device),
            c_void_p(),
            c_int(from_device),
            c_size_t(nbytes),
            _handle(stream),
        )

    def memset(self, nbytes, stream=None, value=0, duration_ns=None):
        device = self._buffer("device", nbytes)
        if duration_ns is not None:
            self.cuda.gpusim_next_duration(duration_ns)
        self.call("cudaMemsetAsync", device, c_int(value), c_size_t(nbytes), _handle(stream))

    def host_function(self, function, stream=None):
        callback = _HOST_FUNCTION(lambda _: function())
        self._keep.append(callback)
        self.call("cudaLaunchHostFunc", _handle(stream), callback, c_void_p())

    @contextlib.contextmanager
    def capture(self, stream):
        """with gpu.capture(s) as graph: launches on s;  then graph.launch(s)"""
        graph = Graph(self)
        self.call("cudaStreamBeginCapture", stream.handle, c_int(0))
        yield graph
        self.call("cudaStreamEndCapture", stream.handle, byref(graph.graph))
        self.call(
            "cudaGraphInstantiate", byref(graph.executable), graph.graph, ctypes.c_ulonglong(0)
        )

    # ---- waiting ----

    def sync(self, what=None):
        """Blocks for a stream, an event, or (None) the whole device."""
        if isinstance(what, Stream):
            self.call("cudaStreamSynchronize", what.handle)
        elif isinstance(what, Event):
            self.call("cudaEventSynchronize", what.handle)
        else:
            self.call("cudaDeviceSynchronize")

    def sync_default_stream(self):
        self.call("cudaStreamSynchronize", c_void_p())

    def wait(self, stream, event):
        """The stream waits for the event; the host does not."""
        self.call("cudaStreamWaitEvent", _handle(stream), event.handle, c_uint(0))

    def is_done(self, what):
        name = "cudaStreamQuery" if isinstance(what, Stream) else "cudaEventQuery"
        code = self.try_call(name, what.handle)
        if code not in (0, 600):
            raise CudaError(name, code)
        return code == 0

    def elapsed_ms(self, start, end):
        ms = c_float()
        self.call("cudaEventElapsedTime", byref(ms), start.handle, end.handle)
        return ms.value

    def chatter(self, n=1):
        """What a framework does between useful calls."""
        device = c_int()
        for _ in range(n):
            self.call("cudaGetDevice", byref(device))
            self.cudart.cudaGetLastError()

    # ---- truth ----

    def truth(self):
        """What really happened; lists are filled only with GPUSIM_TRUTH or GPUSIM_TRUTH_DETAIL
        set."""
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "truth.json")
            if self.cuda.gpusim_write_truth_to(path.encode()) != 0:
                raise OSError("cannot write " + path)
            with open(path, encoding="utf-8") as file:
                return json.load(file)

    def count(self, what):
        return self.cuda.gpusim_count(what.encode())

    def violations(self):
        return [
            self.cuda.gpusim_violation(i).decode() for i in range(self.cuda.gpusim_violations())
        ]

    def replay(self):
        return self.cuda.gpusim_replay()
