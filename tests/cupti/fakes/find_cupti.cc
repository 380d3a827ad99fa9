// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// usage: find_cupti [--prefer PATH] [--self] [LIBRARY...]
//
// Opens the libraries in the order given, looks for CUPTI and prints on four lines: found or not,
// path, version, reason. --self looks in this program instead, which exports functions with CUPTI's
// names as libgpuprobe.so does. A program of its own, because what is loaded stays loaded.
#include <dlfcn.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "cupti/cupti_api.h"

extern "C" {
#define EXPORTED(name) \
  __attribute__((visibility("default"))) int name() { return 0; }
__attribute__((visibility("default"))) int cuptiGetVersion(uint32_t* version) {
  *version = 4711;
  return 0;
}
EXPORTED(cuptiActivityRegisterCallbacks)
EXPORTED(cuptiActivityEnable)
EXPORTED(cuptiActivityDisable)
EXPORTED(cuptiActivityFlushAll)
EXPORTED(cuptiActivityGetNumDroppedRecords)
EXPORTED(cuptiSubscribe)
EXPORTED(cuptiUnsubscribe)
}

int main(int argc, char** argv) {
  const char* preferred = nullptr;
  bool self = false;
  for (int i = 1; i < argc; ++i) {
    if (strcmp(argv[i], "--prefer") == 0 && i + 1 < argc) {
      preferred = argv[++i];
    } else if (strcmp(argv[i], "--self") == 0) {
      self = true;
    } else if (dlopen(argv[i], RTLD_NOW | RTLD_GLOBAL) == nullptr) {
      fprintf(stderr, "%s\n", dlerror());
      return 1;
    }
  }
  gpuprobe::cupti::CuptiApi api;
  char why[2048] = "";
  const bool found =
      self ? gpuprobe::cupti::FillCuptiApi(&api, dlopen(nullptr, RTLD_LAZY), why, sizeof(why))
           : gpuprobe::cupti::LoadCupti(&api, preferred, why, sizeof(why));
  printf("%s\n%s\n%u\n%s\n", found ? "found" : "not found", api.path, api.version, why);
  return 0;
}
