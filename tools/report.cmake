# SPDX-License-Identifier: Apache-2.0
# probe-report: loader -> analyses (gpuprobe_analysis) -> renderers -> command.

gpuprobe_offline_library(gpuprobe_format
  format/format_units.cc format/format_text.cc format/format_json.cc format/format_table.cc
  format/kernel_name.cc format/syscall_names.cc)
target_link_libraries(gpuprobe_format PUBLIC absl::status absl::statusor absl::strings absl::str_format)
# kernel_name.cc uses a function that libstdc++.a has and libstdc++.so does not export. A tool that is static
# altogether has it anyway, and the option would make its libc a shared one again.
target_link_options(gpuprobe_format INTERFACE
                    $<$<NOT:$<BOOL:$<TARGET_PROPERTY:GPUPROBE_STATIC>>>:-static-libstdc++>)

find_package(Threads REQUIRED)
gpuprobe_offline_library(gpuprobe_markers
  load/marker_names.cc)
target_link_libraries(gpuprobe_markers PRIVATE gpuprobe_format PUBLIC absl::flat_hash_map)

gpuprobe_offline_library(gpuprobe_loader
  load/trace_loader.cc load/file_loader.cc load/frame_prefetcher.cc load/load_batches.cc load/load_ids.cc
  load/capture_facts.cc load/damage_words.cc load/loss_causes.cc
  load/files/foreign_files.cc load/files/input_files.cc load/files/several_runs.cc
  load/records/link_calls.cc load/records/record_order.cc
  load/samples/late_waits.cc load/samples/load_samples.cc load/samples/unread_python.cc)
target_link_libraries(gpuprobe_loader PUBLIC gpuprobe_proto_read absl::status absl::statusor
                      PRIVATE gpuprobe_import gpuprobe_import_nsys gpuprobe_markers gpuprobe_analysis
                      gpuprobe_format absl::flat_hash_map absl::strings Threads::Threads)

gpuprobe_offline_library(gpuprobe_symbolize
  symbolize/elf_symbols.cc symbolize/symbolize.cc)
target_link_libraries(gpuprobe_symbolize PUBLIC absl::status absl::statusor
                      PRIVATE gpuprobe_format absl::flat_hash_map absl::strings)

gpuprobe_offline_library(gpuprobe_report
  report/report.cc report/report_parts.cc report/report_summary.cc figures/trust.cc report/report_gaps.cc
  report/report_gap.cc report/report_waits.cc report/report_activity.cc report/report_steps.cc
  report/report_hot.cc report/report_diff.cc report/report_info.cc dump/report_dump.cc figures/hot.cc
  figures/run_figures.cc figures/diff.cc dump/dump_records.cc dump/dump_timeline.cc dump/dump_samples.cc
  figures/info_samples.cc figures/activity_stats.cc figures/activity_counter.cc report/command_line.cc
  report/time_choice.cc report/output.cc)
target_link_libraries(gpuprobe_report PUBLIC gpuprobe_loader gpuprobe_analysis gpuprobe_format absl::flat_hash_map
                      PRIVATE gpuprobe_import)

# Runs too long to be held at once.
gpuprobe_offline_library(gpuprobe_windowed
  windowed/windowed_run.cc windowed/windowed_analysis.cc windowed/window_reader.cc windowed/window_carry.cc
  windowed/records_around.cc windowed/run_size.cc windowed/side_thread.cc
  windowed/steps/step_cutter.cc windowed/steps/step_list.cc windowed/steps/step_matcher.cc
  windowed/steps/step_tracker.cc
  windowed/sums/device_in_windows.cc windowed/sums/kept_gaps.cc windowed/sums/run_end.cc
  windowed/sums/verdict_counts.cc)
target_link_libraries(gpuprobe_windowed PUBLIC gpuprobe_loader gpuprobe_analysis gpuprobe_report
                      PRIVATE gpuprobe_import absl::strings Threads::Threads)

gpuprobe_offline_tool(probe-report report/main.cc)
target_compile_definitions(probe-report PRIVATE GPUPROBE_VERSION="${PROJECT_VERSION}")
target_link_libraries(probe-report PRIVATE gpuprobe_windowed gpuprobe_report gpuprobe_symbolize)
get_target_property(_static probe-report GPUPROBE_STATIC)
if(_static)
  target_sources(probe-report PRIVATE import/nsys/no_dlopen.cc)
  target_link_options(probe-report PRIVATE -Wl,--wrap=dlopen)
endif()
