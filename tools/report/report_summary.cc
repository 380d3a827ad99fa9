// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// The first screen: verdict, one block for each GPU that proves it, the waits, and how far to trust
// it.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "tools/analysis/rank_waits.h"
#include "tools/figures/trust.h"
#include "tools/format/format_table.h"
#include "tools/format/format_text.h"
#include "tools/format/format_units.h"
#include "tools/report/report_parts.h"
#include "tools/timeline/device_number.h"

namespace gpuprobe::tools {
namespace {

constexpr size_t kLabelWidth = 9;
constexpr size_t kDefaultWaits = 5;
constexpr double kWorthNaming = 1.05;  // a bound below is no promise worth a line

// Nothing for an empty text. `indent`: columns before the label.
void AppendLabelled(size_t indent, const char* label, const std::string& text, std::string* out) {
  if (text.empty()) return;
  const size_t column = indent + kLabelWidth;
  absl::StrAppend(out, std::string(indent, ' '),
                  absl::StrFormat("%-*s", static_cast<int>(kLabelWidth), label),
                  WrapText(ToPrintable(text), column, column, kReportWidth), "\n");
}

std::string KernelRecordsText(const KernelRecordsCheck& check) {
  return absl::StrCat("Kernel records unavailable: ", FormatPlural(check.launches, "launch call"),
                      " recorded, but not one kernel. ", check.reason,
                      ". How busy the GPU was cannot be said.");
}

std::string VerdictBlock(const ReportInput& input, const KernelRecordsCheck& check) {
  std::string out;
  if (check.unavailable) {
    AppendLabelled(0, "VERDICT", KernelRecordsText(check), &out);
    return out;
  }
  if (IsUsageOnly(input.run)) {
    AppendLabelled(0, "VERDICT", kUsageOnlyVerdict, &out);
    return out;
  }
  const Verdict& verdict = input.analysis.verdict;
  AppendLabelled(0, "VERDICT", verdict.headline, &out);
  AppendLabelled(0, "", verdict.evidence, &out);
  AppendLabelled(0, "", verdict.meanwhile, &out);
  AppendLabelled(kLabelWidth, "do", verdict.action, &out);
  std::string bound;
  const double least = verdict.runner_up.empty() ? kWorthNaming : 1.005;
  if (verdict.upper_bound_speedup >= least) {
    bound =
        absl::StrCat("at most ", FormatFactor(verdict.upper_bound_speedup), " ", verdict.bound_if);
  }
  if (bound.empty()) {
    absl::string_view next = verdict.runner_up;
    absl::ConsumePrefix(&next, "next is ");
    AppendLabelled(kLabelWidth, "next", std::string(next), &out);
  } else {
    if (!verdict.runner_up.empty()) absl::StrAppend(&bound, "; ", verdict.runner_up);
    AppendLabelled(kLabelWidth, "bound", bound, &out);
  }
  AppendLabelled(kLabelWidth, "steady", verdict.left_out, &out);
  return out;
}

std::string CauseTable(const DeviceReport& device) {
  Table table;
  table.columns = {{"idle because", Align::kLeft},
                   {"time"},
                   {"% of idle"},
                   {"gaps", Align::kRight, false, false, 2},
                   {"longest", Align::kRight, false, false, 1},
                   {"where", Align::kLeft, true, true}};
  for (const CauseTotal& cause : device.causes) {
    if (cause.total_ns == 0) continue;
    table.rows.push_back(
        {CauseLabel(cause.cause), FormatDuration(cause.total_ns),
         FormatPercent(static_cast<double>(cause.total_ns), static_cast<double>(device.idle_ns)),
         FormatCount(cause.count), FormatDuration(cause.longest_ns),
         cause.sites.empty() ? "" : cause.sites.front().where});
  }
  int64_t sum = 0;
  for (const CauseTotal& cause : device.causes) sum += cause.total_ns;
  if (table.rows.empty()) return "";
  return absl::StrCat(RenderTable(table, 2), "  sums to ", FormatDuration(sum),
                      sum == device.idle_ns ? ", all of the idle time"
                                            : absl::StrCat(" of ", FormatDuration(device.idle_ns)),
                      "\n");
}

// What of the communication was waiting; empty: there is none, or only one rank is known.
std::string RanksLine(const ReportInput& input, const DeviceReport& device) {
  if (!input.analysis.ranks) return "";
  const RankWaits& waits = *input.analysis.ranks;
  for (const RankWaits::Rank& rank : waits.ranks) {
    if (rank.device != device.device) continue;
    return absl::StrCat("  in ", FormatPlural(waits.collectives, "collective"),
                        " of all ranks: ", FormatDuration(rank.waited_ns),
                        " until the last entered; this one was last ",
                        FormatCount(rank.entered_last), " times\n");
  }
  return "";
}

std::string DeviceBlock(const ReportInput& input, const DeviceReport& device) {
  const double span = static_cast<double>(device.window.span());
  const auto percent = [span](int64_t ns) { return FormatPercent(static_cast<double>(ns), span); };
  std::string out = absl::StrFormat(
      "\n%-9scompute %s   communication %s   copies %s   idle %s   of %s\n",
      absl::StrCat("GPU ", DeviceNumber(input.run.timeline, device.device)),
      percent(device.compute_ns), percent(device.communication_ns), percent(device.copy_ns),
      percent(device.idle_ns), FormatDuration(device.window.span()));
  const int32_t rank = RankOf(input.run.timeline, device.device);
  if (rank >= 0 && input.analysis.devices.size() > 1) {
    out.pop_back();
    absl::StrAppend(&out, ", rank ", rank, "\n");
  }
  absl::StrAppend(&out, RanksLine(input, device), CauseTable(device));
  if (device.untimed > 0) {
    absl::StrAppend(&out, "  ", FormatPlural(device.untimed, "operation"),
                    " without usable times: what they filled reads as idle\n");
  }
  return out;
}

// Below that a row of the summary is no finding: the call returned at once.
constexpr int64_t kLeastWaitNs = 1'000;

std::string WaitsBlock(const ReportInput& input) {
  const auto& waits = input.analysis.waits;
  const auto found = [](const WaitRow& wait) {
    return wait.total_ns >= kLeastWaitNs || wait.idle_after_ns >= kLeastWaitNs;
  };
  // By time blocked: what is left out in front of a row that stays is nothing.
  const auto last = std::find_if(waits.rbegin(), waits.rend(), found);
  if (last == waits.rend()) return "";
  Table table;
  table.columns = {{"WAITS", Align::kLeft},
                   {"calls", Align::kRight, false, false, 1},
                   {"blocked"},
                   {"GPU busy", Align::kRight, false, false, 2},
                   {"idle after"},
                   {"where", Align::kLeft, true, true}};
  const size_t shown = RowLimit(input, static_cast<size_t>(waits.rend() - last), kDefaultWaits);
  for (size_t i = 0; i < shown; ++i) {
    const WaitRow& wait = waits[i];
    table.rows.push_back({wait.api, FormatCount(wait.count), FormatDuration(wait.total_ns),
                          FormatDuration(wait.device_busy_ns), FormatDuration(wait.idle_after_ns),
                          WhereOf(wait)});
  }
  std::string out = absl::StrCat("\n", RenderTable(table));
  if (shown < waits.size()) {
    absl::StrAppend(&out, "... ", FormatCount(waits.size() - shown), " more: probe-report waits\n");
  }
  return out;
}

std::string TrustLine(const ReportInput& input) {
  std::string out = "\n";
  AppendLabelled(0, "TRUST", TrustText(input, MeasureTrust(input)), &out);
  return out;
}

void WriteMoves(const char* key, const MoveStats& moves, JsonWriter* json) {
  json->Key(key).BeginObject();
  json->Field("count", moves.count).Field("bytes", moves.bytes);
  json->Field("sum_ns", moves.sum_ns).Field("union_ns", moves.union_ns).EndObject();
}

void WriteMeanwhile(const std::vector<Meanwhile>& all, JsonWriter* json) {
  if (all.empty()) return;
  json->Key("meanwhile").BeginArray();
  for (const Meanwhile& meanwhile : all) WriteOneMeanwhile(meanwhile, json);
  json->EndArray();
}

// What samples add is there only where there are samples.
void WriteSite(const SiteTotal& site, JsonWriter* json) {
  json->BeginObject().Field("where", site.where).Field("total_ns", site.total_ns);
  json->Field("count", site.count).Field("longest_ns", site.longest_ns);
  if (!site.detail.empty()) json->Field("detail", site.detail);
  if (site.samples > 0) json->Field("samples", site.samples);
  json->EndObject();
}

void WriteCauses(const DeviceReport& device, JsonWriter* json) {
  json->Key("idle_causes").BeginArray();
  for (const CauseTotal& cause : device.causes) {
    json->BeginObject().Field("cause", CauseKey(cause.cause)).Field("total_ns", cause.total_ns);
    json->Field("count", cause.count).Field("longest_ns", cause.longest_ns);
    if (cause.samples > 0) json->Field("samples", cause.samples);
    WriteMeanwhile(cause.meanwhile, json);
    json->Key("sites").BeginArray();
    for (const SiteTotal& site : cause.sites) WriteSite(site, json);
    json->EndArray().EndObject();
  }
  json->EndArray();
}

// Figures that would claim idleness which nobody saw are null, so that the keys stay.
void WriteTimes(const DeviceReport& device, bool known, JsonWriter* json) {
  const auto figure = [&](const char* key, int64_t ns) {
    json->Key(key);
    known ? json->Value(ns) : json->Null();
  };
  figure("busy_ns", device.busy_ns);
  figure("idle_ns", device.idle_ns);
  json->Key("breakdown").BeginObject();
  figure("compute_ns", device.compute_ns);
  figure("communication_ns", device.communication_ns);
  figure("copy_ns", device.copy_ns);
  figure("idle_ns", device.idle_ns);
  json->EndObject();
}

void WriteDevice(const ReportInput& input, const DeviceReport& device, bool known,
                 JsonWriter* json) {
  const Device& info = input.run.timeline.devices[static_cast<size_t>(device.device)];
  json->BeginObject();
  json->Field("device", DeviceNumber(input.run.timeline, device.device))
      .Field("ordinal", info.ordinal);
  json->Field("uuid", info.uuid).Field("name", info.name);
  WriteWindow(device.window, json);
  json->Key("kernels").BeginObject();
  json->Field("count", device.kernels.count).Field("zero_length", device.kernels.zero_length);
  json->Field("sum_ns", device.kernels.sum_ns)
      .Field("union_ns", device.kernels.union_ns)
      .EndObject();
  WriteMoves("copies", device.copies, json);
  WriteMoves("sets", device.sets, json);
  json->Key("graphs").BeginObject().Field("count", device.graphs.count);
  json->Field("sum_ns", device.graphs.sum_ns).Field("union_ns", device.graphs.union_ns).EndObject();
  json->Key("untimed").BeginObject().Field("count", device.untimed);
  json->Field("missing", device.untimed_missing).Field("unfinished", device.untimed_unfinished);
  json->Field("invalid", device.untimed_invalid).EndObject();
  WriteTimes(device, known, json);
  json->Key("gaps").BeginObject().Field("min_gap_ns", input.options.min_gap_ns);
  json->Field("count", known ? device.listed_gaps : 0);
  json->Field("total_ns", known ? device.listed_gaps_ns : 0);
  json->Field("all_count", known ? device.all_gaps : 0).EndObject();
  if (known) {
    WriteCauses(device, json);
  } else {
    json->Key("idle_causes").BeginArray().EndArray();
  }
  json->Field("operations", device.ops)
      .Field("operations_with_submission", device.ops_with_submission);
  json->EndObject();
}

void WriteRanks(const ReportInput& input, JsonWriter* json) {
  json->Key("ranks");
  if (!input.analysis.ranks) {
    json->Null();
    return;
  }
  const RankWaits& waits = *input.analysis.ranks;
  json->BeginObject().Field("collectives", waits.collectives);
  json->Field("exposed_wait_ns", waits.exposed_ns).Key("devices").BeginArray();
  for (const RankWaits::Rank& rank : waits.ranks) {
    json->BeginObject().Field("device", DeviceNumber(input.run.timeline, rank.device));
    json->Field("rank", RankOf(input.run.timeline, rank.device));
    json->Field("waited_ns", rank.waited_ns).Field("caused_ns", rank.caused_ns);
    json->Field("entered_last", rank.entered_last).EndObject();
  }
  json->EndArray().EndObject();
}

void WriteRunnerUp(const Verdict& verdict, JsonWriter* json) {
  if (!verdict.runner_up_cause) {
    json->Null();
    return;
  }
  json->BeginObject().Field("cause", CauseKey(*verdict.runner_up_cause));
  json->Field("share", verdict.runner_up_share).Field("where", verdict.runner_up_where).EndObject();
}

void WriteVerdict(const ReportInput& input, const KernelRecordsCheck& check, JsonWriter* json) {
  const Verdict& verdict = input.analysis.verdict;
  json->Key("verdict").BeginObject();
  const bool usage_only = IsUsageOnly(input.run);
  if (check.unavailable || usage_only) {
    json->Field("kind", "not_enough_data")
        .Field("text", usage_only ? kUsageOnlyVerdict : KernelRecordsText(check));
    json->Field("where", "").Field("evidence", "").Field("meanwhile", "").Field("action", "");
    json->Key("upper_bound_speedup").Null();
    json->Key("runner_up").Null();
  } else {
    json->Field("kind", verdict.kind).Field("text", verdict.headline);
    json->Field("where", verdict.where).Field("evidence", verdict.evidence);
    json->Field("meanwhile", verdict.meanwhile).Field("action", verdict.action);
    json->Field("upper_bound_speedup", verdict.upper_bound_speedup);
    json->Key("runner_up");
    WriteRunnerUp(verdict, json);
    if (verdict.steady) {
      json->Key("steady_ns").BeginObject();
      json->Field("start", verdict.steady->start_ns).Field("end", verdict.steady->end_ns);
      json->EndObject();
    }
  }
  json->EndObject();
}

}  // namespace

std::string SummaryText(const ReportInput& input) {
  const KernelRecordsCheck check = CheckKernelRecords(input);
  std::string out = TextPreamble(input);
  absl::StrAppend(&out, "\n", VerdictBlock(input, check));
  if (!check.unavailable) {
    for (const DeviceReport& device : input.analysis.devices)
      absl::StrAppend(&out, DeviceBlock(input, device));
    absl::StrAppend(&out, WaitsBlock(input));
    absl::StrAppend(&out, TrustLine(input));
  }
  return out;
}

std::string SummaryJson(const ReportInput& input) {
  const KernelRecordsCheck check = CheckKernelRecords(input);
  std::string out;
  JsonWriter json(&out);
  BeginReport(ReportKind::kSummary, input, &json);
  json.Field("kernel_records", check.unavailable ? "unavailable" : "available");
  json.Key("devices").BeginArray();
  for (const DeviceReport& device : input.analysis.devices) {
    WriteDevice(input, device, !check.unavailable, &json);
  }
  json.EndArray();
  json.Key("waits").BeginArray();
  for (const WaitRow& wait : input.analysis.waits) WriteWait(wait, &json);
  json.EndArray();
  WriteRanks(input, &json);
  WriteVerdict(input, check, &json);
  WriteTrust(input, MeasureTrust(input), !check.unavailable, &json);
  EndReport(input, &json);
  return out;
}

std::string SummaryCsv(const ReportInput& input) {
  const KernelRecordsCheck check = CheckKernelRecords(input);
  Table table;
  for (const char* title :
       {"device", "section", "name", "time_ns", "count", "longest_ns", "where"}) {
    table.columns.push_back({title});
  }
  const auto row = [&table](std::string device, const char* section, std::string name,
                            std::string time, std::string count, std::string longest,
                            std::string where) {
    table.rows.push_back({std::move(device), section, std::move(name), std::move(time),
                          std::move(count), std::move(longest), std::move(where)});
  };
  const bool usage_only = IsUsageOnly(input.run);
  row("", "verdict",
      check.unavailable || usage_only ? "not_enough_data" : input.analysis.verdict.kind, "", "", "",
      check.unavailable ? KernelRecordsText(check)
      : usage_only      ? kUsageOnlyVerdict
                        : input.analysis.verdict.headline);
  for (const DeviceReport& device : input.analysis.devices) {
    const std::string id = absl::StrCat(DeviceNumber(input.run.timeline, device.device));
    row(id, "window", "span", absl::StrCat(device.window.span()), "", "", "");
    if (check.unavailable) continue;
    const std::pair<const char*, int64_t> parts[] = {{"compute", device.compute_ns},
                                                     {"communication", device.communication_ns},
                                                     {"copy", device.copy_ns},
                                                     {"idle", device.idle_ns}};
    for (const auto& [name, ns] : parts) row(id, "breakdown", name, absl::StrCat(ns), "", "", "");
    for (const CauseTotal& cause : device.causes) {
      row(id, "idle_cause", CauseKey(cause.cause), absl::StrCat(cause.total_ns),
          absl::StrCat(cause.count), absl::StrCat(cause.longest_ns),
          cause.sites.empty() ? "" : cause.sites.front().where);
    }
  }
  for (const WaitRow& wait : input.analysis.waits) {
    row("", "wait", wait.api, absl::StrCat(wait.total_ns), absl::StrCat(wait.count),
        absl::StrCat(wait.longest_ns), wait.where);
  }
  return RenderCsv(table);
}

}  // namespace gpuprobe::tools
