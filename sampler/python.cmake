# SPDX-License-Identifier: Apache-2.0
# Python stacks and the memory they are read from.
gpuprobe_injected_library(gpuprobe_python_reader
                          locations/location_table.cc locations/module_ids.cc
                          python/python_code_cache.cc python/python_code_checks.cc python/python_elf.cc
                          python/python_frames.cc python/python_layout.cc python/python_lines.cc
                          python/python_reader.cc python/python_runtime.cc python/python_text.cc
                          system/process_memory.cc)
