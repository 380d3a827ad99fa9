# SPDX-License-Identifier: Apache-2.0
if(TARGET gpuprobe)
  gpuprobe_bench(bench_preload SOURCES bench_preload.cc)
  add_dependencies(bench_preload gpuprobe)
  target_compile_definitions(bench_preload PRIVATE GPUPROBE_BENCH_LIBRARY="${CMAKE_BINARY_DIR}/dist/lib/libgpuprobe.so")
endif()
