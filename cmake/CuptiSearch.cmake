# SPDX-License-Identifier: Apache-2.0
# gpuprobe_search_cupti(<cupti_var> <cuda_var> <version_var> <source dir>): the folders of cupti.h and cuda.h, empty
# where there are none. One rule for the configure step and for scripts/setup, which calls
#   cmake -DSOURCE_DIR=<root> -P cmake/CuptiSearch.cmake
# and downloads NVIDIA's wheels when nothing is found (exit status not 0).
#
# The record layouts of all supported CUPTI versions are ours (cupti/record_layout.h); the headers give
# the enumerations and the newest structures, so they must be at least 13.0's.
set(GPUPROBE_CUPTI_MIN_VERSION 130000)

function(gpuprobe_search_cupti cupti_var cuda_var version_var source_dir)
  set(_roots "")
  foreach(_r "$ENV{CUDA_HOME}" "$ENV{CUDA_PATH}" /usr/local/cuda)
    if(_r)
      list(APPEND _roots ${_r})
    endif()
  endforeach()
  file(GLOB _toolkits /usr/local/cuda-[1-9]* /opt/cuda /usr/lib/cuda)
  list(SORT _toolkits COMPARE NATURAL ORDER DESCENDING)
  list(APPEND _roots ${_toolkits})

  set(_folders "")
  if(GPUPROBE_CUPTI_INCLUDE_DIR)
    list(APPEND _folders ${GPUPROBE_CUPTI_INCLUDE_DIR})
  endif()
  foreach(_r ${_roots})
    list(APPEND _folders ${_r}/include ${_r}/extras/CUPTI/include ${_r}/targets/x86_64-linux/include)
  endforeach()
  file(GLOB_RECURSE _wheels ${source_dir}/build/cupti-wheels/*/cupti.h)
  foreach(_w ${_wheels})
    get_filename_component(_d ${_w} DIRECTORY)
    list(APPEND _folders ${_d})
  endforeach()

  set(${cupti_var} "" PARENT_SCOPE)
  set(${cuda_var} "" PARENT_SCOPE)
  set(${version_var} "" PARENT_SCOPE)
  foreach(_f ${_folders})
    if(NOT EXISTS ${_f}/cupti_version.h)
      continue()
    endif()
    file(STRINGS ${_f}/cupti_version.h _line REGEX "define CUPTI_API_VERSION")
    string(REGEX MATCH "[0-9]+" _version "${_line}")
    if(NOT _version OR _version LESS GPUPROBE_CUPTI_MIN_VERSION)
      continue()
    endif()
    # extras/CUPTI/include has no cuda.h of its own.
    foreach(_c ${_f} ${_f}/../../../include)
      if(EXISTS ${_c}/cuda.h)
        get_filename_component(_c ${_c} REALPATH)
        set(${cupti_var} ${_f} PARENT_SCOPE)
        set(${cuda_var} ${_c} PARENT_SCOPE)
        set(${version_var} ${_version} PARENT_SCOPE)
        return()
      endif()
    endforeach()
  endforeach()
endfunction()

if(CMAKE_SCRIPT_MODE_FILE STREQUAL CMAKE_CURRENT_LIST_FILE)
  gpuprobe_search_cupti(_cupti _cuda _version ${SOURCE_DIR})
  if(NOT _cupti)
    message(FATAL_ERROR "no CUPTI headers of version ${GPUPROBE_CUPTI_MIN_VERSION} or newer")
  endif()
endif()
