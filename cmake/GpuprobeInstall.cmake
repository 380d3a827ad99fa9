# SPDX-License-Identifier: Apache-2.0
# cmake --install: a tree that runs wherever it is put (bin/probe-run finds ../lib/libgpuprobe.so), so
# lib is lib on every distribution. The tools install themselves (gpuprobe_offline_tool).
if(TARGET gpuprobe)
  install(TARGETS gpuprobe LIBRARY DESTINATION lib)
endif()
# In the places in which they stand in the sources, so that their links hold.
install(FILES README.md ARCHITECTURE.md CHANGELOG.md CONTRIBUTING.md LICENSE DESTINATION share/doc/gpuprobe)
foreach(_document tools/attribution/ATTRIBUTION.md proto/FORMAT.md bench/RESULTS.md)
  get_filename_component(_folder ${_document} DIRECTORY)
  install(FILES ${_document} DESTINATION share/doc/gpuprobe/${_folder} OPTIONAL)
endforeach()
# The licences of what is linked into the programs, as the distribution has them beside its packages: whoever
# passes binaries on has to pass these on as well.
foreach(_package libabsl-dev libc6-dev libprotobuf-dev libsqlite3-dev libstdc++-12-dev libzstd-dev zlib1g-dev)
  if(EXISTS /usr/share/doc/${_package}/copyright)
    install(FILES /usr/share/doc/${_package}/copyright DESTINATION share/doc/gpuprobe/third-party
            RENAME ${_package}.txt)
  endif()
endforeach()
# The schema, for readers in other languages.
install(FILES proto/gpuprobe.proto DESTINATION share/gpuprobe/proto)
install(FILES proto/FORMAT.md DESTINATION share/gpuprobe/proto OPTIONAL)
