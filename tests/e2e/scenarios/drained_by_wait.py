# SPDX-License-Identifier: Apache-2.0
# Copyright the gpuprobe authors.
"""The example of tools/attribution/ATTRIBUTION.md: a wait for a long kernel, then Python that takes longer than it."""
from scenario import finish, start, us

gpu = start("a")
stream = gpu.stream()
gpu.launch("a", us(1000), stream)
gpu.host(us(605))
gpu.sync(stream)
gpu.host(us(690))
gpu.launch("a", us(20), stream)
finish(gpu)
