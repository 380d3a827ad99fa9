# SPDX-License-Identifier: Apache-2.0
# Copyright the gpuprobe authors.
"""A kernel of no length, and (planted by the test) one whose record has no times."""
from scenario import finish, start, us

gpu = start("a")
stream = gpu.stream()
gpu.launch("a", us(20), stream)
gpu.host(us(150))
gpu.launch("a", 0, stream)
gpu.host(us(150))
gpu.launch("a", us(20), stream)  # its record comes without times
gpu.host(us(150))
gpu.launch("a", us(20), stream)
finish(gpu)
