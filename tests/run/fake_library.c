// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Stands in for libgpuprobe.so in the launcher's tests: loaded into the one process whose
// environment says FAKE_RECORD, it leaves an empty trace file in GPUPROBE_OUT; elsewhere it does
// nothing.
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

__attribute__((constructor)) static void Load(void) {
  const char* directory = getenv("GPUPROBE_OUT");
  if (getenv("FAKE_RECORD") == NULL || directory == NULL) return;
  char path[4096];
  snprintf(path, sizeof(path), "%s/%d.gpuprobe", directory, (int)getpid());
  mkdir(directory, 0777);
  const int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
  if (fd >= 0) close(fd);
}

// The driver's door, so that the test of --door injection can see that the same file is offered.
__attribute__((visibility("default"))) int InitializeInjection(void) { return 1; }
