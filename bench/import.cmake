# SPDX-License-Identifier: Apache-2.0
# How fast are trace events of PyTorch's profiler read, and in how much memory?
if(GPUPROBE_BUILD_TOOLS)
  gpuprobe_bench(bench_import SOURCES bench_import.cc LIBS gpuprobe_loader gpuprobe_import)
endif()
