# SPDX-License-Identifier: Apache-2.0
# One place for the compile rules of the two kinds of code:
#   gpuprobe_injected_library(name ...): linked into libgpuprobe.so. No exceptions, no RTTI, no
#     libstdc++ at run time (only what its headers inline), hidden symbols.
#   gpuprobe_offline_library(name ...): readers and tools; ordinary C++.

add_library(gpuprobe_warnings INTERFACE)
target_compile_options(gpuprobe_warnings INTERFACE -Wall -Wextra -Wshadow -Wno-unused-parameter
                       -Wno-missing-field-initializers)
target_include_directories(gpuprobe_warnings INTERFACE ${CMAKE_SOURCE_DIR})

add_library(gpuprobe_sanitize INTERFACE)
if(GPUPROBE_SANITIZE)
  target_compile_options(gpuprobe_sanitize INTERFACE -fsanitize=${GPUPROBE_SANITIZE}
                         -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(gpuprobe_sanitize INTERFACE -fsanitize=${GPUPROBE_SANITIZE})
endif()
if(GPUPROBE_FUZZ)
  target_compile_options(gpuprobe_sanitize INTERFACE -fsanitize=fuzzer-no-link,address,undefined
                         -fno-sanitize-recover=all -fno-omit-frame-pointer)
  target_link_options(gpuprobe_sanitize INTERFACE -fsanitize=address,undefined)
endif()

set(GPUPROBE_INJECTED_OPTIONS -fno-exceptions -fno-rtti -fno-threadsafe-statics
    -fvisibility=hidden -fvisibility-inlines-hidden -fno-gnu-unique -fstack-protector-strong)
if(CMAKE_CXX_COMPILER_ID MATCHES Clang)
  list(REMOVE_ITEM GPUPROBE_INJECTED_OPTIONS -fno-gnu-unique)
endif()

function(gpuprobe_injected_library name)
  add_library(${name} STATIC ${ARGN})
  target_link_libraries(${name} PRIVATE gpuprobe_warnings gpuprobe_sanitize)
  target_compile_options(${name} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:${GPUPROBE_INJECTED_OPTIONS}>)
endfunction()

function(gpuprobe_offline_library name)
  add_library(${name} STATIC ${ARGN})
  target_link_libraries(${name} PRIVATE gpuprobe_warnings gpuprobe_sanitize)
endfunction()

function(gpuprobe_offline_tool name)
  add_executable(${name} ${ARGN})
  target_link_libraries(${name} PRIVATE gpuprobe_warnings gpuprobe_sanitize)
  target_link_options(${name} PRIVATE -static-libstdc++ -static-libgcc)
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/dist/bin)
endfunction()

# gpuprobe_test(name SOURCES a.cc ... LIBS x y [LABELS l]) : a GoogleTest program, one ctest entry per
# program. Tests live in tests/<area>/, each with its own CMakeLists.txt.
function(gpuprobe_test name)
  cmake_parse_arguments(T "" "TIMEOUT" "SOURCES;LIBS;LABELS" ${ARGN})
  add_executable(${name} ${T_SOURCES})
  target_link_libraries(${name} PRIVATE gpuprobe_warnings gpuprobe_sanitize ${T_LIBS} GTest::gtest GTest::gtest_main)
  add_test(NAME ${name} COMMAND ${name})
  if(NOT T_TIMEOUT)
    set(T_TIMEOUT 300)
  endif()
  set_tests_properties(${name} PROPERTIES LABELS "unit;${T_LABELS}" TIMEOUT ${T_TIMEOUT}
    ENVIRONMENT "GPUPROBE_TEST_SHARED=${CMAKE_SOURCE_DIR}/../shared")
endfunction()
