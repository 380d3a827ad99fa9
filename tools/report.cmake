# SPDX-License-Identifier: Apache-2.0
# probe-report: loader -> analyses (gpuprobe_analysis) -> renderers -> command.

gpuprobe_offline_library(gpuprobe_format format_units.cc format_text.cc format_json.cc format_table.cc kernel_name.cc
                         syscall_names.cc)
target_link_libraries(gpuprobe_format PUBLIC absl::status absl::statusor absl::strings absl::str_format)
# kernel_name.cc uses a function that libstdc++.a has and libstdc++.so does not export. A tool that is static
# altogether has it anyway, and the option would make its libc a shared one again.
target_link_options(gpuprobe_format INTERFACE
                    $<$<NOT:$<BOOL:$<TARGET_PROPERTY:GPUPROBE_STATIC>>>:-static-libstdc++>)

find_package(Threads REQUIRED)
gpuprobe_offline_library(gpuprobe_markers marker_names.cc)
target_link_libraries(gpuprobe_markers PRIVATE gpuprobe_format PUBLIC absl::flat_hash_map)

gpuprobe_offline_library(gpuprobe_loader trace_loader.cc file_loader.cc frame_prefetcher.cc load_batches.cc
                         load_samples.cc record_order.cc link_calls.cc capture_facts.cc input_files.cc
                         loss_causes.cc several_runs.cc)
target_link_libraries(gpuprobe_loader PUBLIC gpuprobe_proto_read absl::status absl::statusor
                      PRIVATE gpuprobe_import gpuprobe_import_nsys gpuprobe_markers gpuprobe_analysis
                      gpuprobe_format absl::flat_hash_map absl::strings Threads::Threads)

gpuprobe_offline_library(gpuprobe_symbolize elf_symbols.cc symbolize.cc)
target_link_libraries(gpuprobe_symbolize PUBLIC absl::status absl::statusor
                      PRIVATE gpuprobe_format absl::flat_hash_map absl::strings)

gpuprobe_offline_library(gpuprobe_report report.cc report_parts.cc report_summary.cc trust.cc report_gaps.cc report_gap.cc report_waits.cc
                         report_activity.cc report_steps.cc report_hot.cc report_diff.cc report_info.cc report_dump.cc
                         hot.cc run_figures.cc diff.cc dump_records.cc dump_timeline.cc dump_samples.cc info_samples.cc activity_stats.cc activity_counter.cc
                         command_line.cc output.cc)
target_link_libraries(gpuprobe_report PUBLIC gpuprobe_loader gpuprobe_analysis gpuprobe_format absl::flat_hash_map
                      PRIVATE gpuprobe_import)

# Runs too long to be held at once.
gpuprobe_offline_library(gpuprobe_windowed windowed_run.cc windowed_analysis.cc window_reader.cc
                         window_carry.cc kept_gaps.cc run_size.cc)
target_link_libraries(gpuprobe_windowed PUBLIC gpuprobe_loader gpuprobe_analysis gpuprobe_report
                      PRIVATE gpuprobe_import absl::strings Threads::Threads)

gpuprobe_offline_tool(probe-report main.cc)
target_compile_definitions(probe-report PRIVATE GPUPROBE_VERSION="${PROJECT_VERSION}")
target_link_libraries(probe-report PRIVATE gpuprobe_windowed gpuprobe_report gpuprobe_symbolize)
get_target_property(_static probe-report GPUPROBE_STATIC)
if(_static)
  target_sources(probe-report PRIVATE import/no_dlopen.cc)
  target_link_options(probe-report PRIVATE -Wl,--wrap=dlopen)
endif()
