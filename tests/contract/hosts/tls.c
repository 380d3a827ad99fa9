// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Opens libgpuprobe.so late, in places where that is hard.
//   contract_tls LIBRARY_WITH_STATIC_TLS LIBGPUPROBE  copies of the first are opened until the
//   loader has no
//                                                     static TLS left, then libgpuprobe.so
//   contract_tls - LIBGPUPROBE                        opened and closed again, as a driver may do
//   contract_tls namespace|deep LIBGPUPROBE           dlmopen, RTLD_DEEPBIND
#define _GNU_SOURCE
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int Copy(const char* from, const char* to) {
  char buffer[65536];
  FILE* in = fopen(from, "rb");
  FILE* out = fopen(to, "wb");
  size_t n;
  if (in == NULL || out == NULL) return -1;
  while ((n = fread(buffer, 1, sizeof buffer, in)) > 0) fwrite(buffer, 1, n, out);
  fclose(in);
  return fclose(out);
}

// Libraries opened until the first that did not find room; each copy is a file of its own to the
// loader.
static int ExhaustStaticTls(const char* library) {
  enum { kMost = 200 };
  for (int i = 0; i < kMost; ++i) {
    char copy[PATH_MAX];
    snprintf(copy, sizeof copy, "./tls%d.so", i);
    if (Copy(library, copy) != 0) return -1;
    if (dlopen(copy, RTLD_NOW) == NULL) {
      printf("exhausted=%d ", strstr(dlerror(), "static TLS") != NULL);
      return i;
    }
  }
  return kMost;
}

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  const char *mode = argv[1], *library = argv[2];
  void* handle;
  if (strcmp(mode, "namespace") == 0) {
    handle = dlmopen(LM_ID_NEWLM, library, RTLD_NOW | RTLD_LOCAL);
  } else if (strcmp(mode, "deep") == 0) {
    handle = dlopen(library, RTLD_NOW | RTLD_DEEPBIND);
  } else {
    if (strcmp(mode, "-") != 0) printf("loaded=%d ", ExhaustStaticTls(mode));
    handle = dlopen(library, RTLD_NOW | RTLD_LOCAL);
  }
  if (handle == NULL) {
    printf("%s\n", dlerror());
    return 1;
  }
  int (*door)(void) = (int (*)(void))dlsym(handle, "InitializeInjection");
  printf("door=%d ", door != NULL);
  if (strcmp(mode, "-") == 0) {
    dlclose(handle);
    printf("stays=%d", dlopen(library, RTLD_NOW | RTLD_NOLOAD) != NULL);
  }
  printf("\n");
  return 0;
}
