# SPDX-License-Identifier: Apache-2.0
gpuprobe_test(analysis_test
  SOURCES
    ${CMAKE_CURRENT_LIST_DIR}/analysis/kinds_test.cc
    ${CMAKE_CURRENT_LIST_DIR}/analysis/property_test.cc
    ${CMAKE_CURRENT_LIST_DIR}/analysis/rank_waits_test.cc
    ${CMAKE_CURRENT_LIST_DIR}/analysis/verdict_test.cc
    ${CMAKE_CURRENT_LIST_DIR}/attribution/attribution_test.cc
    ${CMAKE_CURRENT_LIST_DIR}/attribution/call_site_test.cc
    ${CMAKE_CURRENT_LIST_DIR}/attribution/drained_test.cc
    ${CMAKE_CURRENT_LIST_DIR}/attribution/host_test.cc
    ${CMAKE_CURRENT_LIST_DIR}/attribution/meanwhile_test.cc
    ${CMAKE_CURRENT_LIST_DIR}/attribution/waits_test.cc
    ${CMAKE_CURRENT_LIST_DIR}/steps/marker_steps_test.cc
    ${CMAKE_CURRENT_LIST_DIR}/steps/steps_test.cc
    ${CMAKE_CURRENT_LIST_DIR}/timeline/activity_test.cc
    ${CMAKE_CURRENT_LIST_DIR}/timeline/interval_set_test.cc
  LIBS gpuprobe_analysis gpuprobe_markers)
