# SPDX-License-Identifier: Apache-2.0
# How small and how fast is the trace format, to write and to read?
if(GPUPROBE_BUILD_TOOLS)
  find_package(SQLite3 REQUIRED)
  find_package(ZLIB REQUIRED)
  gpuprobe_bench(bench_format SOURCES bench_format.cc
                 LIBS gpuprobe_proto_read gpuprobe_proto_write ${ZSTD_STATIC_LIBRARY} SQLite::SQLite3
                      ZLIB::ZLIB)
endif()
