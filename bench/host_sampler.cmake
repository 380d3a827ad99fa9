# SPDX-License-Identifier: Apache-2.0
# What does the host sampler cost? The measurement is a library of its own: a Python host loads it, too.
if(TARGET gpuprobe_sampler)
  find_package(Threads REQUIRED)
  add_library(bench_host_sampler_measure SHARED host_sampler_measure.cc)
  target_link_libraries(bench_host_sampler_measure PRIVATE gpuprobe_warnings gpuprobe_sanitize gpuprobe_sampler
                        gpuprobe_proto_write Threads::Threads)
  gpuprobe_bench(bench_host_sampler SOURCES bench_host_sampler.cc
                 LIBS bench_host_sampler_measure Threads::Threads ${CMAKE_DL_LIBS})
endif()
