# SPDX-License-Identifier: Apache-2.0
# cmake --install: a tree that runs wherever it is put (bin/probe-run finds ../lib/libgpuprobe.so), so
# lib is lib on every distribution. The tools install themselves (gpuprobe_offline_tool).
if(GPUPROBE_BUILD_INJECT)
  get_property(_targets DIRECTORY ${CMAKE_SOURCE_DIR}/inject PROPERTY BUILDSYSTEM_TARGETS)
  foreach(_t ${_targets})
    get_target_property(_type ${_t} TYPE)
    if(_type MATCHES "^(SHARED|MODULE)_LIBRARY$")
      install(TARGETS ${_t} LIBRARY DESTINATION lib)
    endif()
  endforeach()
endif()
install(FILES README.md CHANGELOG.md LICENSE DESTINATION share/doc/gpuprobe)
# The schema, for readers in other languages.
install(FILES proto/gpuprobe.proto DESTINATION share/gpuprobe/proto)
install(FILES proto/FORMAT.md DESTINATION share/gpuprobe/proto OPTIONAL)
