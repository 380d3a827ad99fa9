# SPDX-License-Identifier: Apache-2.0
# Python stacks, read from live interpreters of every version that is at hand.
if(NOT TARGET gpuprobe_python_reader)
  return()
endif()
add_executable(python_stacks_tool python_stacks_tool.cc)
target_link_libraries(python_stacks_tool PRIVATE gpuprobe_warnings gpuprobe_sanitize gpuprobe_python_reader)
