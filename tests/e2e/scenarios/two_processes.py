# SPDX-License-Identifier: Apache-2.0
# Copyright the gpuprobe authors.
"""One of two processes on one device: "outer" leaves it idle for 1000 s, "inner" (started later) uses it then.

Each process has a virtual clock of its own. probe-report lays both on one clock by their starts, so that only
the order of the two is known beforehand, and 1000 s are enough for any machine to start the second.
"""
import sys

from scenario import finish, start, us

gpu = start("a")
stream = gpu.stream()
if sys.argv[1] == "outer":
    gpu.launch("a", us(20), stream)
    gpu.host(us(1_000_000_000))
    gpu.launch("a", us(20), stream)
else:
    for _ in range(3):
        gpu.launch("a", us(20), stream)
        gpu.sync(stream)
        gpu.host(us(30))
finish(gpu)
