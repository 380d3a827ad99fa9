// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// A host that defines functions of libc itself, as bash does with getenv and setenv. They stand in
// front of libc's for every library; a preload that calls them before main runs code of a host that
// has not started yet. Prints how often that happened.
#include <stddef.h>
#include <stdio.h>

extern void* __libc_malloc(size_t size);
extern void* __libc_calloc(size_t count, size_t size);
extern void* __libc_realloc(void* memory, size_t size);
extern void __libc_free(void* memory);

static int g_main_runs = 0, g_environment_calls = 0, g_memory_calls = 0;

static void Count(int* calls) {
  if (!g_main_runs) ++*calls;
}

char* getenv(const char* name) { return Count(&g_environment_calls), (char*)NULL; }
char* secure_getenv(const char* name) { return Count(&g_environment_calls), (char*)NULL; }
int setenv(const char* name, const char* value, int replace) {
  return Count(&g_environment_calls), -1;
}
int unsetenv(const char* name) { return Count(&g_environment_calls), -1; }
int putenv(char* entry) { return Count(&g_environment_calls), -1; }
int clearenv(void) { return Count(&g_environment_calls), -1; }
void* malloc(size_t size) { return Count(&g_memory_calls), __libc_malloc(size); }
void* calloc(size_t count, size_t size) {
  return Count(&g_memory_calls), __libc_calloc(count, size);
}
void* realloc(void* memory, size_t size) {
  return Count(&g_memory_calls), __libc_realloc(memory, size);
}
void free(void* memory) { Count(&g_memory_calls), __libc_free(memory); }

int main(void) {
  g_main_runs = 1;
  printf("environment=%d memory=%d\n", g_environment_calls, g_memory_calls);
  return 0;
}
