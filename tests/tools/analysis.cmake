# SPDX-License-Identifier: Apache-2.0
gpuprobe_test(analysis_test
  SOURCES
    ${CMAKE_CURRENT_LIST_DIR}/analysis_activity_test.cc
    ${CMAKE_CURRENT_LIST_DIR}/analysis_attribution_test.cc
    ${CMAKE_CURRENT_LIST_DIR}/analysis_call_site_test.cc
    ${CMAKE_CURRENT_LIST_DIR}/analysis_host_test.cc
    ${CMAKE_CURRENT_LIST_DIR}/analysis_interval_set_test.cc
    ${CMAKE_CURRENT_LIST_DIR}/analysis_kinds_test.cc
    ${CMAKE_CURRENT_LIST_DIR}/analysis_marker_steps_test.cc
    ${CMAKE_CURRENT_LIST_DIR}/analysis_meanwhile_test.cc
    ${CMAKE_CURRENT_LIST_DIR}/analysis_property_test.cc
    ${CMAKE_CURRENT_LIST_DIR}/analysis_steps_test.cc
    ${CMAKE_CURRENT_LIST_DIR}/analysis_verdict_test.cc
    ${CMAKE_CURRENT_LIST_DIR}/analysis_waits_test.cc
  LIBS gpuprobe_analysis gpuprobe_markers)
