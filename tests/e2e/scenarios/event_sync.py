# SPDX-License-Identifier: Apache-2.0
# Copyright the gpuprobe authors.
"""Waits for an event after every launch, then much Python."""
from scenario import finish, start, us

gpu = start("a")
stream, event = gpu.stream(), gpu.event()
for _ in range(2):
    gpu.launch("a", us(20), stream)
    event.record(stream)
    gpu.sync(event)
    gpu.host(us(150))
finish(gpu)
