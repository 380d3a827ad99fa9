// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Control interface of the simulated GPU, exported by its libcuda.so.1. Plain C, so that ctypes can
// call it. A host program scripts with it what the hardware would decide (durations, costs,
// latencies) and reads back what really happened (the truth), independently of CUPTI and of any
// client of CUPTI.
//
// Units: times in nanoseconds on the simulation's clock (CLOCK_REALTIME, or the virtual clock when
// GPUSIM_CLOCK=virtual), sizes in bytes. Every function may be called from any thread, also before
// cuInit. None of them counts as a CUDA call.
#ifndef GPUPROBE_TESTS_SIM_GPUSIM_H_
#define GPUPROBE_TESTS_SIM_GPUSIM_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

// ---- time ----
int64_t gpusim_now(void);
int gpusim_is_virtual(void);
// The calling thread works for `ns`: the virtual clock moves on by it; with the real clock the
// thread spins.
void gpusim_advance(int64_t ns);

// ---- script ----
// Settings by name, see README.md ("Settings"); 0: set, -1: no such setting.
int gpusim_set(const char* key, int64_t value);
int64_t gpusim_get(const char* key);  // -1: no such setting
// Duration of every later launch of the kernel `name`.
void gpusim_define_kernel(const char* name, int64_t duration_ns);
// Duration of the calling thread's next kernel, copy or set, whatever its name or size. Used up by
// it.
void gpusim_next_duration(int64_t duration_ns);
// Host time that a call of this name takes (driver and runtime names alike, without version
// suffix).
void gpusim_set_cost(const char* api_name, int64_t ns);
// A value to be passed as `func` to cudaLaunchKernel; the same for the same name.
const void* gpusim_kernel(const char* name);
// Time that CUPTI or the driver spends on itself: an OVERHEAD record of this
// CUpti_ActivityOverheadKind, charged to the calling thread.
void gpusim_overhead(uint32_t kind, int64_t ns);

// ---- truth ----
// Writes the truth (JSON, README.md) to GPUSIM_TRUTH or to the given path. 0: written.
int gpusim_write_truth(void);
int gpusim_write_truth_to(const char* path);
// Totals: "kernels", "copies", "sets", "graphs", "api_calls", "records_emitted",
// "records_delivered", "records_dropped", "buffers_requested", "buffers_completed",
// "buffers_refused", "violations", or "cuptiX" (calls of that function). -1: unknown name.
int64_t gpusim_count(const char* what);
// Broken CUPTI rules so far (0 is what a well-behaved client leaves), and the i-th of them in
// words.
int64_t gpusim_violations(void);
const char* gpusim_violation(int64_t i);  // NULL: no such

// ---- replay ----
// Delivers the recording named by GPUSIM_REPLAY to the CUPTI client of this process.
// 0: delivered; -1: no CUPTI client; -2: the recording cannot be read; -3: the client refuses
// buffers.
int gpusim_replay(void);

#ifdef __cplusplus
}
#endif

#endif  // GPUPROBE_TESTS_SIM_GPUSIM_H_
