# SPDX-License-Identifier: Apache-2.0
# Copyright the gpuprobe authors.
"""A thread that has to wait for another: for one that loads a module, then for one that waits itself."""
import threading
from ctypes import byref, c_int, c_void_p

from scenario import finish, start, us


def elsewhere(function):
    """On another thread, while this one waits for it: the virtual clock knows one thread at a time."""
    threads_done = []
    thread = threading.Thread(target=lambda: threads_done.append(function()))
    thread.start()
    thread.join()
    if not threads_done:
        raise RuntimeError("the thread has failed")


def load():
    gpu.call("cudaSetDevice", c_int(0))
    gpu.call("cuModuleLoadData", byref(c_void_p()), b"simulated")


def backward():
    gpu.host(us(200))
    gpu.launch("a", us(20), stream)


gpu = start("a")
stream = gpu.stream()
gpu.launch("a", us(20), stream)
elsewhere(load)
gpu.launch("a", us(20), stream)
gpu.sync(stream)
elsewhere(backward)
finish(gpu)
