// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Processes that run Python whose lines the host sampler could not read: what is known of them is
// native code alone, and without a word a report would read as if that were the program.
#ifndef GPUPROBE_TOOLS_LOAD_SAMPLES_UNREAD_PYTHON_H_
#define GPUPROBE_TOOLS_LOAD_SAMPLES_UNREAD_PYTHON_H_

#include <string>
#include <vector>

#include "tools/timeline/timeline.h"

namespace gpuprobe::tools {

// Fills in Process::python_unread, from the reasons and the samples; returns a notice for each
// reason.
std::vector<std::string> FindUnreadPython(Timeline* timeline);

}  // namespace gpuprobe::tools

#endif  // GPUPROBE_TOOLS_LOAD_SAMPLES_UNREAD_PYTHON_H_
