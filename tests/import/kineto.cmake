# SPDX-License-Identifier: Apache-2.0
gpuprobe_python_test(import_kineto_traces_test kineto_traces_test.py LABELS unit)

gpuprobe_test(import_kineto_test
  SOURCES ${CMAKE_CURRENT_LIST_DIR}/kineto_load_test.cc
  LIBS gpuprobe_loader gpuprobe_import gpuprobe_trace_maker ${ZSTD_STATIC_LIBRARY} ${ZLIB_STATIC_LIBRARY})
target_include_directories(import_kineto_test SYSTEM PRIVATE ${ZSTD_INCLUDE_DIR} ${ZLIB_INCLUDE_DIR})
