# SPDX-License-Identifier: Apache-2.0
# Traces of other profilers -> Timeline.
find_path(ZLIB_INCLUDE_DIR zlib.h REQUIRED)
find_library(ZLIB_STATIC_LIBRARY libz.a REQUIRED)
find_package(Threads REQUIRED)

gpuprobe_offline_library(gpuprobe_import
  ${CMAKE_CURRENT_LIST_DIR}/import/kineto/code_spans.cc
  ${CMAKE_CURRENT_LIST_DIR}/import/kineto/event_reader.cc
  ${CMAKE_CURRENT_LIST_DIR}/import/kineto/event_row.cc
  ${CMAKE_CURRENT_LIST_DIR}/import/kineto/kineto_loader.cc
  ${CMAKE_CURRENT_LIST_DIR}/import/kineto/kineto_metadata.cc
  ${CMAKE_CURRENT_LIST_DIR}/import/kineto/kineto_rows.cc
  ${CMAKE_CURRENT_LIST_DIR}/import/kineto/kineto_words.cc
  ${CMAKE_CURRENT_LIST_DIR}/import/kineto/text_damage.cc
  ${CMAKE_CURRENT_LIST_DIR}/import/progress.cc
  ${CMAKE_CURRENT_LIST_DIR}/import/run_group.cc
  ${CMAKE_CURRENT_LIST_DIR}/import/source_format.cc
  ${CMAKE_CURRENT_LIST_DIR}/import/text/byte_source.cc
  ${CMAKE_CURRENT_LIST_DIR}/import/text/exact_time.cc
  ${CMAKE_CURRENT_LIST_DIR}/import/text/json_scan.cc)
target_include_directories(gpuprobe_import SYSTEM PRIVATE ${ZSTD_INCLUDE_DIR} ${ZLIB_INCLUDE_DIR})
target_link_libraries(gpuprobe_import
  PUBLIC gpuprobe_markers absl::status absl::statusor absl::flat_hash_map absl::strings Threads::Threads
  PRIVATE gpuprobe_import_nsys gpuprobe_analysis gpuprobe_format ${ZSTD_STATIC_LIBRARY} ${ZLIB_STATIC_LIBRARY})
