// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Names of callback ids, from the lists that the build extracts from NVIDIA's headers.
#include <cupti.h>

#include "tests/sim/lib/cupti_state.h"

namespace gpuprobe::sim {
namespace {

struct Name {
  uint32_t cbid;
  const char* name;
};

constexpr Name kRuntime[] = {
#include "gpusim_runtime_names.inc"
};
constexpr Name kDriver[] = {
#include "gpusim_driver_names.inc"
};

template <size_t n>
const char* Find(const Name (&names)[n], uint32_t cbid) {
  for (const Name& name : names) {
    if (name.cbid == cbid) return name.name;
  }
  return nullptr;
}

}  // namespace

const char* CallbackName(CUpti_CallbackDomain domain, uint32_t cbid) {
  if (domain == CUPTI_CB_DOMAIN_RUNTIME_API) return Find(kRuntime, cbid);
  if (domain == CUPTI_CB_DOMAIN_DRIVER_API) return Find(kDriver, cbid);
  return nullptr;
}

}  // namespace gpuprobe::sim
