# SPDX-License-Identifier: Apache-2.0
# Python stacks, read from live interpreters of every version that is at hand.
if(NOT TARGET gpuprobe_python_reader)
  return()
endif()
gpuprobe_test(sampler_python_stacks_test SOURCES python/python_stacks_test.cc LIBS gpuprobe_python_reader LABELS sampler
              TIMEOUT 600)
set_property(TEST sampler_python_stacks_test APPEND PROPERTY ENVIRONMENT "GPUPROBE_TEST_SOURCE_DIR=${CMAKE_SOURCE_DIR}")
gpuprobe_test(sampler_python_restless_test SOURCES python/python_restless_test.cc LIBS gpuprobe_python_reader LABELS sampler
              TIMEOUT 600)
gpuprobe_test(sampler_python_reads_test SOURCES python/python_reads_test.cc LIBS gpuprobe_python_reader LABELS sampler
              TIMEOUT 300)
gpuprobe_test(sampler_python_remembered_test SOURCES python/python_remembered_test.cc LIBS gpuprobe_python_reader
              LABELS sampler TIMEOUT 300)
gpuprobe_test(sampler_python_parts_test SOURCES python/python_parts_test.cc LIBS gpuprobe_python_reader LABELS sampler)

# Programs with an interpreter inside, where there are headers: with libpython shared, and (where there is
# an archive of it too) static, without exported symbols, so that only the symbol table knows _PyRuntime.
function(gpuprobe_python_embedding_test)
  find_package(Python3 QUIET COMPONENTS Development.Embed)
  if(NOT Python3_Development.Embed_FOUND OR GPUPROBE_SANITIZE)
    return()
  endif()
  add_executable(python_embedding_host python/python_embedding_host.c)
  target_link_libraries(python_embedding_host PRIVATE Python3::Python)
  set(_hosts "\"$<TARGET_FILE:python_embedding_host>\"")
  list(GET Python3_LIBRARY_DIRS 0 _folder)
  set(_archive ${_folder}/libpython${Python3_VERSION_MAJOR}.${Python3_VERSION_MINOR}.a)
  find_library(GPUPROBE_EXPAT expat)
  find_library(GPUPROBE_Z z)
  mark_as_advanced(GPUPROBE_EXPAT GPUPROBE_Z)
  if(EXISTS ${_archive} AND GPUPROBE_EXPAT AND GPUPROBE_Z)
    add_executable(python_embedding_host_static python/python_embedding_host.c)
    # Archives of distributions are built for programs at a fixed address.
    set_target_properties(python_embedding_host_static PROPERTIES POSITION_INDEPENDENT_CODE OFF)
    target_link_options(python_embedding_host_static PRIVATE -no-pie)
    target_include_directories(python_embedding_host_static PRIVATE ${Python3_INCLUDE_DIRS})
    target_link_libraries(python_embedding_host_static PRIVATE ${_archive} ${GPUPROBE_EXPAT} ${GPUPROBE_Z}
                          ${CMAKE_DL_LIBS} m Threads::Threads)
    string(APPEND _hosts ",\"$<TARGET_FILE:python_embedding_host_static>\"")
  endif()
  gpuprobe_test(sampler_python_embedding_test SOURCES python/python_embedding_test.cc LIBS gpuprobe_python_reader
                LABELS sampler)
  target_compile_definitions(sampler_python_embedding_test PRIVATE "GPUPROBE_EMBEDDING_HOSTS=${_hosts}")
  foreach(_host python_embedding_host python_embedding_host_static)
    if(TARGET ${_host})
      add_dependencies(sampler_python_embedding_test ${_host})
    endif()
  endforeach()
endfunction()
find_package(Threads REQUIRED)
gpuprobe_python_embedding_test()
