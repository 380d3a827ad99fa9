// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#ifndef GPUPROBE_TOOLS_LOAD_SAMPLES_LATE_WAITS_H_
#define GPUPROBE_TOOLS_LOAD_SAMPLES_LATE_WAITS_H_

#include <vector>

#include "tools/timeline/timeline.h"

namespace gpuprobe::tools {

// Puts the time for which a thread stood in line for a CPU to where it stood there. The kernel adds
// it up when the thread gets one: until then looks see a thread that is ready to run and has
// neither run nor waited, and the look after that has more time than its interval. What is too much
// there goes back over the looks before it, as far as they follow each other without a hole, were
// ready to run, and have room. `samples`: by thread, then by time.
void SpreadLateWaits(std::vector<HostSample>* samples);

}  // namespace gpuprobe::tools

#endif  // GPUPROBE_TOOLS_LOAD_SAMPLES_LATE_WAITS_H_
