// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "tools/figures/trust.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "tools/format/format_units.h"
#include "tools/load/loss_causes.h"
#include "tools/report/report_parts.h"

namespace gpuprobe::tools {
namespace {

// Clocks that agree better than this are not worth a word.
constexpr int64_t kClockWorthNamingNs = 10'000;

std::string Percent(int64_t part, int64_t whole) {
  return FormatPercent(static_cast<double>(part), static_cast<double>(whole));
}

std::string BlindText(const ReportInput& input) {
  std::vector<std::string> takers;
  for (const Blind& blind : input.run.timeline.blinds) {
    if (std::find(takers.begin(), takers.end(), blind.who) == takers.end())
      takers.push_back(blind.who);
  }
  if (input.analysis.blind_ns == 0 && takers.empty()) return "no blind period";
  std::string text = absl::StrCat("blind for ", FormatDuration(input.analysis.blind_ns));
  if (takers.empty()) return text;
  absl::StrAppend(&text, " (", takers.front());
  if (takers.size() > 1) absl::StrAppend(&text, " and ", takers.size() - 1, " more");
  return text + ")";
}

std::string SlowdownText(const Trust& trust) {
  const auto percent = [](double share) {
    return absl::StrFormat("%.*f", share < 0.1 ? 1 : 0, 100 * share);
  };
  const std::string low = percent(trust.slowdown_low()), high = percent(trust.slowdown_high());
  std::string range = low == high ? high : absl::StrCat(low, " to ", high);
  // The estimate of the cost is longer than the capture: it says nothing above the other one.
  if (trust.slowdown_high() < trust.slowdown_low()) range = absl::StrCat("more than ", low);
  return absl::StrCat("recording slowed launching by ", range,
                      " % (estimate: ", FormatPlural(trust.records, "record"), " x ",
                      FormatDuration(kRecordCostLowNs), " to ", FormatDuration(kRecordCostHighNs),
                      ")");
}

// What the library had to say of its settings and itself, each once however many processes said
// it.
std::vector<std::string> Warnings(const LoadedRun& run) {
  std::vector<std::string> warnings;
  for (const ProcessCapture& capture : run.captures) {
    for (const std::string& warning : capture.warnings) {
      if (std::find(warnings.begin(), warnings.end(), warning) == warnings.end())
        warnings.push_back(warning);
    }
  }
  return warnings;
}

std::string ClockText(const Trust& trust) {
  if (trust.clock_step_ns > kSameClockNs) {
    return absl::StrCat("wall clock stepped by ", FormatDuration(trust.clock_step_ns));
  }
  if (trust.clock_error_ns > kClockWorthNamingNs) {
    return absl::StrCat("clocks within ", FormatDuration(trust.clock_error_ns), " only");
  }
  return absl::StrCat("clocks within ", FormatDuration(trust.clock_error_ns));
}

}  // namespace

double Trust::Slowdown(int64_t record_ns) const {
  const double cost_ns = static_cast<double>(records) * static_cast<double>(record_ns);
  const double without_ns = static_cast<double>(process_ns) - cost_ns;
  return without_ns > 0 ? cost_ns / without_ns : 0;
}

Trust MeasureTrust(const ReportInput& input) {
  Trust trust;
  for (const DeviceReport& device : input.analysis.devices) {
    trust.ops += device.ops;
    trust.with_submission += device.ops_with_submission;
    trust.idle_ns += device.idle_ns;
    for (const CauseTotal& cause : device.causes) {
      if (cause.cause == Cause::kUnknown) trust.unknown_ns += cause.total_ns;
      if (cause.cause == Cause::kHost) trust.host_ns += cause.total_ns;
    }
  }
  const auto& processes = input.run.timeline.processes;
  for (size_t p = 0; p < input.run.captures.size(); ++p) {
    const ProcessCapture& capture = input.run.captures[p];
    if (capture.clock.pairs > 0) {
      trust.clocks_known = true;
      trust.clock_error_ns = std::max<int64_t>(trust.clock_error_ns, capture.clock.uncertainty_ns);
      trust.clock_step_ns = std::max(trust.clock_step_ns, capture.clock.realtime_step_ns);
    }
    if (!capture.cost.known) continue;
    const int64_t captured_ns = processes[p].capture_end_ns - processes[p].capture_begin_ns;
    trust.cost_known = true;
    trust.drain_cpu_ns += capture.cost.drain_cpu_ns;
    trust.sampler_cpu_ns += capture.sampler.cpu_ns;
    trust.captured_ns = std::max(trust.captured_ns, captured_ns);
    trust.process_ns += std::max<int64_t>(0, captured_ns);
    trust.records += capture.cost.records;
  }
  for (const LossItem& loss : input.run.timeline.losses) {
    const LossWords& words = WordsForLoss(loss.cause);
    if (words.hides && std::strcmp(words.unit, "records") == 0) trust.lost_records += loss.count;
  }
  return trust;
}

std::string TrustText(const ReportInput& input, const Trust& trust) {
  std::vector<std::string> facts;
  if (trust.ops > 0) {
    facts.push_back(absl::StrCat(
        Percent(static_cast<int64_t>(trust.with_submission), static_cast<int64_t>(trust.ops)),
        " of launches seen"));
  }
  if (trust.idle_ns > 0) {
    std::string explained =
        absl::StrCat(Percent(trust.explained_ns(), trust.idle_ns), " of idle explained");
    if (trust.host_ns > 0) {
      absl::StrAppend(&explained, " (", Percent(trust.host_ns, trust.idle_ns),
                      " outside CUDA, not sampled)");
    }
    facts.push_back(std::move(explained));
  }
  if (trust.cost_known && trust.captured_ns > 0) {
    facts.push_back(
        absl::StrCat("own cost ", Percent(trust.own_cpu_ns(), trust.captured_ns), " of a core"));
    if (trust.records > 0 && trust.slowdown_low() > 0) facts.push_back(SlowdownText(trust));
  }
  if (trust.lost_records > 0) {
    facts.push_back(absl::StrCat(FormatPlural(trust.lost_records, "record"), " lost"));
  }
  if (!IsUsageOnly(input.run)) facts.push_back(BlindText(input));
  if (trust.clocks_known && (trust.clock_error_ns > 0 || trust.clock_step_ns > kSameClockNs))
    facts.push_back(ClockText(trust));
  if (!input.run.aligned) facts.push_back("clocks of several hosts not aligned");
  constexpr size_t kShownWarnings = 3;
  const std::vector<std::string> warnings = Warnings(input.run);
  for (size_t w = 0; w < warnings.size() && w < kShownWarnings; ++w) facts.push_back(warnings[w]);
  if (warnings.size() > kShownWarnings) {
    facts.push_back(absl::StrCat(FormatPlural(warnings.size() - kShownWarnings, "more warning"),
                                 " (probe-report info)"));
  }
  std::vector<std::string> absent;  // what imported files cannot tell
  for (const ProcessCapture& capture : input.run.captures) {
    for (const std::string& item : capture.absent) {
      if (std::find(absent.begin(), absent.end(), item) == absent.end()) absent.push_back(item);
    }
  }
  if (!absent.empty()) facts.push_back(absl::StrCat("not told: ", absl::StrJoin(absent, ", ")));
  return absl::StrJoin(facts, "; ");
}

void WriteTrust(const ReportInput& input, const Trust& trust, bool idle_known, JsonWriter* json) {
  json->Key("trust").BeginObject();
  json->Field("operations", trust.ops).Field("operations_with_submission", trust.with_submission);
  json->Field("idle_ns", idle_known ? trust.idle_ns : 0);
  json->Field("idle_unknown_ns", idle_known ? trust.unknown_ns : 0);
  json->Field("idle_host_ns", idle_known ? trust.host_ns : 0);
  json->Field("idle_explained_ns", idle_known ? trust.explained_ns() : 0);
  json->Field("drain_cpu_ns", trust.drain_cpu_ns);
  json->Field("sampler_cpu_ns", trust.sampler_cpu_ns);
  json->Field("captured_ns", trust.captured_ns);
  json->Field("records", trust.records).Field("lost_records", trust.lost_records);
  json->Key("estimated_slowdown");
  if (trust.cost_known && trust.records > 0) {
    json->BeginObject().Field("low", trust.slowdown_low()).Field("high", trust.slowdown_high());
    json->EndObject();
  } else {
    json->Null();
  }
  json->Field("blind_ns", input.analysis.blind_ns);
  json->Key("clock_error_ns");
  trust.clocks_known ? json->Value(trust.clock_error_ns) : json->Null();
  json->Field("aligned", input.run.aligned);
  json->Key("warnings").BeginArray();
  for (const std::string& warning : Warnings(input.run)) json->Value(warning);
  json->EndArray().EndObject();
}

}  // namespace gpuprobe::tools
