# SPDX-License-Identifier: Apache-2.0
# What does one Python stack cost the sampler?
if(TARGET gpuprobe_python_reader)
  gpuprobe_bench(bench_python_reader SOURCES bench_python_reader.cc LIBS gpuprobe_python_reader)
endif()
