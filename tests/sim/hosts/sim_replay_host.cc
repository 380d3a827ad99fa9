// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Host of a replay: initialises CUDA (which lets the client in), has the recording in GPUSIM_REPLAY
// delivered, and ends. Exit code 0; 2: cuInit failed; 3: no CUPTI client in the process; 4: the
// recording cannot be read; 5: the client refuses buffers.
#include <cuda.h>

#include <cstdio>

#include "tests/sim/gpusim.h"

int main() {
  if (cuInit(0) != CUDA_SUCCESS) return 2;
  const int result = gpusim_replay();
  if (result != 0) fprintf(stderr, "sim_replay_host: gpusim_replay() = %d\n", result);
  return result == 0 ? 0 : 2 - result;
}
