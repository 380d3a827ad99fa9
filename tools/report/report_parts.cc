// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "tools/report/report_parts.h"

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "tools/format/format_text.h"
#include "tools/format/format_units.h"
#include "tools/load/damage_words.h"
#include "tools/load/loss_causes.h"
#include "tools/timeline/device_number.h"

namespace gpuprobe::tools {
namespace {

constexpr int32_t kInsufficientPrivileges = 35;  // CUPTI_ERROR_INSUFFICIENT_PRIVILEGES

bool IsKernelKind(const std::string& name) {
  return absl::AsciiStrToUpper(name).find("KERNEL") != std::string::npos;
}

bool Imported(const Process& process) { return process.source != SourceKind::kGpuprobe; }

std::string WhyNoKernelRecords(const LoadedRun& run) {
  const auto& processes = run.timeline.processes;
  if (std::all_of(processes.begin(), processes.end(), Imported)) {
    return "the imported files hold launches and no kernels (see info for what is absent)";
  }
  for (const ProcessCapture& capture : run.captures) {
    if (!capture.off_reason.empty())
      return absl::StrCat("gpuprobe turned itself off: ", capture.off_reason);
    for (const CaptureOutcome& kind : capture.kinds) {
      if (kind.result == 0 || !IsKernelKind(kind.name)) continue;
      if (kind.result == kInsufficientPrivileges) {
        return absl::StrCat(
            "CUPTI refused kernel records (error 35, insufficient privileges): load the NVIDIA "
            "module with "
            "NVreg_RestrictProfilingToAdminUsers=0, or run with CAP_SYS_ADMIN");
      }
      return absl::StrCat("CUPTI refused kernel records (error ", kind.result, ")");
    }
  }
  const auto asked = [&run](const ProcessCapture& capture) {
    const auto index = static_cast<size_t>(&capture - run.captures.data());
    if (run.timeline.processes[index].sampled_only) return false;
    return capture.kinds.empty() ||
           std::any_of(capture.kinds.begin(), capture.kinds.end(),
                       [](const CaptureOutcome& kind) { return IsKernelKind(kind.name); });
  };
  if (std::none_of(run.captures.begin(), run.captures.end(), asked)) {
    return "Kernels were not asked for (GPUPROBE_KERNELS=off)";
  }
  return "CUPTI accepted the request and delivered none; its version may not fit the driver (see "
         "info)";
}

std::string WindowSpan(const Analysis& analysis) {
  int64_t begin = INT64_MAX, end = INT64_MIN;
  uint64_t ops = 0;
  for (const DeviceReport& device : analysis.devices) {
    begin = std::min(begin, device.window.start_ns);
    end = std::max(end, device.window.end_ns);
    ops += device.kernels.count + device.copies.count + device.sets.count + device.graphs.count;
  }
  if (begin < end) return FormatDuration(end - begin);
  return ops == 0 ? "no GPU work" : "GPU work of no length";
}

std::string DeviceNames(const Timeline& timeline) {
  std::vector<std::pair<std::string, int>> models;
  for (const Device& device : timeline.devices) {
    const std::string name = device.name.empty() ? "unknown model" : device.name;
    auto at =
        std::find_if(models.begin(), models.end(), [&](const auto& m) { return m.first == name; });
    if (at == models.end()) {
      models.emplace_back(name, 1);
    } else {
      ++at->second;
    }
  }
  return absl::StrJoin(models, ", ", [&](std::string* out, const auto& model) {
    absl::StrAppend(out, model.second > 1 ? absl::StrCat(model.second, "x ") : "", model.first);
  });
}

// Nothing is missing from the files, but another CUPTI client may have kept us from recording.
std::string Blindness(const LoadedRun& run) {
  int64_t longest_ns = 0;
  std::string who;
  for (const Blind& blind : run.timeline.blinds) {
    if (blind.why != Blind::Why::kOtherClient || blind.end_ns - blind.begin_ns < longest_ns)
      continue;
    longest_ns = blind.end_ns - blind.begin_ns;
    who = blind.who;
  }
  const auto& processes = run.timeline.processes;
  if (std::any_of(processes.begin(), processes.end(), Imported)) return "read completely";
  if (who.empty()) return "complete, nothing lost";
  return absl::StrCat("complete, but blind for up to ", FormatDuration(longest_ns), " at a time (",
                      who, ")");
}

// Empty captures do not make a run partial, but of one that was not closed nobody knows what it
// would have held: it is not called complete.
std::string WholeRun(const LoadedRun& run) {
  const std::string whole = Blindness(run);
  if (run.unclosed_empty == 0) return whole;
  const size_t files = run.timeline.inputs.size();
  const std::string unknown =
      absl::StrCat(FormatCount(run.unclosed_empty), " of ", FormatPlural(files, "file"),
                   " not closed and without a record, what was lost there is not known");
  return run.unclosed_empty == files ? unknown : absl::StrCat(unknown, "; otherwise ", whole);
}

// "1,500 records lost: dropped by CUPTI", one for each cause.
std::vector<std::string> LossTexts(const LoadedRun& run) {
  std::vector<std::pair<uint32_t, uint64_t>> losses;
  uint64_t without_buffer = 0, dropped = 0;
  for (const LossItem& loss : run.timeline.losses) {
    if (!WordsForLoss(loss.cause).hides) continue;
    if (loss.cause == kLossPoolExhausted) {
      without_buffer += loss.count;
      continue;
    }
    if (loss.cause == kLossCuptiDropped) dropped += loss.count;
    auto at = std::find_if(losses.begin(), losses.end(),
                           [&](const auto& l) { return l.first == loss.cause; });
    if (at == losses.end()) at = losses.insert(losses.end(), {loss.cause, 0});
    at->second += loss.count;
  }
  std::vector<std::string> texts;
  for (const auto& [cause, count] : losses) {
    const LossWords& words = WordsForLoss(cause);
    const std::string one(words.unit, std::strlen(words.unit) - 1);  // units are plurals
    texts.push_back(absl::StrCat(FormatPlural(count, one.c_str()), " lost: ", words.text));
  }
  if (without_buffer == 0) return texts;
  // A refused request makes CUPTI drop records: one loss, told once.
  const std::string times = absl::StrCat(
      "no free buffer for CUPTI ",
      without_buffer == 1 ? "once" : absl::StrCat(FormatCount(without_buffer), " times"),
      " (memory cap)");
  for (std::string& text : texts) {
    if (dropped > 0 && text.find(WordsForLoss(kLossCuptiDropped).text) != text.npos) {
      absl::StrAppend(&text, ", ", times);
      return texts;
    }
  }
  texts.push_back(times);
  return texts;
}

const char* CopyDirection(uint8_t copy_kind) {
  switch (copy_kind) {  // CUpti_ActivityMemcpyKind
    case 1:
      return "Host-to-Device";
    case 2:
      return "Device-to-Host";
    case 3:
      return "Host-to-Array";
    case 4:
      return "Array-to-Host";
    case 5:
      return "Array-to-Array";
    case 6:
      return "Array-to-Device";
    case 7:
      return "Device-to-Array";
    case 8:
      return "Device-to-Device";
    case 9:
      return "Host-to-Host";
    case 10:
      return "Peer-to-Peer";
    case 11:  // Nsight Systems: migrations of managed memory
      return "Unified Host-to-Device";
    case 12:
      return "Unified Device-to-Host";
    case 13:
      return "Unified Device-to-Device";
    default:
      return "Copy of unknown kind";
  }
}

const char* MemoryKind(uint8_t memory_kind) {
  switch (memory_kind) {  // CUpti_ActivityMemoryKind
    case 1:
      return " pageable";
    case 2:
      return " pinned";
    case 5:
    case 7:
      return " managed";
    default:
      return "";
  }
}

// Of a run with nothing else in it.
std::string UsageText(const LoadedRun& run) {
  int64_t wall_ns = 0, cpu_ns = 0;
  size_t processes = 0;
  for (const Process& process : run.timeline.processes) {
    processes += !process.sampled_only;
    wall_ns = std::max(wall_ns, process.wall_ns);
    cpu_ns += process.user_cpu_ns + process.system_cpu_ns + process.children_cpu_ns;
  }
  return absl::StrCat(processes > 1 ? "the longest took " : "took ", FormatDuration(wall_ns),
                      " and ", processes > 1 ? "all together " : "", FormatDuration(cpu_ns),
                      " of CPU time; nothing else was asked for (GPUPROBE_CAPTURE=off)");
}

}  // namespace

bool IsUsageOnly(const LoadedRun& run) {
  size_t told = 0;
  for (size_t p = 0; p < run.captures.size(); ++p) {
    if (run.timeline.processes[p].sampled_only) continue;
    if (!run.captures[p].told_not_to_record()) return false;
    ++told;
  }
  return told > 0;
}

KernelRecordsCheck CheckKernelRecords(const ReportInput& input) {
  const Timeline& timeline = input.run.timeline;
  KernelRecordsCheck check;
  if (input.run.counted) {
    check.launches = input.run.counted->launches;
    check.unavailable = check.launches > 0 && !input.run.counted->any_kernel;
    if (check.unavailable) check.reason = WhyNoKernelRecords(input.run);
    return check;
  }
  for (const HostCall& call : timeline.calls) {
    check.launches +=
        call.symbol >= 0 && call.result == 0 &&
        timeline.symbols[static_cast<size_t>(call.symbol)].call_class == CallClass::kLaunch;
  }
  if (check.launches == 0) return check;
  const auto is_kernel = [](const auto& op) {
    return op.kind == OpKind::kKernel || op.kind == OpKind::kGraph;
  };
  check.unavailable = std::none_of(timeline.ops.begin(), timeline.ops.end(), is_kernel) &&
                      std::none_of(timeline.untimed.begin(), timeline.untimed.end(), is_kernel);
  if (check.unavailable) check.reason = WhyNoKernelRecords(input.run);
  return check;
}

LossTotals SumLosses(const LoadedRun& run) {
  LossTotals totals;
  for (const LossItem& loss : run.timeline.losses) {
    if (loss.cause == kLossCuptiDropped) totals.cupti_dropped += loss.count;
    if (loss.cause == kLossQueueFull || loss.cause == kLossWriterFull)
      totals.ring_dropped += loss.count;
  }
  for (const InputFile& file : run.timeline.inputs) totals.damaged_bytes += file.damaged_bytes;
  return totals;
}

std::string Completeness(const ReportInput& input) {
  const LoadedRun& run = input.run;
  std::vector<std::string> missing;
  if (CheckKernelRecords(input).unavailable) missing.push_back("no kernel records");
  if (run.complete() && missing.empty()) return WholeRun(run);
  if (run.complete_as_asked() && missing.empty()) {
    if (IsUsageOnly(run)) return UsageText(run);
    size_t told = 0;
    for (const ProcessCapture& capture : run.captures) told += capture.told_not_to_record();
    return absl::StrCat("complete as asked: ", FormatPlural(told, "process"),
                        " with GPUPROBE_CAPTURE=off");
  }
  const auto& inputs = run.timeline.inputs;
  std::set<int32_t> open, damaged;
  for (const FileDamage& damage : run.damage) {
    (damage.kind == "no_end" ? open : damaged).insert(damage.input);
  }
  if (!run.unusable.empty()) {
    missing.push_back(absl::StrCat(FormatPlural(run.unusable.size(), "input"), " unusable"));
  }
  if (!damaged.empty()) {
    missing.push_back(
        absl::StrFormat("%d of %s damaged", damaged.size(), FormatPlural(inputs.size(), "file")));
    if (const uint64_t bytes = SumLosses(run).damaged_bytes; bytes > 0) {
      absl::StrAppend(&missing.back(), " (", FormatBytes(bytes), ")");
    }
  }
  if (!open.empty()) {
    missing.push_back(absl::StrFormat("%d of %s not closed (%s)", open.size(),
                                      FormatPlural(inputs.size(), "file"), kWhyNotClosed));
  }
  for (std::string& loss : LossTexts(run)) missing.push_back(std::move(loss));
  for (const ProcessCapture& capture : run.captures) {
    if (!capture.off_reason.empty() && !capture.told_not_to_record()) {
      missing.push_back(absl::StrCat("gpuprobe turned itself off: ", capture.off_reason));
      break;
    }
  }
  return absl::StrCat("PARTIAL: ", absl::StrJoin(missing, "; "));
}

std::string HeaderLine(const ReportInput& input) {
  const Timeline& timeline = input.run.timeline;
  const size_t traced = TracedProcesses(timeline);
  std::string processes =
      traced == 1 ? "1 process" : absl::StrCat(FormatCount(traced), " processes");
  const size_t children = timeline.processes.size() - traced;
  if (children == 1) absl::StrAppend(&processes, " and 1 child");
  if (children > 1) absl::StrAppend(&processes, " and ", FormatCount(children), " children");
  std::string gpus;
  if (!IsUsageOnly(input.run)) {
    gpus = FormatPlural(timeline.devices.size(), "GPU");
    if (!timeline.devices.empty()) absl::StrAppend(&gpus, " (", DeviceNames(timeline), ")");
    absl::StrAppend(&gpus, ", ", WindowSpan(input.analysis), ", ");
  }
  const std::string line = absl::StrCat("gpuprobe: run ", input.run.name, ", ", processes, ", ",
                                        gpus, Completeness(input));
  return WrapText(ToPrintable(line), 0, 10, kReportWidth) + "\n";
}

std::string TextPreamble(const ReportInput& input) {
  std::string out = HeaderLine(input);
  const auto note = [&out](const std::string& text) {
    absl::StrAppend(&out, "  ! ", WrapText(ToPrintable(text), 4, 4, kReportWidth), "\n");
  };
  for (const Unusable& unusable : input.run.unusable) note(unusable.message);
  for (const InputFile& file : input.run.timeline.inputs) {
    if (!file.problem.empty()) note(absl::StrCat(file.path, ": ", file.problem));
  }
  for (const std::string& notice : input.run.notices) note(notice);
  return out;
}

void BeginReport(ReportKind kind, const ReportInput& input, JsonWriter* json) {
  json->BeginObject();
  json->Field("schema", absl::StrCat("gpuprobe.", ReportName(kind), "/1"));
  json->Field("partial", !input.run.complete_as_asked() || CheckKernelRecords(input).unavailable);
  json->Field("run", input.run.name);
  json->Key("inputs").BeginArray();
  for (const InputFile& file : input.run.timeline.inputs) {
    json->BeginObject();
    json->Field("path", file.path).Field("bytes", file.bytes).Field("frames", file.frames);
    json->Field("records", file.records).Field("complete", file.complete);
    json->Field("damaged_bytes", file.damaged_bytes).Field("problem", file.problem);
    json->EndObject();
  }
  json->EndArray();
  json->Key("unusable").BeginArray();
  for (const Unusable& unusable : input.run.unusable) {
    json->BeginObject().Field("path", unusable.path).Field("message", unusable.message).EndObject();
  }
  json->EndArray();
  json->Key("notices").BeginArray();
  for (const std::string& notice : input.run.notices) json->Value(notice);
  json->EndArray();
}

void EndReport(const ReportInput& input, JsonWriter* json) {
  const LossTotals totals = SumLosses(input.run);
  json->Key("loss").BeginObject();
  json->Field("cupti_dropped", totals.cupti_dropped).Field("ring_dropped", totals.ring_dropped);
  json->Field("damaged_bytes", totals.damaged_bytes);
  json->Key("items").BeginArray();
  for (const LossItem& loss : input.run.timeline.losses) {
    json->BeginObject();
    json->Field("cause", WordsForLoss(loss.cause).key).Field("count", loss.count);
    json->Field("unit", WordsForLoss(loss.cause).unit);
    json->Field("pid", input.run.timeline.processes[static_cast<size_t>(loss.process)].pid);
    json->Field("begin_ns", loss.begin_ns)
        .Field("end_ns", loss.end_ns)
        .Field("detail", loss.detail);
    json->EndObject();
  }
  json->EndArray().EndObject();
  json->EndObject();
}

std::string DeviceLabel(const Timeline& timeline, int32_t device) {
  if (device < 0 || static_cast<size_t>(device) >= timeline.devices.size()) return "?";
  const std::string& name = timeline.devices[static_cast<size_t>(device)].name;
  const int32_t number = DeviceNumber(timeline, device);
  return name.empty() ? absl::StrCat(number) : absl::StrCat(number, " ", name);
}

void WriteWindow(const Window& window, JsonWriter* json) {
  json->Key("window_ns").BeginObject();
  json->Field("start", window.start_ns).Field("end", window.end_ns).Field("span", window.span());
  json->EndObject();
}

void WriteWait(const WaitRow& wait, JsonWriter* json) {
  json->BeginObject().Field("api", wait.api).Field("where", wait.where).Field("count", wait.count);
  json->Field("total_ns", wait.total_ns).Field("device_busy_ns", wait.device_busy_ns);
  json->Field("device_idle_ns", wait.device_idle_ns).Field("idle_after_ns", wait.idle_after_ns);
  json->Field("longest_ns", wait.longest_ns);
  if (!wait.detail.empty()) json->Field("detail", wait.detail);
  json->EndObject();
}

void WriteOneMeanwhile(const Meanwhile& meanwhile, JsonWriter* json) {
  json->BeginObject().Field("who", meanwhile.who).Field("threads", meanwhile.thread_count);
  json->Field("on_cpu", meanwhile.on_cpu).Field("runnable", meanwhile.runnable);
  json->Field("samples", meanwhile.samples);
  json->Key("allowed_cpus");
  meanwhile.allowed_cpus == 0 ? json->Null() : json->Value(meanwhile.allowed_cpus);
  json->Key("sites").BeginArray();
  for (const Meanwhile::Site& site : meanwhile.sites) {
    json->BeginObject().Field("where", site.where).Field("share", site.share);
    json->Field("on_cpu", site.on_cpu).EndObject();
  }
  json->EndArray().EndObject();
}

int64_t Origin(const ReportInput& input) {
  if (input.origin_ns.has_value()) return *input.origin_ns;
  int64_t origin = INT64_MAX;
  for (const DeviceReport& device : input.analysis.devices)
    origin = std::min(origin, device.window.start_ns);
  return origin == INT64_MAX ? 0 : origin;
}

std::string RelativeTime(int64_t ns, int64_t origin_ns) {
  int64_t since_ns = 0;
  // Of losses and frames the times are whatever the file says.
  if (__builtin_sub_overflow(ns, origin_ns, &since_ns)) {
    since_ns = ns < origin_ns ? INT64_MIN : INT64_MAX;
  }
  const int64_t us = since_ns / 1000;
  const int64_t magnitude = us < 0 ? -us : us;
  return absl::StrFormat("%s%d.%06ds", us < 0 ? "-" : "", magnitude / 1000000, magnitude % 1000000);
}

std::string WhereOf(const Analysis& analysis, const GapPart& part) {
  return part.where < 0 ? "" : analysis.places[static_cast<size_t>(part.where)];
}

std::string WhereOf(const WaitRow& wait) {
  return wait.detail.empty() ? wait.where : absl::StrCat(wait.where, ", ", wait.detail);
}

const char* OpKindKey(OpKind kind) {
  switch (kind) {
    case OpKind::kKernel:
      return "kernel";
    case OpKind::kCopy:
      return "copy";
    case OpKind::kSet:
      return "set";
    case OpKind::kGraph:
      return "graph";
  }
  return "unknown";
}

std::string CopyOperation(const CopyShape& shape) {
  if (shape.peer) return CopyDirection(10);
  std::string operation = CopyDirection(shape.copy_kind);
  if (shape.copy_kind == 1 || shape.copy_kind == 3) operation += MemoryKind(shape.src_kind);
  if (shape.copy_kind == 2 || shape.copy_kind == 4) operation += MemoryKind(shape.dst_kind);
  return operation;
}

std::string OpLabel(const Timeline& timeline, const GpuOp& op, size_t width, KernelNames* names) {
  switch (op.kind) {
    case OpKind::kKernel:
      return op.name < 0 ? "kernel without a name" : names->Short(op.name, width);
    case OpKind::kCopy:
      if (op.shape < 0) return CopyDirection(0);
      return CopyOperation(timeline.copy_shapes[static_cast<size_t>(op.shape)]);
    case OpKind::kSet:
      return "memset";
    case OpKind::kGraph:
      return absl::StrCat("CUDA graph ", op.graph_id);
  }
  return "unknown";
}

size_t RowLimit(const ReportInput& input, size_t rows, size_t fallback) {
  const size_t wanted = input.top.has_value() ? static_cast<size_t>(*input.top) : fallback;
  return wanted == 0 ? rows : std::min(rows, wanted);
}

std::string MoreLine(size_t shown, size_t rows, size_t indent) {
  if (shown >= rows) return "";
  return absl::StrCat(std::string(indent, ' '), "... ", FormatCount(rows - shown),
                      " more (--top 0 lists all)\n");
}

}  // namespace gpuprobe::tools
