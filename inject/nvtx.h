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

#include "cupti/cupti_api.h"

namespace gpuprobe::inject {

// Any thread of the host, inside its first NVTX call of a module. 0: not taken, and NVTX does
// nothing in that module: the tier is off, this is a forked child, or CUPTI cannot.
int AttachNvtx(void* get_export_table);

// Passes on the tables that came before: once the session is active. Those of modules that were
// unloaded meanwhile are dropped.
void AttachWaitingNvtx(const cupti::CuptiApi& api);

}  // namespace gpuprobe::inject

#endif  // GPUPROBE_INJECT_NVTX_H_
