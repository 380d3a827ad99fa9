// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// One measurement of the host sampler on the process that calls it: a C function, so that a Python
// host can make it, too (through ctypes).
#ifndef GPUPROBE_BENCH_HOST_SAMPLER_MEASURE_H_
#define GPUPROBE_BENCH_HOST_SAMPLER_MEASURE_H_

#include <stdint.h>

extern "C" {

// What the sampler looks at; each includes the ones before.
enum BenchSampled { kBenchThreads, kBenchPython, kBenchNative, kBenchAll };

// Samples this process for `seconds` with `tids` as the threads that call CUDA, and prints a line:
// system calls, wake-ups and CPU time a tick. Returns when the sampler has ended.
__attribute__((visibility("default"))) void MeasureSampler(const char* host, int sampled,
                                                           double seconds, const uint32_t* tids,
                                                           int tid_count);
}

#endif  // GPUPROBE_BENCH_HOST_SAMPLER_MEASURE_H_
