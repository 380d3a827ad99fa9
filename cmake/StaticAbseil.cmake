# SPDX-License-Identifier: Apache-2.0
# Finds abseil for everything below the including directory and makes its targets static: distributions ship
# both kinds of library and let CMake find the shared ones, but what we install must run where neither is.
# Include it at the top level: imported targets are looked up from where a library was declared.
find_package(absl REQUIRED)
get_property(_imported DIRECTORY PROPERTY IMPORTED_TARGETS)
foreach(_target ${_imported})
  if(NOT _target MATCHES "^absl::")
    continue()
  endif()
  get_target_property(_configs ${_target} IMPORTED_CONFIGURATIONS)
  foreach(_config ${_configs})
    get_target_property(_shared ${_target} IMPORTED_LOCATION_${_config})
    string(REGEX REPLACE "\\.so[.0-9]*$" ".a" _static "${_shared}")
    if(EXISTS "${_static}")
      set_target_properties(${_target} PROPERTIES IMPORTED_LOCATION_${_config} "${_static}")
    endif()
  endforeach()
endforeach()
