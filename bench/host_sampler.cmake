# SPDX-License-Identifier: Apache-2.0
# What does the host sampler cost?
if(TARGET gpuprobe_sampler)
  find_package(Threads REQUIRED)
  gpuprobe_bench(bench_host_sampler SOURCES bench_host_sampler.cc
                 LIBS gpuprobe_sampler gpuprobe_proto_write Threads::Threads)
endif()
