# SPDX-License-Identifier: Apache-2.0
# Copyright the gpuprobe authors.
"""What the scenarios share: round numbers for every call, so that a person can work out the gaps by hand.

On the virtual clock a launch takes 5 us (its kernel starts 5 us after the call returned, if its stream is
free), a graph launch 10 us, a switch of the device or any other call 2 us, plus what it waits for; taking
device memory 51 us, giving it back 11 us, loading a module 400 us. Kernels take what the scenario says.
"""
import os
import sys

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "sim"))
from gpusim import Gpu  # noqa: E402

EXIT_CODE = 23  # the host's own; it has to come out unchanged

_US = 1_000
_COSTS_US = {
    "cudaLaunchKernel": 1, "cuLaunchKernel": 4,
    "cudaGraphLaunch": 1, "cuGraphLaunch": 9,
    "cudaStreamSynchronize": 1, "cuStreamSynchronize": 1,
    "cudaDeviceSynchronize": 1, "cuCtxSynchronize": 1,
    "cudaEventSynchronize": 1, "cuEventSynchronize": 1,
    "cudaEventRecord": 1, "cuEventRecord": 1,
    "cudaStreamWaitEvent": 1, "cuStreamWaitEvent": 1,
    "cudaLaunchHostFunc": 1, "cuLaunchHostFunc": 1,
    "cudaMemcpyAsync": 1, "cuMemcpyHtoDAsync": 1, "cuMemcpyDtoHAsync": 1, "cuMemcpyDtoDAsync": 1,
    "cudaMemsetAsync": 1, "cuMemsetD8Async": 1,
    "cudaMalloc": 1, "cuMemAlloc": 50, "cudaFree": 1, "cuMemFree": 10,
    "cuModuleLoadData": 400,
    # cudaSetDevice asks for the count and makes the context current: 2 us together.
    "cudaSetDevice": 1, "cuDeviceGetCount": 1, "cuDevicePrimaryCtxRetain": 0, "cuCtxSetCurrent": 0,
}


def us(microseconds):
    return round(microseconds * _US)


def start(*kernels, devices=1, **settings):
    """A Gpu on which these kernels have been loaded, so that no launch of theirs loads anything."""
    gpu = Gpu(settings={"device_count": devices, "launch_latency_ns": us(5), **settings})
    for name, cost in _COSTS_US.items():
        gpu.cost(name, us(cost))
    stream = gpu.stream()
    with gpu.capture(stream) as graph:  # a captured launch loads its kernel and runs nothing
        for name in kernels:
            gpu.launch(name, 0, stream)
    graph.destroy()
    stream.destroy()
    return gpu


def finish(gpu):
    """Ends the host, after all its work: what is unfinished at the end has no end time in the trace."""
    gpu.host(us(10_000_000))
    sys.exit(EXIT_CODE)
