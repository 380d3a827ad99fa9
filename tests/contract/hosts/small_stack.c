// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Initialises CUDA on a thread with a stack of so many KiB.
//   contract_small_stack KIB
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

static int (*g_init)(unsigned);

static void* Initialise(void* result) {
  *(int*)result = g_init(0);
  return NULL;
}

int main(int argc, char** argv) {
  const size_t bytes = (argc > 1 ? strtoul(argv[1], NULL, 10) : 0) * 1024;
  void* driver = dlopen("libcuda.so.1", RTLD_NOW);
  if (driver == NULL) return 98;
  *(void**)&g_init = dlsym(driver, "cuInit");
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  if (g_init == NULL || pthread_attr_setstacksize(&attributes, bytes) != 0) return 97;
  pthread_t thread;
  int result = -1;
  if (pthread_create(&thread, &attributes, &Initialise, &result) != 0) return 96;
  pthread_join(thread, NULL);
  printf("result=%d\n", result);
  return 0;
}
