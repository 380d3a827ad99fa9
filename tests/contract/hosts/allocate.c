// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Allocates, uses and frees: what a sanitizer looks at.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int main(void) {
  size_t sum = 0;
  for (size_t size = 1; size < 100000; size *= 3) {
    char* memory = malloc(size);
    memset(memory, 1, size);
    sum += (size_t)memory[size - 1];
    free(memory);
  }
  printf("sum %zu\n", sum);
  return 0;
}
