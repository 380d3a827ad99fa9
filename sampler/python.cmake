# SPDX-License-Identifier: Apache-2.0
# Python stacks and the memory they are read from.
gpuprobe_injected_library(gpuprobe_python_reader location_table.cc module_ids.cc process_memory.cc python_code_cache.cc
                          python_code_checks.cc python_elf.cc python_frames.cc python_layout.cc python_lines.cc
                          python_reader.cc python_runtime.cc python_text.cc)
