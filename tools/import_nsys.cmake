# SPDX-License-Identifier: Apache-2.0
# Exports of Nsight Systems, read with SQLite's own library.
find_library(GPUPROBE_SQLITE_ARCHIVE libsqlite3.a)
find_path(GPUPROBE_SQLITE_INCLUDE sqlite3.h)
mark_as_advanced(GPUPROBE_SQLITE_ARCHIVE GPUPROBE_SQLITE_INCLUDE)
if(NOT GPUPROBE_SQLITE_ARCHIVE OR NOT GPUPROBE_SQLITE_INCLUDE)
  message(FATAL_ERROR "SQLite not found (sqlite3.h, libsqlite3.a): run scripts/setup")
endif()
find_package(Threads REQUIRED)

gpuprobe_offline_library(gpuprobe_import_nsys
  import/call_class.cc import/nsys/nsys_database.cc import/nsys/nsys_records.cc import/nsys/nsys_sqlite.cc
  import/nsys/nsys_targets.cc)
target_include_directories(gpuprobe_import_nsys PRIVATE ${GPUPROBE_SQLITE_INCLUDE})
target_link_libraries(gpuprobe_import_nsys PUBLIC gpuprobe_markers absl::status absl::statusor
                      PRIVATE gpuprobe_analysis gpuprobe_format absl::flat_hash_map absl::strings
                      ${GPUPROBE_SQLITE_ARCHIVE} m Threads::Threads ${CMAKE_DL_LIBS})
