# SPDX-License-Identifier: Apache-2.0
# cmake --install: a tree that runs wherever it is put (bin/probe-run finds ../lib/libgpuprobe.so), so
# lib is lib on every distribution. The tools install themselves (gpuprobe_offline_tool).
if(TARGET gpuprobe)
  install(TARGETS gpuprobe LIBRARY DESTINATION lib)
endif()
install(FILES README.md CHANGELOG.md LICENSE DESTINATION share/doc/gpuprobe)
# The schema, for readers in other languages.
install(FILES proto/gpuprobe.proto DESTINATION share/gpuprobe/proto)
install(FILES proto/FORMAT.md DESTINATION share/gpuprobe/proto OPTIONAL)
