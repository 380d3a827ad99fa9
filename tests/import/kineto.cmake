# SPDX-License-Identifier: Apache-2.0
gpuprobe_python_test(import_kineto_traces_test kineto_traces_test.py LABELS unit)

gpuprobe_test(import_kineto_test
  SOURCES ${CMAKE_CURRENT_LIST_DIR}/kineto_load_test.cc ${CMAKE_CURRENT_LIST_DIR}/kineto_damage_test.cc
          ${CMAKE_CURRENT_LIST_DIR}/kineto_markers_test.cc
  LIBS gpuprobe_loader gpuprobe_import gpuprobe_analysis gpuprobe_trace_maker ${ZSTD_STATIC_LIBRARY} ${ZLIB_STATIC_LIBRARY})
target_include_directories(import_kineto_test SYSTEM PRIVATE ${ZSTD_INCLUDE_DIR} ${ZLIB_INCLUDE_DIR})

gpuprobe_fuzzer(fuzz_kineto SOURCES ${CMAKE_CURRENT_LIST_DIR}/kineto_fuzz.cc LIBS gpuprobe_loader gpuprobe_analysis
                SECONDS 10 SEEDS_BY ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/kineto_seeds.py)
