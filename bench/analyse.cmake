# SPDX-License-Identifier: Apache-2.0
if(TARGET gpuprobe_analysis)
  add_executable(bench_analyse ${CMAKE_CURRENT_LIST_DIR}/bench_analyse.cc)
  target_link_libraries(bench_analyse PRIVATE gpuprobe_warnings gpuprobe_analysis)
endif()
