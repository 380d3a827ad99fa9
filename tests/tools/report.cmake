# SPDX-License-Identifier: Apache-2.0
if(NOT GPUPROBE_BUILD_TOOLS)
  return()
endif()
# Loader, renderers and command of probe-report.
add_library(gpuprobe_trace_maker STATIC ${CMAKE_CURRENT_LIST_DIR}/trace_maker.cc)
target_link_libraries(gpuprobe_trace_maker PRIVATE gpuprobe_warnings gpuprobe_sanitize PUBLIC gpuprobe_proto_write)
target_include_directories(gpuprobe_trace_maker PUBLIC ${CMAKE_SOURCE_DIR})

gpuprobe_test(report_loader_test
  SOURCES ${CMAKE_CURRENT_LIST_DIR}/load/loader_test.cc ${CMAKE_CURRENT_LIST_DIR}/load/files/which_files_test.cc
  LIBS gpuprobe_loader gpuprobe_trace_maker GTest::gmock)

gpuprobe_test(report_load_parts_test
  SOURCES ${CMAKE_CURRENT_LIST_DIR}/load/load_parts_test.cc
  LIBS gpuprobe_loader gpuprobe_trace_maker GTest::gtest)

gpuprobe_test(report_samples_test
  SOURCES ${CMAKE_CURRENT_LIST_DIR}/load/samples/load_samples_test.cc
          ${CMAKE_CURRENT_LIST_DIR}/load/samples/late_waits_test.cc
          ${CMAKE_CURRENT_LIST_DIR}/report/samples_test.cc
  LIBS gpuprobe_report gpuprobe_trace_maker GTest::gmock)

gpuprobe_test(report_symbolize_test
  SOURCES ${CMAKE_CURRENT_LIST_DIR}/symbolize/symbolize_test.cc
  LIBS gpuprobe_symbolize gpuprobe_format GTest::gmock ${CMAKE_DL_LIBS})

gpuprobe_test(report_format_test
  SOURCES ${CMAKE_CURRENT_LIST_DIR}/format/format_test.cc ${CMAKE_CURRENT_LIST_DIR}/report/command_line_test.cc
          ${CMAKE_CURRENT_LIST_DIR}/report/parts_test.cc
  LIBS gpuprobe_report GTest::gmock)

gpuprobe_test(report_golden_test SOURCES ${CMAKE_CURRENT_LIST_DIR}/report/golden_test.cc LIBS gpuprobe_report GTest::gmock)
target_compile_definitions(report_golden_test PRIVATE GPUPROBE_SOURCE_DIR="${CMAKE_SOURCE_DIR}")

gpuprobe_test(report_cli_test
  SOURCES ${CMAKE_CURRENT_LIST_DIR}/report/cli_test.cc ${CMAKE_CURRENT_LIST_DIR}/report/cli_bad_files_test.cc
          ${CMAKE_CURRENT_LIST_DIR}/report/cli_windows_test.cc
  LIBS gpuprobe_trace_maker GTest::gmock)
target_compile_definitions(report_cli_test PRIVATE PROBE_REPORT_PATH="$<TARGET_FILE:probe-report>")
add_dependencies(report_cli_test probe-report)

gpuprobe_test(diff_test SOURCES ${CMAKE_CURRENT_LIST_DIR}/figures/diff_test.cc ${CMAKE_CURRENT_LIST_DIR}/figures/hot_test.cc LIBS gpuprobe_report GTest::gmock)

# Runs in windows.
gpuprobe_test(windowed_test
  SOURCES ${CMAKE_CURRENT_LIST_DIR}/windowed/windowed_analysis_test.cc ${CMAKE_CURRENT_LIST_DIR}/windowed/windowed_run_test.cc
          ${CMAKE_CURRENT_LIST_DIR}/windowed/windowed_steps_test.cc
          ${CMAKE_CURRENT_LIST_DIR}/windowed/run_size_test.cc
          ${CMAKE_CURRENT_LIST_DIR}/windowed/check_stretch_test.cc
          ${CMAKE_CURRENT_LIST_DIR}/windowed/window_carry_test.cc
          ${CMAKE_CURRENT_LIST_DIR}/windowed/steps/step_cutter_test.cc
          ${CMAKE_CURRENT_LIST_DIR}/windowed/side_thread_test.cc
  LIBS gpuprobe_windowed gpuprobe_markers gpuprobe_trace_maker GTest::gmock)
target_compile_definitions(windowed_test PRIVATE GPUPROBE_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
