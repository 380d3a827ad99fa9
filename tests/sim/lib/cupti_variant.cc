// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "tests/sim/lib/cupti_layout.h"

namespace gpuprobe::sim {

const uint32_t kDefaultCuptiVersion =
    GPUSIM_DEFAULT_CUPTI_VERSION;  // set by the build, one a variant

}  // namespace gpuprobe::sim
