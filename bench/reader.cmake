# SPDX-License-Identifier: Apache-2.0
# How fast does a trace load, and in how much memory?
if(GPUPROBE_BUILD_TOOLS)
  add_executable(bench_report bench_report.cc)
  target_link_libraries(bench_report PRIVATE gpuprobe_warnings gpuprobe_sanitize gpuprobe_proto_write gpuprobe_loader
                        gpuprobe_analysis)
  if(GPUPROBE_BUILD_TESTS)
    add_test(NAME bench_report_smoke COMMAND bench_report --smoke)
    set_tests_properties(bench_report_smoke PROPERTIES LABELS "bench")
  endif()
endif()
