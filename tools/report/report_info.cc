// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Can the trace be trusted: what was captured, what was lost and when, clocks, cost, files.
#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "tools/figures/info_samples.h"
#include "tools/format/format_table.h"
#include "tools/format/format_text.h"
#include "tools/format/format_units.h"
#include "tools/load/damage_words.h"
#include "tools/load/loss_causes.h"
#include "tools/report/report_parts.h"
#include "tools/timeline/device_number.h"

namespace gpuprobe::tools {
namespace {

constexpr size_t kLabelWidth = 12;

void AppendFact(const std::string& label, const std::string& text, std::string* out) {
  if (text.empty()) return;
  absl::StrAppend(out, "  ", absl::StrFormat("%-*s", static_cast<int>(kLabelWidth), label),
                  WrapText(ToPrintable(text), kLabelWidth + 2, kLabelWidth + 2, kReportWidth),
                  "\n");
}

// CUPTI API versions are CUDA's: 130001 is of CUDA 13.0.
std::string CuptiVersion(uint32_t version) {
  if (version == 0) return "unknown version";
  return absl::StrFormat("API %d", version);
}

std::string DriverVersion(const ProcessCapture& capture) {
  const int32_t version = capture.driver_version;
  if (!capture.driver_release.empty()) return absl::StrCat("driver ", capture.driver_release);
  if (version <= 0) return "driver not read";
  return absl::StrFormat("driver for CUDA %d.%d", version / 1000, version % 1000 / 10);
}

std::string Outcomes(const std::vector<CaptureOutcome>& outcomes) {
  return absl::StrJoin(outcomes, ", ", [](std::string* out, const CaptureOutcome& outcome) {
    absl::StrAppend(out, outcome.name);
    if (outcome.result != 0) absl::StrAppend(out, " (refused: error ", outcome.result, ")");
  });
}

std::string ChangedSettings(const ProcessCapture& capture) {
  std::vector<std::string> changed;
  for (const CaptureSetting& setting : capture.settings) {
    if (!setting.is_default) changed.push_back(absl::StrCat(setting.name, "=", setting.value));
  }
  if (!changed.empty()) return absl::StrJoin(changed, " ");
  return capture.settings.empty() ? "" : "all at their defaults";
}

std::string Clocks(const ClockFacts& clock) {
  if (clock.pairs == 0) return "no pair recorded";
  std::string text =
      absl::StrCat(FormatPlural(clock.pairs, "pair"), " over ",
                   FormatDuration(clock.last_trace_ns - clock.first_trace_ns), ", read within ",
                   FormatDuration(clock.uncertainty_ns), "; wall clock moved by ",
                   FormatDuration(clock.realtime_drift_ns));
  if (clock.realtime_step_ns > kSameClockNs) {
    absl::StrAppend(&text, " (a step of ", FormatDuration(clock.realtime_step_ns), ")");
  }
  if (clock.cupti_read)
    absl::StrAppend(&text, "; CUPTI's by ", FormatDuration(clock.cupti_drift_ns));
  if (clock.monotonic_wobble_ns != 0) {
    absl::StrAppend(&text, "; trace clock departs from the monotonic one by ",
                    FormatDuration(clock.monotonic_wobble_ns));
  }
  if (clock.shift_ns != 0) absl::StrAppend(&text, "; shifted by ", FormatDuration(clock.shift_ns));
  return text;
}

std::string CostText(const CostFacts& cost, int64_t captured_ns) {
  if (!cost.known) return "not recorded";
  std::string text = absl::StrCat(
      "drain ", FormatDuration(cost.drain_cpu_ns), " CPU (",
      FormatPercent(static_cast<double>(cost.drain_cpu_ns), static_cast<double>(captured_ns)),
      " of a core); ", FormatPlural(cost.records, "record"), ", ", FormatBytes(cost.written_bytes));
  if (cost.records > 0) {
    absl::StrAppendFormat(
        &text, " (%.2f bytes and %.0f ns a record)",
        static_cast<double>(cost.written_bytes) / static_cast<double>(cost.records),
        static_cast<double>(cost.drain_cpu_ns) / static_cast<double>(cost.records));
  }
  absl::StrAppend(&text, "; ", FormatBytes(cost.memory_bytes), " reserved; ",
                  FormatPlural(cost.buffers_completed, "buffer"), " completed, at most ",
                  cost.buffers_peak, " at once, ", cost.buffers_outstanding, " outstanding; ",
                  FormatPlural(cost.flush_calls, "flush call"), " took ",
                  FormatDuration(cost.flush_ns), "; start took ", FormatDuration(cost.start_ns));
  return text;
}

std::string Captured(const Process& process) {
  std::vector<std::string> what;
  if (process.has_runtime_api) what.push_back("runtime calls");
  if (process.has_driver_api) what.push_back("driver calls");
  if (process.has_sync_records) what.push_back("synchronisation");
  return what.empty() ? "no host calls: causes that need them are unknown"
                      : absl::StrJoin(what, ", ");
}

std::string GraphLevel(const ProcessCapture& capture) {
  if (capture.graph_level_given_up) {
    return "as a whole until another client used CUPTI, node by node since (replay is slower)";
  }
  return capture.graph_node_level ? "node by node (replay is slower while traced)" : "as a whole";
}

// The rest of the block for a process that another tool recorded.
void AppendImported(const Process& process, const ProcessCapture& capture, int64_t origin,
                    std::string* out) {
  AppendFact("recorded by", capture.recorder, out);
  AppendFact("records",
             absl::StrCat("from ", RelativeTime(process.capture_begin_ns, origin), " to ",
                          RelativeTime(process.capture_end_ns, origin)),
             out);
  for (const std::string& warning : capture.warnings) AppendFact("warning", warning, out);
  if (capture.driver_version > 0) {
    AppendFact("driver", DriverVersion(capture), out);
  }
  AppendFact("host calls", Captured(process), out);
  AppendFact("graphs", GraphLevel(capture), out);
  AppendFact("absent", absl::StrJoin(capture.absent, "; "), out);
  if (capture.clock.shift_ns != 0) {
    AppendFact("clock", absl::StrCat("shifted by ", FormatDuration(capture.clock.shift_ns)), out);
  }
}

std::string ProcessBlock(const LoadedRun& run, const std::vector<SampledView>& views, size_t index,
                         int64_t origin) {
  const Process& process = run.timeline.processes[index];
  const ProcessCapture& capture = run.captures[index];
  std::string title = absl::StrCat("PROCESS ", process.pid);
  if (process.rank >= 0) absl::StrAppend(&title, " rank ", process.rank);
  absl::StrAppend(&title, " on ", process.host.empty() ? "an unknown host" : process.host);
  std::string out = absl::StrCat("\n", WrapText(ToPrintable(title), 0, 2, kReportWidth), "\n");
  AppendFact("command", process.command_line.empty() ? process.executable : process.command_line,
             &out);
  if (process.source != SourceKind::kGpuprobe) {
    AppendImported(process, capture, origin, &out);
    return out;
  }
  AppendFact("captured",
             absl::StrCat(RelativeTime(process.capture_begin_ns, origin), " to ",
                          RelativeTime(process.capture_end_ns, origin), ", ",
                          process.ended ? absl::StrCat("closed (", capture.end_reason, ")")
                                        : absl::StrCat("not closed: ", kWhyNotClosed)),
             &out);
  AppendFact(
      "gpuprobe",
      absl::StrCat(capture.gpuprobe_version.empty() ? "unknown version" : capture.gpuprobe_version,
                   ", door ", capture.door.empty() ? "unknown" : capture.door),
      &out);
  const bool recorded = !capture.told_not_to_record();
  AppendFact(recorded ? "off" : "recorded",
             recorded
                 ? capture.off_reason
                 : "how long it took and what it used, as asked (GPUPROBE_CAPTURE=off); no GPU "
                   "work, no CUDA calls, no host samples",
             &out);
  for (const std::string& warning : capture.warnings) AppendFact("warning", warning, &out);
  if (!recorded) {
    AppendFact("settings", ChangedSettings(capture), &out);
    AppendFact("clocks", Clocks(capture.clock), &out);
    for (const auto& [label, text] : SamplerLines(run, views, index)) AppendFact(label, text, &out);
    return out;
  }
  AppendFact("CUPTI",
             absl::StrCat(CuptiVersion(capture.cupti_version), ", ",
                          capture.cupti_path.empty() ? "path unknown" : capture.cupti_path, ", ",
                          DriverVersion(capture)),
             &out);
  AppendFact("kinds", Outcomes(capture.kinds), &out);
  AppendFact("attributes", Outcomes(capture.attributes), &out);
  AppendFact("host calls", Captured(process), &out);
  AppendFact("graphs", GraphLevel(capture), &out);
  AppendFact("settings", ChangedSettings(capture), &out);
  AppendFact("clocks", Clocks(capture.clock), &out);
  AppendFact("cost", CostText(capture.cost, process.capture_end_ns - process.capture_begin_ns),
             &out);
  for (const auto& [label, text] : SamplerLines(run, views, index)) AppendFact(label, text, &out);
  return out;
}

std::string FilesBlock(const LoadedRun& run) {
  Table table;
  table.columns = {{"bytes"},
                   {"frames", Align::kRight, false, false, 2},
                   {"records"},
                   {"B/record", Align::kRight, false, false, 1},
                   {"damaged"},
                   {"unknown", Align::kRight, false, false, 3},
                   {"state", Align::kLeft},
                   {"file", Align::kLeft, true}};
  for (const InputFile& file : run.timeline.inputs) {
    const std::string per_record =
        file.records == 0 ? "-"
                          : absl::StrFormat("%.2f", static_cast<double>(file.bytes) /
                                                        static_cast<double>(file.records));
    table.rows.push_back({FormatCount(file.bytes), FormatCount(file.frames),
                          FormatCount(file.records), per_record,
                          file.damaged_bytes == 0 ? "-" : FormatBytes(file.damaged_bytes),
                          file.unknown_packets + file.unknown_fields == 0
                              ? "-"
                              : FormatCount(file.unknown_packets + file.unknown_fields),
                          file.complete     ? "complete"
                          : file.bytes == 0 ? "empty"
                                            : "partial",
                          file.path});
  }
  return table.rows.empty() ? "" : absl::StrCat("\nFILES\n", RenderTable(table, 2));
}

std::string Period(int64_t begin_ns, int64_t end_ns, int64_t origin) {
  if (begin_ns == 0 && end_ns == 0) return "at an unknown time";
  return absl::StrCat(begin_ns == 0 ? "the start" : RelativeTime(begin_ns, origin), " to ",
                      end_ns == 0 ? "the end" : RelativeTime(end_ns, origin));
}

std::string LossBlock(const LoadedRun& run, int64_t origin) {
  Table table;
  table.columns = {{"count"},
                   {"of", Align::kLeft},
                   {"pid"},
                   {"when", Align::kLeft},
                   {"cause", Align::kLeft, true}};
  for (const LossItem& loss : run.timeline.losses) {
    std::string cause = WordsForLoss(loss.cause).text;
    if (WordsForLoss(loss.cause).has_errno && loss.detail > 0 && loss.detail < 200) {
      absl::StrAppend(&cause, ": ", std::strerror(static_cast<int>(loss.detail)));
    } else if (loss.detail != 0) {
      absl::StrAppend(&cause, " (detail ", loss.detail, ")");
    }
    table.rows.push_back(
        {FormatCount(loss.count), WordsForLoss(loss.cause).unit,
         absl::StrCat(run.timeline.processes[static_cast<size_t>(loss.process)].pid),
         Period(loss.begin_ns, loss.end_ns, origin), cause});
  }
  const auto& processes = run.timeline.processes;
  const bool own = std::any_of(processes.begin(), processes.end(), [](const Process& process) {
    return process.source == SourceKind::kGpuprobe;
  });
  const bool imported = !own && !processes.empty();
  std::string out = imported             ? "\nLOST      not told by imported files\n"
                    : table.rows.empty() ? "\nLOST      nothing\n"
                                         : absl::StrCat("\nLOST\n", RenderTable(table, 2));

  Table damage;
  damage.columns = {{"damage", Align::kLeft},
                    {"offset"},
                    {"bytes"},
                    {"when", Align::kLeft},
                    {"file and reason", Align::kLeft, true}};
  for (const FileDamage& item : run.damage) {
    const std::string& path = run.timeline.inputs[static_cast<size_t>(item.input)].path;
    damage.rows.push_back({item.kind, FormatCount(item.offset), FormatCount(item.bytes),
                           Period(item.begin_ns, item.end_ns, origin),
                           item.detail.empty() ? path : absl::StrCat(path, ": ", item.detail)});
  }
  if (!damage.rows.empty()) absl::StrAppend(&out, "\nDAMAGE\n", RenderTable(damage, 2));

  Table blind;
  blind.columns = {{"blind"}, {"pid"}, {"when", Align::kLeft}, {"who or why", Align::kLeft, true}};
  for (const Blind& item : run.timeline.blinds) {
    if (item.why != Blind::Why::kOtherClient) continue;
    blind.rows.push_back(
        {FormatDuration(item.end_ns - item.begin_ns),
         absl::StrCat(run.timeline.processes[static_cast<size_t>(item.process)].pid),
         Period(item.begin_ns, item.end_ns, origin), item.who});
  }
  if (imported) return out;
  absl::StrAppend(&out, blind.rows.empty() ? "\nBLIND     never: no other CUPTI client took over\n"
                                           : absl::StrCat("\nBLIND\n", RenderTable(blind, 2)));
  return out;
}

std::string CoverageBlock(const ReportInput& input) {
  std::string out = "\nCOVERAGE\n";
  const KernelRecordsCheck check = CheckKernelRecords(input);
  if (check.unavailable) {
    AppendFact("kernels", absl::StrCat("records unavailable: ", check.reason), &out);
  }
  for (const DeviceReport& device : input.analysis.devices) {
    int64_t unknown_ns = 0;
    for (const CauseTotal& cause : device.causes) {
      // Plain `host` explains nothing, as in the summary's TRUST line.
      if (cause.cause == Cause::kUnknown || cause.cause == Cause::kHost) {
        unknown_ns += cause.total_ns;
      }
    }
    std::string text = absl::StrCat(FormatPercent(static_cast<double>(device.ops_with_submission),
                                                  static_cast<double>(device.ops)),
                                    " of ", FormatPlural(device.ops, "operation"),
                                    " with the call that submitted it");
    if (!check.unavailable) {
      absl::StrAppend(&text, "; ",
                      FormatPercent(static_cast<double>(device.idle_ns - unknown_ns),
                                    static_cast<double>(device.idle_ns)),
                      " of idle time explained");
    }
    if (device.untimed > 0) {
      absl::StrAppend(&text, "; without usable times: ", device.untimed_missing, " missing, ",
                      device.untimed_unfinished, " unfinished, ", device.untimed_invalid,
                      " invalid");
    }
    if (device.ops_before_submission > 0) {
      absl::StrAppend(&text, "; ", FormatCount(device.ops_before_submission),
                      " start before their call, by at most ",
                      FormatDuration(device.largest_skew_ns),
                      " (clock conversion; read as no delay)");
    }
    AppendFact(absl::StrCat("GPU ", DeviceNumber(input.run.timeline, device.device)), text, &out);
  }
  if (input.run.folded_driver_calls > 0) {
    AppendFact("folded",
               absl::StrCat(FormatPlural(input.run.folded_driver_calls, "driver call"),
                            " beneath runtime calls"),
               &out);
  }
  if (!input.run.aligned) {
    AppendFact("clocks",
               "files of several hosts or boots: not aligned, nothing is concluded across them",
               &out);
  }
  return out;
}

void WriteOutcomes(const char* key, const std::vector<CaptureOutcome>& outcomes, JsonWriter* json) {
  json->Key(key).BeginArray();
  for (const CaptureOutcome& outcome : outcomes) {
    json->BeginObject().Field("name", outcome.name).Field("result", outcome.result).EndObject();
  }
  json->EndArray();
}

void WriteClock(const ClockFacts& clock, JsonWriter* json) {
  json->Key("clock").BeginObject();
  json->Field("pairs", clock.pairs).Field("first_trace_ns", clock.first_trace_ns);
  json->Field("last_trace_ns", clock.last_trace_ns);
  json->Field("trace_minus_monotonic_ns", clock.trace_minus_monotonic_ns);
  json->Field("monotonic_wobble_ns", clock.monotonic_wobble_ns);
  json->Field("realtime_drift_ns", clock.realtime_drift_ns)
      .Field("realtime_step_ns", clock.realtime_step_ns);
  json->Field("cupti_read", clock.cupti_read).Field("cupti_drift_ns", clock.cupti_drift_ns);
  json->Field("uncertainty_ns", clock.uncertainty_ns).Field("shift_ns", clock.shift_ns).EndObject();
}

void WriteCost(const CostFacts& cost, JsonWriter* json) {
  json->Key("cost");
  if (!cost.known) {
    json->Null();
    return;
  }
  json->BeginObject().Field("drain_cpu_ns", cost.drain_cpu_ns).Field("records", cost.records);
  json->Field("cupti_bytes", cost.cupti_bytes).Field("written_bytes", cost.written_bytes);
  json->Field("buffers_completed", cost.buffers_completed);
  json->Field("buffers_outstanding", cost.buffers_outstanding)
      .Field("buffers_peak", cost.buffers_peak);
  json->Field("memory_bytes", cost.memory_bytes).Field("flush_calls", cost.flush_calls);
  json->Field("flush_ns", cost.flush_ns).Field("start_ns", cost.start_ns).EndObject();
}

const char* SourceKey(SourceKind source) {
  switch (source) {
    case SourceKind::kGpuprobe:
      return "gpuprobe";
    case SourceKind::kKineto:
      return "kineto";
    case SourceKind::kNsys:
      return "nsys";
  }
  return "unknown";
}

void WriteProcess(const LoadedRun& run, const std::vector<SampledView>& views, size_t index,
                  JsonWriter* json) {
  const Process& process = run.timeline.processes[index];
  const ProcessCapture& capture = run.captures[index];
  json->BeginObject().Field("pid", process.pid).Field("parent_pid", capture.parent_pid);
  json->Field("host", process.host).Field("boot_id", capture.boot_id).Field("rank", process.rank);
  json->Field("local_rank", capture.local_rank).Field("world_size", capture.world_size);
  json->Field("executable", process.executable).Field("command_line", process.command_line);
  json->Field("capture_begin_ns", process.capture_begin_ns)
      .Field("capture_end_ns", process.capture_end_ns);
  json->Field("ended", process.ended).Field("end_reason", capture.end_reason);
  json->Field("has_runtime_api", process.has_runtime_api)
      .Field("has_driver_api", process.has_driver_api);
  json->Field("has_sync_records", process.has_sync_records);
  json->Field("gpuprobe_version", capture.gpuprobe_version).Field("door", capture.door);
  json->Field("cupti_path", capture.cupti_path).Field("cupti_version", capture.cupti_version);
  json->Field("driver_version", capture.driver_version)
      .Field("driver_release", capture.driver_release)
      .Field("off_reason", capture.off_reason);
  json->Field("graph_node_level", capture.graph_node_level);
  json->Field("graph_level_given_up", capture.graph_level_given_up);
  json->Field("latency_timestamps", capture.latency_timestamps);
  WriteOutcomes("kinds", capture.kinds, json);
  WriteOutcomes("attributes", capture.attributes, json);
  json->Key("settings").BeginArray();
  for (const CaptureSetting& setting : capture.settings) {
    json->BeginObject().Field("name", setting.name).Field("value", setting.value);
    json->Field("is_default", setting.is_default).EndObject();
  }
  json->EndArray().Key("warnings").BeginArray();
  for (const std::string& warning : capture.warnings) json->Value(warning);
  json->EndArray().Field("source", SourceKey(process.source)).Field("recorder", capture.recorder);
  json->Key("absent").BeginArray();
  for (const std::string& absent : capture.absent) json->Value(absent);
  json->EndArray();
  WriteClock(capture.clock, json);
  WriteCost(capture.cost, json);
  WriteSampler(run, views, index, json);
  json->Key("files").BeginArray();
  for (int32_t file : process.files)
    json->Value(run.timeline.inputs[static_cast<size_t>(file)].path);
  json->EndArray().EndObject();
}

const char* BlindKey(Blind::Why why) {
  switch (why) {
    case Blind::Why::kOtherClient:
      return "other_client";
    case Blind::Why::kLoss:
      return "loss";
    case Blind::Why::kDamage:
      return "damage";
  }
  return "unknown";
}

void WriteHoles(const LoadedRun& run, JsonWriter* json) {
  json->Key("damage").BeginArray();
  for (const FileDamage& item : run.damage) {
    json->BeginObject().Field("path", run.timeline.inputs[static_cast<size_t>(item.input)].path);
    json->Field("kind", item.kind).Field("offset", item.offset).Field("bytes", item.bytes);
    json->Field("frames", item.frames)
        .Field("begin_ns", item.begin_ns)
        .Field("end_ns", item.end_ns);
    json->Field("detail", item.detail).EndObject();
  }
  json->EndArray().Key("blind").BeginArray();
  for (const Blind& item : run.timeline.blinds) {
    json->BeginObject().Field("why", BlindKey(item.why)).Field("who", item.who);
    json->Field("pid", run.timeline.processes[static_cast<size_t>(item.process)].pid);
    json->Field("begin_ns", item.begin_ns).Field("end_ns", item.end_ns).EndObject();
  }
  json->EndArray();
}

void WriteCoverage(const ReportInput& input, bool known, JsonWriter* json) {
  json->Key("devices").BeginArray();
  for (const DeviceReport& device : input.analysis.devices) {
    const Device& info = input.run.timeline.devices[static_cast<size_t>(device.device)];
    int64_t unknown_ns = 0;
    for (const CauseTotal& cause : device.causes) {
      if (cause.cause == Cause::kUnknown) unknown_ns += cause.total_ns;
    }
    json->BeginObject()
        .Field("device", DeviceNumber(input.run.timeline, device.device))
        .Field("uuid", info.uuid)
        .Field("name", info.name);
    json->Field("memory_bytes", info.memory_bytes).Field("sm_count", info.sm_count);
    json->Field("operations", device.ops)
        .Field("operations_with_submission", device.ops_with_submission);
    json->Field("idle_ns", known ? device.idle_ns : 0)
        .Field("idle_unknown_ns", known ? unknown_ns : 0);
    json->Field("untimed_missing", device.untimed_missing);
    json->Field("untimed_unfinished", device.untimed_unfinished);
    json->Field("untimed_invalid", device.untimed_invalid);
    json->Field("operations_before_submission", device.ops_before_submission);
    json->Field("largest_skew_ns", device.largest_skew_ns).EndObject();
  }
  json->EndArray();
}

}  // namespace

std::string InfoText(const ReportInput& input) {
  const int64_t origin = Origin(input);
  std::string out = TextPreamble(input);
  if (!IsUsageOnly(input.run))
    absl::StrAppend(&out, LossBlock(input.run, origin), CoverageBlock(input));
  absl::StrAppend(&out, FilesBlock(input.run));
  const std::vector<SampledView> views = ViewSamples(input.run.timeline);
  for (size_t p = 0; p < input.run.captures.size(); ++p) {
    if (input.run.timeline.processes[p].sampled_only) continue;
    absl::StrAppend(&out, ProcessBlock(input.run, views, p, origin));
  }
  absl::StrAppend(&out, ChildrenBlock(input.run, views));
  absl::StrAppend(
      &out, "\nTimes: seconds since the ",
      input.analysis.devices.empty() ? "begin of the recording" : "first GPU operation");
  if (origin != 0) absl::StrAppend(&out, ", which is at ", origin, " ns on the trace clock");
  return out + "\n";
}

std::string InfoJson(const ReportInput& input) {
  const KernelRecordsCheck check = CheckKernelRecords(input);
  std::string out;
  JsonWriter json(&out);
  BeginReport(ReportKind::kInfo, input, &json);
  json.Field("kernel_records", check.unavailable ? "unavailable" : "available");
  json.Field("kernel_records_reason", check.reason);
  json.Field("aligned", input.run.aligned)
      .Field("folded_driver_calls", input.run.folded_driver_calls);
  WriteCoverage(input, !check.unavailable, &json);
  WriteHoles(input.run, &json);
  const std::vector<SampledView> views = ViewSamples(input.run.timeline);
  json.Key("processes").BeginArray();
  for (size_t p = 0; p < input.run.captures.size(); ++p) {
    if (!input.run.timeline.processes[p].sampled_only) WriteProcess(input.run, views, p, &json);
  }
  json.EndArray();
  WriteSampledProcesses(input.run, views, &json);
  EndReport(input, &json);
  return out;
}

std::string InfoCsv(const ReportInput& input) {
  const LoadedRun& run = input.run;
  Table table;
  for (const char* title : {"scope", "id", "key", "value"}) table.columns.push_back({title});
  const auto row = [&table](const char* scope, const auto& id, const char* key, const auto& value) {
    table.rows.push_back({scope, absl::StrCat(id), key, absl::StrCat(value)});
  };
  row("run", run.name, "complete", run.complete_as_asked() ? "true" : "false");
  row("run", run.name, "aligned", run.aligned ? "true" : "false");
  for (const InputFile& file : run.timeline.inputs) {
    row("file", file.path, "bytes", file.bytes);
    row("file", file.path, "frames", file.frames);
    row("file", file.path, "records", file.records);
    row("file", file.path, "damaged_bytes", file.damaged_bytes);
    row("file", file.path, "complete", file.complete ? "true" : "false");
  }
  const std::vector<SampledView> views = ViewSamples(run.timeline);
  for (size_t p = 0; p < run.captures.size(); ++p) {
    const uint32_t pid = run.timeline.processes[p].pid;
    const ProcessCapture& capture = run.captures[p];
    if (views[p].samples > 0) row("process", pid, "samples", views[p].samples);
    if (run.timeline.processes[p].sampled_only) continue;
    row("process", pid, "gpuprobe_version", capture.gpuprobe_version);
    row("process", pid, "cupti_path", capture.cupti_path);
    row("process", pid, "cupti_version", capture.cupti_version);
    row("process", pid, "door", capture.door);
    row("process", pid, "off_reason", capture.off_reason);
    row("process", pid, "drain_cpu_ns", capture.cost.drain_cpu_ns);
    row("process", pid, "written_bytes", capture.cost.written_bytes);
    row("process", pid, "memory_bytes", capture.cost.memory_bytes);
    if (!capture.sampler.known) continue;
    row("process", pid, "sampler_cpu_ns", capture.sampler.cpu_ns);
    row("process", pid, "sampler_looks", capture.sampler.looks);
    row("process", pid, "sampler_ticks_missed", capture.sampler.ticks_missed);
    row("process", pid, "samples_dropped", capture.sampler.samples_dropped);
    row("process", pid, "stacks_unreadable", capture.sampler.stacks_unreadable);
  }
  for (const LossItem& loss : run.timeline.losses) {
    row("loss", run.timeline.processes[static_cast<size_t>(loss.process)].pid,
        WordsForLoss(loss.cause).key, loss.count);
  }
  return RenderCsv(table);
}

}  // namespace gpuprobe::tools
