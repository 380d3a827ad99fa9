# SPDX-License-Identifier: Apache-2.0
find_package(Threads REQUIRED)
add_executable(bench_ring bench_ring.cc)
target_link_libraries(bench_ring PRIVATE gpuprobe_warnings gpuprobe_ringbuf Threads::Threads)
if(GPUPROBE_BUILD_TESTS)
  add_test(NAME bench_ring_smoke COMMAND bench_ring --smoke)
  set_tests_properties(bench_ring_smoke PROPERTIES LABELS "bench")
endif()
