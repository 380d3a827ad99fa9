# SPDX-License-Identifier: Apache-2.0
gpuprobe_test(import_nsys_test SOURCES ${CMAKE_CURRENT_LIST_DIR}/nsys_sqlite_test.cc
              LIBS gpuprobe_loader gpuprobe_import_nsys)
target_include_directories(import_nsys_test PRIVATE ${GPUPROBE_SQLITE_INCLUDE})
target_link_libraries(import_nsys_test PRIVATE ${GPUPROBE_SQLITE_ARCHIVE} ${CMAKE_DL_LIBS})

if(TARGET gpuprobe_cupti)
  gpuprobe_test(import_call_class_test SOURCES ${CMAKE_CURRENT_LIST_DIR}/nsys_call_class_test.cc
                LIBS gpuprobe_import_nsys gpuprobe_cupti)
endif()

gpuprobe_python_test(import_nsys_schema_test nsys_schema_test.py LABELS unit)
gpuprobe_python_test(import_nsys_damage_test nsys_damage_test.py LABELS unit)
gpuprobe_python_test(import_nsys_traces_test nsys_traces_test.py LABELS unit)

if(NOT Python3_FOUND)
  return()
endif()
gpuprobe_fuzzer(fuzz_nsys_sqlite SOURCES ${CMAKE_CURRENT_LIST_DIR}/nsys_sqlite_fuzz.cc
                LIBS gpuprobe_loader gpuprobe_import_nsys SECONDS 10
                SEEDS_BY ${Python3_EXECUTABLE} ${CMAKE_CURRENT_LIST_DIR}/nsys_export.py)
