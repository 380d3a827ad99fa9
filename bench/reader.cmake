# SPDX-License-Identifier: Apache-2.0
# How fast does a trace load, and in how much memory?
if(GPUPROBE_BUILD_TOOLS)
  gpuprobe_bench(bench_report SOURCES bench_report.cc
                 LIBS gpuprobe_proto_write gpuprobe_loader gpuprobe_analysis gpuprobe_windowed)
endif()
