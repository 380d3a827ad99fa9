# SPDX-License-Identifier: Apache-2.0
# One place for the compile rules of every kind of code:
#   gpuprobe_injected_library(name a.cc ...): linked into libgpuprobe.so. No exceptions, no RTTI, no
#     libstdc++ at run time (only what its headers inline), hidden symbols.
#   gpuprobe_offline_library(name a.cc ...): readers and tools; ordinary C++.
#   gpuprobe_offline_tool(name a.cc ...): a program that ships, in build/dist/bin.
#   gpuprobe_test(name SOURCES ... LIBS ...): a GoogleTest program.
#   gpuprobe_python_test(name script.py): a unittest file.
#   gpuprobe_fuzzer(name SOURCES ... LIBS ... [SECONDS n] [SEEDS_BY ...]): a libFuzzer target, a short run of it
#     in make test, and its seeds.
#   gpuprobe_bench(name SOURCES ... LIBS ... [GOOGLE]): a program that make bench runs.

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
# Old symbol versions, so that what is built here loads on glibc 2.28. Sanitizers replace some of these
# functions and must stay able to.
if(NOT GPUPROBE_SANITIZE AND NOT GPUPROBE_FUZZ)
  list(APPEND GPUPROBE_INJECTED_OPTIONS "SHELL:-include ${CMAKE_SOURCE_DIR}/cmake/glibc_compat.h")
endif()

function(gpuprobe_injected_library name)
  add_library(${name} STATIC ${ARGN})
  target_link_libraries(${name} PRIVATE gpuprobe_warnings gpuprobe_sanitize)
  target_compile_options(${name} PRIVATE ${GPUPROBE_INJECTED_OPTIONS})
endfunction()

function(gpuprobe_offline_library name)
  add_library(${name} STATIC ${ARGN})
  target_link_libraries(${name} PRIVATE gpuprobe_warnings gpuprobe_sanitize)
endfunction()

# The version, for the tools: #include "gpuprobe_version.h".
configure_file(${CMAKE_SOURCE_DIR}/cmake/version.h.in ${CMAKE_BINARY_DIR}/generated_version/gpuprobe_version.h @ONLY)
add_library(gpuprobe_version INTERFACE)
target_include_directories(gpuprobe_version INTERFACE ${CMAKE_BINARY_DIR}/generated_version)

# The tools are linked statically, libc included, because an executable linked against glibc 2.34 or
# newer needs at least 2.34 (__libc_start_main got a new version there), while probe-run has to run in
# containers as old as the oldest that the library serves (2.28), and probe-report anywhere. They use
# nothing of libc that needs its shared half (no dlopen, NSS, iconv). Where libc.a is missing only
# libstdc++ and libgcc are linked statically; sanitizers need the shared libc.
find_library(GPUPROBE_LIBC_ARCHIVE libc.a)
mark_as_advanced(GPUPROBE_LIBC_ARCHIVE)
set(_static_default OFF)
if(GPUPROBE_LIBC_ARCHIVE)
  set(_static_default ON)
endif()
option(GPUPROBE_STATIC_TOOLS "link probe-* without any shared library" ${_static_default})

function(gpuprobe_offline_tool name)
  add_executable(${name} ${ARGN})
  target_link_libraries(${name} PRIVATE gpuprobe_warnings gpuprobe_sanitize gpuprobe_version)
  if(NOT GPUPROBE_SANITIZE AND NOT GPUPROBE_FUZZ)
    if(GPUPROBE_STATIC_TOOLS)
      target_link_options(${name} PRIVATE -static-pie)
      set_target_properties(${name} PROPERTIES GPUPROBE_STATIC ON)
    else()
      target_link_options(${name} PRIVATE -static-libstdc++ -static-libgcc)
    endif()
    target_compile_options(${name} PRIVATE -ffunction-sections -fdata-sections)
    target_link_options(${name} PRIVATE -Wl,--gc-sections)
  endif()
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/dist/bin)
  install(TARGETS ${name} RUNTIME DESTINATION bin)
endfunction()

set(GPUPROBE_TEST_ENVIRONMENT "GPUPROBE_TEST_SHARED=${CMAKE_SOURCE_DIR}/../shared")

# gpuprobe_test(name SOURCES a.cc ... LIBS x y [LABELS l] [TIMEOUT s]) : one ctest entry per program.
# Tests live in tests/<area>/, each with its own CMakeLists.txt. Label what preloads the shipped library
# into a process "e2e" (left out under the sanitizers) and what wants a GPU "gpu".
function(gpuprobe_test name)
  cmake_parse_arguments(T "" "TIMEOUT" "SOURCES;LIBS;LABELS" ${ARGN})
  add_executable(${name} ${T_SOURCES})
  target_link_libraries(${name} PRIVATE gpuprobe_warnings gpuprobe_sanitize ${T_LIBS} GTest::gmock GTest::gtest
                        GTest::gtest_main)
  add_test(NAME ${name} COMMAND ${name})
  if(NOT T_TIMEOUT)
    set(T_TIMEOUT 300)
  endif()
  set_tests_properties(${name} PROPERTIES LABELS "unit;${T_LABELS}" TIMEOUT ${T_TIMEOUT}
    ENVIRONMENT "${GPUPROBE_TEST_ENVIRONMENT}")
endfunction()

# gpuprobe_python_test(name script.py [ENVIRONMENT "A=b" ...] [LABELS l] [TIMEOUT s]) : a unittest file
# (standard library only), run so that make test counts its cases one by one. The test finds the source
# tree and the build tree in GPUPROBE_TEST_SOURCE_DIR and GPUPROBE_TEST_BUILD_DIR.
find_package(Python3 COMPONENTS Interpreter)
function(gpuprobe_python_test name script)
  cmake_parse_arguments(T "" "TIMEOUT" "ENVIRONMENT;LABELS" ${ARGN})
  if(NOT Python3_FOUND)
    message(WARNING "python3 not found: test ${name} is left out")
    return()
  endif()
  if(NOT T_TIMEOUT)
    set(T_TIMEOUT 300)
  endif()
  add_test(NAME ${name} COMMAND ${Python3_EXECUTABLE} ${CMAKE_SOURCE_DIR}/tests/run_unittest.py
           --name ${name} ${CMAKE_CURRENT_SOURCE_DIR}/${script})
  set_tests_properties(${name} PROPERTIES LABELS "${T_LABELS}" TIMEOUT ${T_TIMEOUT}
    ENVIRONMENT "${GPUPROBE_TEST_ENVIRONMENT};GPUPROBE_TEST_SOURCE_DIR=${CMAKE_SOURCE_DIR};GPUPROBE_TEST_BUILD_DIR=${CMAKE_BINARY_DIR};${T_ENVIRONMENT}")
endfunction()

# gpuprobe_fuzzer(name SOURCES a.cc ... LIBS x y SECONDS n [SEEDS_BY target argument ...]) : a source that
# defines LLVMFuzzerTestOneInput.
#   The fuzz preset makes build/fuzz/fuzzers/<name> of it (target fuzzers), for scripts/fuzz.
#   The release preset has a test that runs that one for some seconds, and makes the seeds: SEEDS_BY's program
#     is called with its arguments and the folder fuzz-seeds/<name> (target fuzz_seeds).
#   The sanitizer presets have a test instead that feeds it every seed and every past finding
#     (tests/testdata/fuzz/<name>), each also cut and with bits flipped (tests/replay_seeds_main.cc).
if(GPUPROBE_FUZZ)
  add_custom_target(fuzzers)
else()
  add_custom_target(fuzz_seeds ALL)
endif()
function(gpuprobe_fuzzer name)
  cmake_parse_arguments(F "" "SECONDS" "SOURCES;LIBS;SEEDS_BY" ${ARGN})
  if(GPUPROBE_FUZZ)
    add_executable(${name} ${F_SOURCES})
    target_link_libraries(${name} PRIVATE gpuprobe_warnings gpuprobe_sanitize ${F_LIBS})
    target_link_options(${name} PRIVATE -fsanitize=fuzzer)
    set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/fuzzers)
    add_dependencies(fuzzers ${name})
    return()
  endif()
  set(_inputs "")
  if(F_SEEDS_BY)
    set(_seeds ${CMAKE_BINARY_DIR}/fuzz-seeds/${name})
    list(POP_FRONT F_SEEDS_BY _maker)
    add_custom_command(OUTPUT ${_seeds}.made
      COMMAND ${CMAKE_COMMAND} -E make_directory ${_seeds}
      COMMAND ${_maker} ${F_SEEDS_BY} ${_seeds}
      COMMAND ${CMAKE_COMMAND} -E touch ${_seeds}.made
      DEPENDS ${_maker})
    add_custom_target(${name}_make_seeds DEPENDS ${_seeds}.made)
    add_dependencies(fuzz_seeds ${name}_make_seeds)
    list(APPEND _inputs ${_seeds})
  endif()
  set(_findings ${CMAKE_SOURCE_DIR}/tests/testdata/fuzz/${name})
  if(EXISTS ${_findings})
    list(APPEND _inputs ${_findings})
  endif()
  if(NOT GPUPROBE_SANITIZE)
    add_test(NAME ${name} COMMAND ${CMAKE_SOURCE_DIR}/scripts/fuzz ${CMAKE_BINARY_DIR}/fuzz ${F_SECONDS} ${name})
    set_tests_properties(${name} PROPERTIES LABELS "fuzz" TIMEOUT 300 SKIP_RETURN_CODE 77)
  elseif(_inputs)
    add_executable(${name}_seeds ${F_SOURCES} ${CMAKE_SOURCE_DIR}/tests/replay_seeds_main.cc)
    target_link_libraries(${name}_seeds PRIVATE gpuprobe_warnings gpuprobe_sanitize ${F_LIBS})
    add_test(NAME ${name}_seeds COMMAND ${name}_seeds ${_inputs})
    set_tests_properties(${name}_seeds PROPERTIES LABELS "unit" TIMEOUT 300)
  endif()
endfunction()

# gpuprobe_bench(name SOURCES a.cc ... LIBS x y [GOOGLE]) : a program that answers one question, in
# build/bench. GOOGLE: uses Google Benchmark. Without it the program takes --smoke for a run of about a
# second. Names are collected for scripts/bench.
function(gpuprobe_bench name)
  cmake_parse_arguments(B "GOOGLE" "" "SOURCES;LIBS" ${ARGN})
  add_executable(${name} ${B_SOURCES})
  target_link_libraries(${name} PRIVATE gpuprobe_warnings gpuprobe_sanitize ${B_LIBS})
  set(_kind plain)
  if(B_GOOGLE)
    find_package(benchmark REQUIRED)
    target_link_libraries(${name} PRIVATE benchmark::benchmark)
    set(_kind google)
  endif()
  set_target_properties(${name} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bench)
  file(MAKE_DIRECTORY ${CMAKE_BINARY_DIR}/bench)
  file(WRITE ${CMAKE_BINARY_DIR}/bench/${name}.kind "${_kind}\n")
endfunction()
