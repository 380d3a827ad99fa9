# SPDX-License-Identifier: Apache-2.0
# Finds cupti.h and cuda.h and defines the interface target cupti_headers. Places, in this order:
# GPUPROBE_CUPTI_INCLUDE_DIR, CUDA_HOME/CUDA_PATH, the toolkit's usual places, then build/cupti-wheels,
# where scripts/setup unpacks NVIDIA's PyPI wheels. No CUDA library is needed.
include(CuptiSearch)
set(GPUPROBE_CUPTI_INCLUDE_DIR "" CACHE PATH "folder of cupti.h (empty: search)")
gpuprobe_search_cupti(_cupti _cuda _version ${CMAKE_SOURCE_DIR})
if(NOT _cupti)
  message(FATAL_ERROR "CUPTI headers (CUDA 13.0 or newer) not found. Run scripts/setup, which unpacks NVIDIA's PyPI "
                      "wheels below build/, or set CUDA_HOME, or configure with -DGPUPROBE_BUILD_INJECT=OFF for "
                      "the reader alone.")
endif()
message(STATUS "CUPTI headers: ${_cupti} (API version ${_version})")
add_library(cupti_headers INTERFACE)
target_include_directories(cupti_headers SYSTEM INTERFACE ${_cupti} ${_cuda})
