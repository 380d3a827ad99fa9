# SPDX-License-Identifier: Apache-2.0
# What would other columns gain: lanes, tick grid, prediction?
gpuprobe_bench(bench_encoding SOURCES encoding/bench_encoding.cc LIBS gpuprobe_proto_write ${ZSTD_STATIC_LIBRARY})
