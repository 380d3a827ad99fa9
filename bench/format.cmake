# SPDX-License-Identifier: Apache-2.0
if(GPUPROBE_BUILD_TOOLS)
  add_executable(bench_format ${CMAKE_CURRENT_SOURCE_DIR}/bench_format.cc)
  target_link_libraries(bench_format PRIVATE gpuprobe_warnings gpuprobe_sanitize gpuprobe_proto_read
                        gpuprobe_proto_write ${ZSTD_STATIC_LIBRARY})
endif()
