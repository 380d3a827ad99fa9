// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Where probe-run finds its companions, and where the trace goes.
#ifndef GPUPROBE_TOOLS_RUN_PLACES_H_
#define GPUPROBE_TOOLS_RUN_PLACES_H_

#include <cstddef>
#include <ctime>
#include <string>

namespace gpuprobe::run {

// The folder of the running executable, symbolic links resolved; empty if /proc does not tell.
std::string ExecutableFolder();

// `path` from the root, relative to the working directory; "." and ".." are kept. Empty if there is
// no working directory any more.
std::string Absolute(const std::string& path);

// The name that a run's directory gets when nobody gave one: gpuprobe-20261130T104530-411, UTC. The
// library uses the same form when it is preloaded without probe-run.
std::string RunDirectoryName(time_t now, int pid);

// Number of trace files in a directory; 0 also when there is no such directory.
size_t CountTraces(const std::string& directory);

}  // namespace gpuprobe::run

#endif  // GPUPROBE_TOOLS_RUN_PLACES_H_
