# SPDX-License-Identifier: Apache-2.0
# What does a record cost the drain thread, from CUPTI's buffer to the compressed frame?
if(TARGET gpuprobe_cupti)
  gpuprobe_bench(bench_drain SOURCES bench_drain.cc
                 LIBS gpuprobe_cupti gpuprobe_proto_write ${ZSTD_STATIC_LIBRARY})
endif()
