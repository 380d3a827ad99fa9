// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// The gaps of at least --min-gap, longest first, each with what ran before and after and its
// causes.
#include "tools/report/report_gaps.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tools/format/format_table.h"
#include "tools/format/format_text.h"
#include "tools/format/format_units.h"
#include "tools/format/kernel_name.h"
#include "tools/report/report_parts.h"
#include "tools/timeline/device_number.h"
#include "tools/windowed/windowed_analysis.h"

namespace gpuprobe::tools {
namespace {

constexpr size_t kDefaultRows = 20;
constexpr size_t kNeighbourWidth = 18;

const GpuOp* OpAt(const ReportInput& input, int32_t op) {
  return op < 0 ? nullptr : &input.run.timeline.ops[static_cast<size_t>(op)];
}

std::string Neighbour(const ReportInput& input, int32_t op, size_t width, KernelNames* names) {
  const GpuOp* found = OpAt(input, op);
  return found == nullptr ? "(edge)" : OpLabel(input.run.timeline, *found, width, names);
}

// The cause that takes most of the gap; "+" where others take part.
const GapPart* MainPart(const DeviceReport& device, const Gap& gap) {
  const GapPart* main = nullptr;
  for (const GapPart& part : device.PartsOf(gap)) {
    if (main == nullptr || part.end_ns - part.begin_ns > main->end_ns - main->begin_ns)
      main = &part;
  }
  return main;
}

void WriteNeighbour(const char* key, const ReportInput& input, int32_t op, KernelNames* names,
                    JsonWriter* json) {
  json->Key(key);
  const GpuOp* found = OpAt(input, op);
  if (found == nullptr) {
    json->Null();
    return;
  }
  const Timeline& timeline = input.run.timeline;
  json->BeginObject().Field("kind", OpKindKey(found->kind));
  const bool named = found->kind == OpKind::kKernel && found->name >= 0;
  json->Field("name",
              named ? names->Full(found->name) : OpLabel(timeline, *found, kReportWidth, names));
  json->Field("pid", timeline.processes[static_cast<size_t>(found->process)].pid);
  json->Key("stream");
  found->stream < 0 ? json->Null()
                    : json->Value(timeline.streams[static_cast<size_t>(found->stream)].stream);
  json->Field("correlation", found->correlation);
  json->Field("start_ns", found->start_ns).Field("end_ns", found->end_ns).EndObject();
}

// A line of code alone does not say what it called; empty where it called nothing, or the place is
// the call.
std::string CallAt(const ReportInput& input, const GapPart& part) {
  const bool in_call = part.cause == Cause::kSynchronisation || part.cause == Cause::kBlockingApi ||
                       part.cause == Cause::kPageableCopy || part.cause == Cause::kLaunchBound;
  if (!in_call || part.call < 0) return "";
  const Timeline& timeline = input.run.timeline;
  const HostCall& call = timeline.calls[static_cast<size_t>(part.call)];
  if (call.symbol < 0 || (part.sample < 0 && call.site < 0)) return "";
  return timeline.symbols[static_cast<size_t>(call.symbol)].name;
}

std::string WhereAndCall(const ReportInput& input, const GapPart& part) {
  const std::string where = WhereOf(input.analysis, part), call = CallAt(input, part);
  return call.empty() ? where : absl::StrCat(where, ", ", call);
}

// Of at least min_gap_ns; in windows `listed` has the longest of each GPU alone.
uint64_t CountGaps(const ReportInput& input) {
  uint64_t count = 0;
  for (const DeviceReport& device : input.analysis.devices) count += device.listed_gaps;
  return count;
}

// The line below the table.
std::string MoreGaps(const ReportInput& input, size_t shown, size_t listed) {
  const uint64_t count = CountGaps(input);
  if (count <= listed) return MoreLine(shown, listed, 0);
  if (shown == listed) {
    return absl::StrCat("... ", FormatCount(count - shown),
                        " more, none longer: not kept of a run that is read in windows "
                        "(--windows never has them)\n");
  }
  return absl::StrCat("... ", FormatCount(count - shown), " more (--top 0 lists the longest ",
                      FormatCount(listed), ": the run was read in windows)\n");
}

// Of a GPU of which some are not kept, what is shorter than the shortest that is: how many others
// of that GPU come before those of the other GPUs nobody knows. (What was cut, windowed_analysis.h,
// is not kept either, but says nothing about the others.)
void DropUncertain(std::vector<ListedGap>* listed) {
  const size_t most_kept = WindowLimits().kept_gaps;
  std::map<const DeviceReport*, uint64_t> kept;
  for (const ListedGap& gap : *listed) ++kept[gap.device];
  std::map<const DeviceReport*, uint64_t> left = kept;
  for (size_t i = 0; i < listed->size(); ++i) {
    const DeviceReport* device = (*listed)[i].device;
    if (--left[device] > 0 || kept[device] < most_kept) continue;
    if (device->listed_gaps <= kept[device]) continue;
    listed->resize(i + 1);
    return;
  }
}

}  // namespace

std::vector<ListedGap> ListGaps(const ReportInput& input) {
  std::vector<ListedGap> listed;
  for (const DeviceReport& device : input.analysis.devices) {
    for (const Gap& gap : device.gaps) {
      if (gap.length_ns() >= input.options.min_gap_ns) listed.push_back({&device, &gap});
    }
  }
  std::stable_sort(listed.begin(), listed.end(), [](const ListedGap& a, const ListedGap& b) {
    return a.duration() > b.duration();
  });
  DropUncertain(&listed);
  return listed;
}

absl::StatusOr<ListedGap> FindGap(const ReportInput& input) {
  if (const KernelRecordsCheck check = CheckKernelRecords(input); check.unavailable)
    return absl::NotFoundError(absl::StrCat("kernel records unavailable: ", check.reason));
  const GapChoice choice = input.explain.value_or(GapChoice{1, {}});
  if (choice.at_ns.has_value()) {
    // A begin that was printed lies up to a microsecond before the real one.
    for (const int64_t reach_ns : {0, 999}) {
      for (const DeviceReport& device : input.analysis.devices) {
        const auto gap =
            std::partition_point(device.gaps.begin(), device.gaps.end(),
                                 [&](const Gap& g) { return g.end_ns <= *choice.at_ns; });
        if (gap != device.gaps.end() && gap->begin_ns - reach_ns <= *choice.at_ns)
          return ListedGap{&device, &*gap};
      }
    }
    return absl::NotFoundError("--explain: no GPU was idle at that time");
  }
  const std::vector<ListedGap> listed = ListGaps(input);
  if (const uint64_t count = CountGaps(input);
      choice.rank > listed.size() && choice.rank <= count && count > listed.size()) {
    return absl::NotFoundError(absl::StrCat("gap number ", choice.rank, " of ", count,
                                            ": read in windows, the longest ", listed.size(),
                                            " are kept; ask by a time, or with --windows never"));
  }
  if (choice.rank < 1 || choice.rank > listed.size()) {
    return absl::NotFoundError(absl::StrCat("no gap number ", choice.rank, ": there are ",
                                            CountGaps(input), " of at least ",
                                            FormatDuration(input.options.min_gap_ns)));
  }
  return listed[choice.rank - 1];
}

std::string GapsText(const ReportInput& input) {
  std::string out = TextPreamble(input);
  const KernelRecordsCheck check = CheckKernelRecords(input);
  if (check.unavailable) {
    return absl::StrCat(out, "\nKernel records unavailable: ", check.reason, "\n");
  }
  absl::StrAppend(&out, "\n");
  if (input.analysis.devices.empty())
    return absl::StrCat(out, "no GPU work recorded, so no gaps\n");
  for (const DeviceReport& device : input.analysis.devices) {
    absl::StrAppend(&out, "GPU ", DeviceNumber(input.run.timeline, device.device), ": ",
                    FormatPlural(device.listed_gaps, "gap"), " of at least ",
                    FormatDuration(input.options.min_gap_ns), ", ",
                    FormatDuration(device.listed_gaps_ns), " of ", FormatDuration(device.idle_ns),
                    " idle (", FormatPlural(device.all_gaps, "gap"), " in all)\n");
  }
  const std::vector<ListedGap> listed = ListGaps(input);
  if (listed.empty()) return out;
  Table table;
  table.columns = {{"#"},
                   {"GPU"},
                   {"begin"},
                   {"idle"},
                   {"because", Align::kLeft},
                   {"before", Align::kLeft, false, false, 1},
                   {"after", Align::kLeft, false, false, 2},
                   {"where", Align::kLeft, true, true}};
  const size_t shown = RowLimit(input, listed.size(), kDefaultRows);
  KernelNames names(input.run.timeline.names);
  const int64_t origin = Origin(input);
  for (size_t i = 0; i < shown; ++i) {
    const ListedGap& row = listed[i];
    const GapPart* main = MainPart(*row.device, *row.gap);
    const bool others = main != nullptr && main->end_ns - main->begin_ns < row.duration();
    table.rows.push_back(
        {absl::StrCat(i + 1), absl::StrCat(DeviceNumber(input.run.timeline, row.device->device)),
         RelativeTime(row.gap->begin_ns, origin), FormatDuration(row.duration()),
         main == nullptr ? "" : absl::StrCat(CauseLabel(main->cause), others ? " +" : ""),
         Neighbour(input, row.gap->previous_op, kNeighbourWidth, &names),
         Neighbour(input, row.gap->next_op, kNeighbourWidth, &names),
         main == nullptr ? "" : WhereAndCall(input, *main)});
  }
  absl::StrAppend(
      &out, "\n", RenderTable(table, 0, kWideReportWidth), MoreGaps(input, shown, listed.size()),
      "\nLongest first; #: what --explain takes, with the same options; begin: since the run's "
      "first GPU\noperation, as --from takes it; +: with other causes (--format json)\n");
  return out;
}

std::string GapsJson(const ReportInput& input) {
  std::string out;
  JsonWriter json(&out);
  BeginReport(ReportKind::kGaps, input, &json);
  const bool known = !CheckKernelRecords(input).unavailable;
  json.Field("kernel_records", known ? "available" : "unavailable");
  json.Field("min_gap_ns", input.options.min_gap_ns);
  json.Key("devices").BeginArray();
  for (const DeviceReport& device : input.analysis.devices) {
    const Device& info = input.run.timeline.devices[static_cast<size_t>(device.device)];
    json.BeginObject()
        .Field("device", DeviceNumber(input.run.timeline, device.device))
        .Field("uuid", info.uuid)
        .Field("name", info.name);
    WriteWindow(device.window, &json);
    json.Key("idle_ns");
    known ? json.Value(device.idle_ns) : json.Null();
    json.Field("count", known ? device.listed_gaps : 0)
        .Field("total_ns", known ? device.listed_gaps_ns : 0);
    json.Field("all_count", known ? device.all_gaps : 0).EndObject();
  }
  json.EndArray();
  json.Key("gaps").BeginArray();
  const std::vector<ListedGap> listed = known ? ListGaps(input) : std::vector<ListedGap>();
  const size_t shown = RowLimit(input, listed.size(), 0);
  KernelNames names(input.run.timeline.names);
  for (size_t i = 0; i < shown; ++i) {
    const ListedGap& row = listed[i];
    json.BeginObject()
        .Field("number", i + 1)
        .Field("device", DeviceNumber(input.run.timeline, row.device->device));
    json.Field("begin_ns", row.gap->begin_ns).Field("end_ns", row.gap->end_ns);
    json.Field("duration_ns", row.duration());
    WriteNeighbour("previous", input, row.gap->previous_op, &names, &json);
    WriteNeighbour("next", input, row.gap->next_op, &names, &json);
    json.Key("parts").BeginArray();
    for (const GapPart& part : row.device->PartsOf(*row.gap)) {
      json.BeginObject()
          .Field("cause", CauseKey(part.cause))
          .Field("where", WhereOf(input.analysis, part));
      if (const std::string call = CallAt(input, part); !call.empty()) json.Field("detail", call);
      json.Field("begin_ns", part.begin_ns).Field("end_ns", part.end_ns);
      json.Field("ns", part.end_ns - part.begin_ns).EndObject();
    }
    json.EndArray().EndObject();
  }
  json.EndArray();
  EndReport(input, &json);
  return out;
}

std::string GapsCsv(const ReportInput& input) {
  Table table;
  for (const char* title :
       {"device", "begin_ns", "end_ns", "duration_ns", "previous", "next", "cause", "part_begin_ns",
        "part_end_ns", "part_ns", "where", "detail"}) {
    table.columns.push_back({title});
  }
  if (CheckKernelRecords(input).unavailable) return RenderCsv(table);
  const std::vector<ListedGap> listed = ListGaps(input);
  const size_t shown = RowLimit(input, listed.size(), 0);
  KernelNames names(input.run.timeline.names);
  for (size_t i = 0; i < shown; ++i) {
    const ListedGap& row = listed[i];
    for (const GapPart& part : row.device->PartsOf(*row.gap)) {
      table.rows.push_back({absl::StrCat(DeviceNumber(input.run.timeline, row.device->device)),
                            absl::StrCat(row.gap->begin_ns), absl::StrCat(row.gap->end_ns),
                            absl::StrCat(row.duration()),
                            Neighbour(input, row.gap->previous_op, kReportWidth, &names),
                            Neighbour(input, row.gap->next_op, kReportWidth, &names),
                            CauseKey(part.cause), absl::StrCat(part.begin_ns),
                            absl::StrCat(part.end_ns), absl::StrCat(part.end_ns - part.begin_ns),
                            WhereOf(input.analysis, part), CallAt(input, part)});
    }
  }
  return RenderCsv(table);
}

}  // namespace gpuprobe::tools
