// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// The third way in, for GPUPROBE_NVTX alone. Each module of the process that uses NVTX opens the
// library that NVTX_INJECTION64_PATH names at its first NVTX call, and hands it the table of its
// functions. CUPTI can take these, but which copy will record is known only when CUDA is
// initialised, and before the driver is there CUPTI must not even be loaded (cupti_api.cc): so the
// variable names this library, which keeps the tables until then and passes them on. No subscriber
// is needed for that, and no code of ours runs at an NVTX call.
#ifndef GPUPROBE_INJECT_NVTX_H_
#define GPUPROBE_INJECT_NVTX_H_

#include <cstdint>

#include "cupti/cupti_api.h"

namespace gpuprobe::inject {

// Any thread of the host, inside its first NVTX call of a module. 0: not taken, and NVTX does
// nothing in that module: the tier is off, this is a forked child, or CUPTI cannot.
int AttachNvtx(void* get_export_table);

// Modules whose tables could not be kept (64 can): their ranges are missing.
uint32_t NvtxModulesRefused();

// Why no module of this process comes to AttachNvtx; nullptr: they do.
const char* WhyNvtxPassesUsBy();

// Passes on the tables that came before: once the session is active. Their modules cannot have been
// unloaded: AttachNvtx keeps them.
void AttachWaitingNvtx(const cupti::CuptiApi& api);

}  // namespace gpuprobe::inject

#endif  // GPUPROBE_INJECT_NVTX_H_
