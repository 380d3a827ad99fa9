# SPDX-License-Identifier: Apache-2.0
# What does the host sampler cost? The measurement is a library of its own: a Python host loads it, too. It has a
# sampler of its own, one that times its system calls. Both run from any folder that they are put into together, and
# need nothing but libc there.
if(TARGET gpuprobe_sampler)
  find_package(Threads REQUIRED)
  foreach(_part gpuprobe_sampler gpuprobe_python_reader)
    get_target_property(_sources ${_part} SOURCES)
    list(TRANSFORM _sources PREPEND ${CMAKE_SOURCE_DIR}/sampler/)
    list(APPEND _timed_sources ${_sources})
  endforeach()
  add_library(bench_host_sampler_measure SHARED host_sampler_measure.cc ${_timed_sources})
  target_compile_options(bench_host_sampler_measure PRIVATE ${GPUPROBE_INJECTED_OPTIONS})
  target_compile_definitions(bench_host_sampler_measure PRIVATE GPUPROBE_TIME_CALLS)
  target_link_libraries(bench_host_sampler_measure PRIVATE gpuprobe_warnings gpuprobe_sanitize
                        gpuprobe_proto_write Threads::Threads)
  gpuprobe_bench(bench_host_sampler SOURCES bench_host_sampler.cc
                 LIBS bench_host_sampler_measure Threads::Threads ${CMAKE_DL_LIBS})
  set_target_properties(bench_host_sampler PROPERTIES BUILD_RPATH_USE_ORIGIN ON)
  foreach(_movable bench_host_sampler bench_host_sampler_measure)
    target_link_options(${_movable} PRIVATE -static-libstdc++ -static-libgcc)
  endforeach()
endif()
