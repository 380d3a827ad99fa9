// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "tools/load/capture_facts.h"

#include <algorithm>
#include <string>

#include "absl/strings/ascii.h"

namespace gpuprobe::tools {
namespace {

// a - b of values from a file, which may be anything.
int64_t Difference(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) - static_cast<uint64_t>(b));
}

// The one that is farther from 0.
int64_t Farther(int64_t a, int64_t b) {
  const auto magnitude = [](int64_t v) {
    return v < 0 ? -static_cast<uint64_t>(v) : static_cast<uint64_t>(v);
  };
  return magnitude(b) > magnitude(a) ? b : a;
}

template <typename Outcomes>
std::vector<CaptureOutcome> ReadOutcomes(const Outcomes& outcomes) {
  std::vector<CaptureOutcome> out;
  for (const auto& outcome : outcomes) out.push_back({outcome.name(), outcome.result()});
  return out;
}

bool Captured(const std::vector<CaptureOutcome>& kinds, const char* word) {
  return std::any_of(kinds.begin(), kinds.end(), [word](const CaptureOutcome& kind) {
    return kind.result == 0 && absl::AsciiStrToUpper(kind.name).find(word) != std::string::npos;
  });
}

}  // namespace

void ReadCaptureInfo(const CaptureInfo& info, Process* process, ProcessCapture* capture) {
  const bool first = capture->gpuprobe_version.empty();
  if (!first && info.graph_node_level() && !capture->graph_node_level) {
    capture->graph_level_given_up = true;
  }
  capture->gpuprobe_version = info.gpuprobe_version();
  capture->door = info.door();
  capture->cupti_path = info.cupti_path();
  capture->cupti_version = info.cupti_version();
  capture->driver_version = info.driver_version();
  capture->driver_release = info.driver_release();
  capture->off_reason = info.off_reason();
  capture->graph_node_level = info.graph_node_level();
  capture->latency_timestamps = info.latency_timestamps();
  capture->settings.clear();
  for (const auto& setting : info.settings()) {
    capture->settings.push_back({setting.name(), setting.value(), setting.is_default()});
  }
  capture->kinds = ReadOutcomes(info.kinds());
  capture->attributes = ReadOutcomes(info.attributes());
  capture->warnings.assign(info.warnings().begin(), info.warnings().end());
  process->has_runtime_api |= Captured(capture->kinds, "RUNTIME");
  process->has_driver_api |= Captured(capture->kinds, "DRIVER");
  process->has_sync_records |= Captured(capture->kinds, "SYNCHRONIZATION");
}

void ReadCost(const Cost& cost, CostFacts* facts) {
  facts->known = true;
  facts->drain_cpu_ns = static_cast<int64_t>(cost.drain_cpu_ns());
  facts->flush_ns = static_cast<int64_t>(cost.flush_ns());
  facts->start_ns = static_cast<int64_t>(cost.start_ns());
  facts->records = cost.records();
  facts->cupti_bytes = cost.cupti_bytes();
  facts->written_bytes = cost.written_bytes();
  facts->buffers_completed = cost.buffers_completed();
  facts->memory_bytes = cost.memory_bytes();
  facts->flush_calls = cost.flush_calls();
  facts->buffers_outstanding = cost.buffers_outstanding();
  facts->buffers_peak = cost.buffers_peak();
}

void ReadUsage(const ProcessUsage& usage, Process* process, UsageFacts* facts) {
  const auto known = [](int64_t value) { return std::max<int64_t>(0, value); };
  process->wall_ns = known(usage.wall_ns());
  process->user_cpu_ns = known(usage.user_cpu_ns());
  process->system_cpu_ns = known(usage.system_cpu_ns());
  process->children_cpu_ns = known(usage.children_cpu_ns());
  facts->peak_rss_bytes = known(usage.peak_rss_bytes());
  facts->voluntary_switches = usage.voluntary_switches();
  facts->involuntary_switches = usage.involuntary_switches();
}

void ClockReader::Add(const ClockPair& pair) {
  const int64_t constant = Difference(pair.trace_ns(), pair.monotonic_ns());
  const int64_t realtime = Difference(pair.realtime_ns(), pair.trace_ns());
  const int64_t cupti = Difference(pair.cupti_ns(), pair.realtime_ns());
  if (facts_.pairs == 0) {
    facts_.first_trace_ns = pair.trace_ns();
    facts_.trace_minus_monotonic_ns = constant;
    first_realtime_ns_ = last_realtime_ns_ = realtime;
  }
  ++facts_.pairs;
  facts_.last_trace_ns = pair.trace_ns();
  facts_.uncertainty_ns = std::max(facts_.uncertainty_ns, pair.uncertainty_ns());
  facts_.monotonic_wobble_ns =
      Farther(facts_.monotonic_wobble_ns, Difference(constant, facts_.trace_minus_monotonic_ns));
  facts_.realtime_step_ns =
      Farther(facts_.realtime_step_ns, Difference(realtime, last_realtime_ns_));
  facts_.realtime_drift_ns = Difference(realtime, first_realtime_ns_);
  last_realtime_ns_ = realtime;
  if (pair.cupti_ns() != 0) {
    if (!facts_.cupti_read) first_cupti_ns_ = cupti;
    facts_.cupti_read = true;
    facts_.cupti_drift_ns = Farther(facts_.cupti_drift_ns, Difference(cupti, first_cupti_ns_));
  }
}

}  // namespace gpuprobe::tools
