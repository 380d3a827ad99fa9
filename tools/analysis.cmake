# SPDX-License-Identifier: Apache-2.0
# Timeline in, figures out: pure, no dependency but the standard library.
gpuprobe_offline_library(gpuprobe_analysis
  ${CMAKE_CURRENT_LIST_DIR}/advice.cc
  ${CMAKE_CURRENT_LIST_DIR}/analysis.cc
  ${CMAKE_CURRENT_LIST_DIR}/attribution.cc
  ${CMAKE_CURRENT_LIST_DIR}/call_site.cc
  ${CMAKE_CURRENT_LIST_DIR}/cause_totals.cc
  ${CMAKE_CURRENT_LIST_DIR}/device_activity.cc
  ${CMAKE_CURRENT_LIST_DIR}/host_split.cc
  ${CMAKE_CURRENT_LIST_DIR}/host_view.cc
  ${CMAKE_CURRENT_LIST_DIR}/interval_set.cc
  ${CMAKE_CURRENT_LIST_DIR}/job_activity.cc
  ${CMAKE_CURRENT_LIST_DIR}/kernel_class.cc
  ${CMAKE_CURRENT_LIST_DIR}/meanwhile.cc
  ${CMAKE_CURRENT_LIST_DIR}/part_places.cc
  ${CMAKE_CURRENT_LIST_DIR}/places.cc
  ${CMAKE_CURRENT_LIST_DIR}/sample_judge.cc
  ${CMAKE_CURRENT_LIST_DIR}/sample_view.cc
  ${CMAKE_CURRENT_LIST_DIR}/steady_part.cc
  ${CMAKE_CURRENT_LIST_DIR}/step_pattern.cc
  ${CMAKE_CURRENT_LIST_DIR}/steps.cc
  ${CMAKE_CURRENT_LIST_DIR}/stream_order.cc
  ${CMAKE_CURRENT_LIST_DIR}/unseen.cc
  ${CMAKE_CURRENT_LIST_DIR}/verdict.cc
  ${CMAKE_CURRENT_LIST_DIR}/verdict_facts.cc
  ${CMAKE_CURRENT_LIST_DIR}/waits.cc)
