# SPDX-License-Identifier: Apache-2.0
# Copyright the gpuprobe authors.
"""Time that CUPTI and the driver spend on themselves, by their own account."""
from scenario import finish, start, us

LAZY_FUNCTION_LOADING, BUFFER_FLUSH = 5 << 16, 1 << 16  # CUpti_ActivityOverheadKind

gpu = start("a")
stream = gpu.stream()
gpu.launch("a", us(20), stream)
gpu.host(us(30))
gpu.overhead(LAZY_FUNCTION_LOADING, us(40))
gpu.host(us(10))
gpu.overhead(BUFFER_FLUSH, us(60))
gpu.launch("a", us(20), stream)
finish(gpu)
