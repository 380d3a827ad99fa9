# SPDX-License-Identifier: Apache-2.0
# What does decoding a CUPTI buffer cost a record?
if(TARGET gpuprobe_cupti)
  find_package(ZLIB REQUIRED)
  gpuprobe_bench(bench_decode SOURCES bench_decode.cc LIBS gpuprobe_cupti ZLIB::ZLIB)
endif()
