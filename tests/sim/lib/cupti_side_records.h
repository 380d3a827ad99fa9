// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Records that are not about one operation: external correlation (a stack a thread and kind),
// devices and contexts. Called on application threads.
#ifndef GPUPROBE_TESTS_SIM_LIB_CUPTI_SIDE_RECORDS_H_
#define GPUPROBE_TESTS_SIM_LIB_CUPTI_SIDE_RECORDS_H_

#include <cstdint>

#include "tests/sim/lib/seam.h"

namespace gpuprobe::sim {

void PushExternalCorrelation(uint32_t kind, uint64_t id);
bool PopExternalCorrelation(uint32_t kind, uint64_t* id);  // false: the stack is empty
// One record a non-empty stack, as CUPTI writes before an API record.
void EmitExternalCorrelation(uint32_t correlation);

bool Enabled(uint32_t kind);  // has a client switched it on?
uint32_t RecordThreadId();    // of the calling thread, as the client wants it

void EmitDevice(uint32_t device);  // once a device
void EmitContext(const ContextInfo& info);

}  // namespace gpuprobe::sim

#endif  // GPUPROBE_TESTS_SIM_LIB_CUPTI_SIDE_RECORDS_H_
