// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// The number by which reports and --device know a device: its CUDA ordinal, which is what the
// application calls it; where two devices of the run share one (several hosts, processes with
// CUDA_VISIBLE_DEVICES), its index in Timeline::devices, for all of them.
#ifndef GPUPROBE_TOOLS_TIMELINE_DEVICE_NUMBER_H_
#define GPUPROBE_TOOLS_TIMELINE_DEVICE_NUMBER_H_

#include <cstdint>

#include "tools/timeline/timeline.h"

namespace gpuprobe::tools {

int32_t DeviceNumber(const Timeline& timeline, int32_t device);
// The index of the device with this number; -1: there is none.
int32_t DeviceOfNumber(const Timeline& timeline, int32_t number);

}  // namespace gpuprobe::tools

#endif  // GPUPROBE_TOOLS_TIMELINE_DEVICE_NUMBER_H_
