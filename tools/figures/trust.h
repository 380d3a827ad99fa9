// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// How far the summary can be trusted: how much of the work and of the idle time it explains, what
// the recording cost, what it missed.
#ifndef GPUPROBE_TOOLS_FIGURES_TRUST_H_
#define GPUPROBE_TOOLS_FIGURES_TRUST_H_

#include <cstdint>
#include <string>

#include "tools/format/format_json.h"
#include "tools/report/report.h"

namespace gpuprobe::tools {

// What a record costs the application's thread that causes it, most of it inside CUPTI. Measured
// with and without the library on an H200 (bench/RESULTS.md, "Cost of a record"): the low figure in
// a storm of one kernel, the high one in a training step of many different ones.
inline constexpr int64_t kRecordCostLowNs = 1'200, kRecordCostHighNs = 4'200;

struct Trust {
  uint64_t ops = 0, with_submission = 0;
  int64_t idle_ns = 0;
  int64_t unknown_ns = 0, host_ns = 0;  // of it: no cause; outside CUDA, and no more is known
  bool cost_known = false;
  int64_t drain_cpu_ns = 0, sampler_cpu_ns = 0;  // of all processes
  int64_t captured_ns = 0;                       // longest capture
  int64_t process_ns = 0;                        // all captures together
  uint64_t records = 0;       // that have a cost: of processes whose cost is known
  uint64_t lost_records = 0;  // by all causes that count records
  bool clocks_known = false;
  int64_t clock_error_ns = 0;  // largest bracket of a pair of clock readings
  int64_t clock_step_ns = 0;   // largest step of the wall clock
  int64_t own_cpu_ns() const { return drain_cpu_ns + sampler_cpu_ns; }
  int64_t explained_ns() const { return idle_ns - unknown_ns - host_ns; }
  // Of the application's time, at most: where its launching thread is what everything waits for.
  double slowdown_low() const { return Slowdown(kRecordCostLowNs); }
  double slowdown_high() const { return Slowdown(kRecordCostHighNs); }

 private:
  double Slowdown(int64_t record_ns) const;
};

Trust MeasureTrust(const ReportInput& input);
// "100 % of launches seen; 97 % of idle explained; own cost 0.3 % of a core; ..."
std::string TrustText(const ReportInput& input, const Trust& trust);
void WriteTrust(const ReportInput& input, const Trust& trust, bool idle_known, JsonWriter* json);

}  // namespace gpuprobe::tools

#endif  // GPUPROBE_TOOLS_FIGURES_TRUST_H_
