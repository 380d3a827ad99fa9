# SPDX-License-Identifier: Apache-2.0
# Python stacks, read from live interpreters of every version that is at hand.
if(NOT TARGET gpuprobe_python_reader)
  return()
endif()
gpuprobe_test(sampler_python_stacks_test SOURCES python_stacks_test.cc LIBS gpuprobe_python_reader LABELS sampler
              TIMEOUT 600)
set_property(TEST sampler_python_stacks_test APPEND PROPERTY ENVIRONMENT "GPUPROBE_TEST_SOURCE_DIR=${CMAKE_SOURCE_DIR}")
gpuprobe_test(sampler_python_parts_test SOURCES python_parts_test.cc LIBS gpuprobe_python_reader LABELS sampler)
