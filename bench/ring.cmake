# SPDX-License-Identifier: Apache-2.0
# What do a push into the ring and a buffer's way through the pool cost?
find_package(Threads REQUIRED)
gpuprobe_bench(bench_ring SOURCES bench_ring.cc LIBS gpuprobe_ringbuf Threads::Threads)
