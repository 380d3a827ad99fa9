# SPDX-License-Identifier: Apache-2.0
# What does attribution cost an operation?
if(TARGET gpuprobe_analysis)
  gpuprobe_bench(bench_analyse SOURCES bench_analyse.cc LIBS gpuprobe_analysis)
endif()
