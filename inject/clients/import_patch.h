// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Puts our CUPTI functions (foreign_client.cc) in front of libcupti's for libraries that are
// already loaded. Needed when CUDA_INJECTION64_PATH alone brought us in: the driver opens the
// library in a scope of its own, nothing resolves to our exports, and torch.profiler would silently
// lose all its events (measured; see foreign_client.h). Under LD_PRELOAD there is nothing to do.
//
// How: in every loaded object but ours and libcupti itself, the relocation slots (GOT) of those
// functions are overwritten with ours, one aligned 8-byte store each; pages that the loader made
// read-only after relocation are writable only for that store. A library that is opened later is
// patched at the next call; one that looks CUPTI up by dlsym is not seen.
#ifndef GPUPROBE_INJECT_CLIENTS_IMPORT_PATCH_H_
#define GPUPROBE_INJECT_CLIENTS_IMPORT_PATCH_H_

#include <cstdint>

namespace gpuprobe::inject {

struct ImportPatch {
  const char* name;  // of the imported function
  void* replacement;
};

class ImportPatcher {
 public:
  constexpr ImportPatcher() = default;

  // Patches what has been loaded since the last call; cheap when nothing has. Returns the slots
  // changed. Thread: any one at a time; takes the loader's lock for a moment (dl_iterate_phdr).
  int PatchNewObjects(const ImportPatch* patches, int count);

 private:
  unsigned long long objects_ever_loaded_ = 0;
};

}  // namespace gpuprobe::inject

#endif  // GPUPROBE_INJECT_CLIENTS_IMPORT_PATCH_H_
