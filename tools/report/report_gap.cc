// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// `gaps --explain`: one gap walked from end to end.
#include <algorithm>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "tools/attribution/gap_story.h"
#include "tools/format/format_table.h"
#include "tools/format/format_text.h"
#include "tools/format/format_units.h"
#include "tools/format/kernel_name.h"
#include "tools/report/report_gaps.h"
#include "tools/report/report_parts.h"
#include "tools/timeline/device_number.h"

namespace gpuprobe::tools {
namespace {

constexpr size_t kDefaultEvents = 12;  // of a thread
constexpr size_t kNameWidth = 50;
constexpr size_t kTimeWidth = 12;

// What every part of the page needs.
struct Page {
  Page(const ReportInput& in, const ListedGap& g)
      : input(in),
        gap(*g.gap),
        device(*g.device),
        story(TellGap(in.run.timeline, in.analysis, *g.device, *g.gap)),
        names(in.run.timeline.names) {}
  const Timeline& timeline() const { return input.run.timeline; }
  std::string Name(int32_t op) {
    return OpLabel(timeline(), timeline().ops[static_cast<size_t>(op)], kNameWidth, &names);
  }
  const HostCall& Call(int32_t call) const { return timeline().calls[static_cast<size_t>(call)]; }
  std::string Symbol(int32_t call) const {
    const int32_t symbol = Call(call).symbol;
    return symbol < 0 ? "unknown call" : timeline().symbols[static_cast<size_t>(symbol)].name;
  }
  int32_t Number() const { return DeviceNumber(timeline(), device.device); }
  // Since the gap's begin, "+1.23 ms".
  std::string At(int64_t ns) const {
    const int64_t since = ns - gap.begin_ns;
    return absl::StrCat(since < 0 ? "-" : "+", FormatDuration(since < 0 ? -since : since));
  }

  const ReportInput& input;
  const Gap& gap;
  const DeviceReport& device;
  const GapStory story;
  KernelNames names;
};

std::string Beside(const std::string& where, const std::string& detail) {
  return where.empty() || detail.empty() ? where + detail : absl::StrCat(where, ", ", detail);
}

void AppendRow(const std::string& left, const std::string& text, std::string* out) {
  absl::StrAppend(out, absl::StrFormat("  %-*s", static_cast<int>(kTimeWidth), left),
                  WrapText(ToPrintable(text), kTimeWidth + 2, kTimeWidth + 2, kWideReportWidth),
                  "\n");
}

std::string WorkText(Page& page, const GapStory::Work& work) {
  if (work.op < 0) return "nothing: the edge of the window";
  const GpuOp& op = page.timeline().ops[static_cast<size_t>(work.op)];
  std::string text = page.Name(work.op);
  if (op.stream >= 0) {
    absl::StrAppend(&text, " on stream ",
                    page.timeline().streams[static_cast<size_t>(op.stream)].stream);
  }
  absl::StrAppend(&text, ", ran ", page.At(op.start_ns), " to ", page.At(op.end_ns));
  if (work.call < 0) return absl::StrCat(text, "; its launch was not recorded");
  const HostCall& call = page.Call(work.call);
  absl::StrAppend(&text, "; by ", page.Symbol(work.call), " ", page.At(call.start_ns), " to ",
                  page.At(call.end_ns));
  if (!work.where.empty()) absl::StrAppend(&text, " at ", work.where);
  return absl::StrCat(text, ", queued ", FormatDuration(work.queued_ns));
}

std::string PartsBlock(const Page& page) {
  Table table;
  table.columns = {
      {"from"}, {"idle"}, {"because", Align::kLeft}, {"where", Align::kLeft, true, true}};
  for (const GapStory::Part& told : page.story.parts) {
    const GapPart& part = *told.part;
    table.rows.push_back({page.At(part.begin_ns), FormatDuration(part.end_ns - part.begin_ns),
                          CauseLabel(part.cause),
                          Beside(WhereOf(page.input.analysis, part), told.detail)});
  }
  return absl::StrCat("\n", RenderTable(table, 0, kWideReportWidth));
}

std::string ThreadBlock(const Page& page, const GapStory::ThreadStory& thread) {
  std::string out =
      absl::StrCat("\n", ToPrintable(thread.name),
                   thread.submits ? ", which submitted what ended the gap" : "", "\n");
  const size_t shown = RowLimit(page.input, thread.events.size(), kDefaultEvents);
  // The last ones are the nearest to what ended the gap.
  const size_t first = thread.events.size() - shown;
  if (first > 0)
    AppendRow("...", absl::StrCat(FormatCount(first), " earlier (--top 0 lists all)"), &out);
  for (size_t i = first; i < thread.events.size(); ++i) {
    const GapStory::Event& event = thread.events[i];
    if (event.call >= 0) {
      AppendRow(page.At(event.begin_ns),
                absl::StrCat(event.detail, " for ", FormatDuration(event.end_ns - event.begin_ns),
                             event.where.empty() ? "" : ", at ", event.where),
                &out);
    } else {
      std::string seen = FormatPlural(event.samples, "sample");
      if (event.end_ns > event.begin_ns) absl::StrAppend(&seen, " to ", page.At(event.end_ns));
      AppendRow(page.At(event.begin_ns),
                absl::StrCat(seen, ": ", Beside(event.where, event.detail)), &out);
    }
  }
  if (thread.events.empty()) AppendRow("", "no call and no sample in the gap", &out);
  return out;
}

std::string HelpersBlock(const Page& page) {
  if (page.story.helpers.empty()) return "";
  std::string out = "\nmeanwhile\n";
  for (const Meanwhile& m : page.story.helpers) {
    std::string text = absl::StrCat(m.who, ": ", FormatPercent(m.on_cpu, 1), " on CPU, ",
                                    FormatPercent(m.runnable, 1), " waiting for one");
    for (const Meanwhile::Site& site : m.sites) {
      absl::StrAppend(&text, "; ", FormatPercent(site.share, 1), " ",
                      site.on_cpu ? "in " : "blocked in ", site.where);
    }
    AppendRow("", text, &out);
  }
  return out;
}

std::string SubmittedBlock(Page& page) {
  if (page.story.submitted.empty()) return "";
  Table table;
  table.columns = {{"submitted"}, {"returned"},           {"ran"},
                   {"queued"},    {"what", Align::kLeft}, {"from", Align::kLeft, true, true}};
  const size_t shown = RowLimit(page.input, page.story.submitted.size(), kDefaultEvents);
  for (size_t i = 0; i < shown; ++i) {
    const GapStory::Work& work = page.story.submitted[i];
    const HostCall& call = page.Call(work.call);
    const GpuOp& op = page.timeline().ops[static_cast<size_t>(work.op)];
    table.rows.push_back({page.At(call.start_ns), page.At(call.end_ns), page.At(op.start_ns),
                          FormatDuration(work.queued_ns), page.Name(work.op),
                          Beside(work.where, page.Symbol(work.call))});
  }
  return absl::StrCat("\n", RenderTable(table, 0, kWideReportWidth),
                      MoreLine(shown, page.story.submitted.size(), 0));
}

void WriteWork(const char* key, Page& page, const GapStory::Work& work, JsonWriter* json) {
  if (key != nullptr) json->Key(key);
  if (work.op < 0) {
    json->Null();
    return;
  }
  const GpuOp& op = page.timeline().ops[static_cast<size_t>(work.op)];
  json->BeginObject().Field("kind", OpKindKey(op.kind));
  json->Field("name", op.kind == OpKind::kKernel && op.name >= 0 ? page.names.Full(op.name)
                                                                 : page.Name(work.op));
  json->Key("stream");
  op.stream < 0 ? json->Null()
                : json->Value(page.timeline().streams[static_cast<size_t>(op.stream)].stream);
  json->Field("correlation", op.correlation);
  json->Field("start_ns", op.start_ns).Field("end_ns", op.end_ns);
  json->Key("submission");
  if (work.call < 0) {
    json->Null();
  } else {
    const HostCall& call = page.Call(work.call);
    json->BeginObject().Field("api", page.Symbol(work.call)).Field("where", work.where);
    json->Key("tid");
    call.thread < 0 ? json->Null()
                    : json->Value(page.timeline().threads[static_cast<size_t>(call.thread)].tid);
    json->Field("begin_ns", call.start_ns).Field("end_ns", call.end_ns);
    json->Field("queued_ns", work.queued_ns).EndObject();
  }
  json->EndObject();
}

void WriteThread(const Page& page, const GapStory::ThreadStory& thread, JsonWriter* json) {
  const Thread& info = page.timeline().threads[static_cast<size_t>(thread.thread)];
  json->BeginObject().Field("tid", info.tid).Field("name", info.name);
  json->Field("submits", thread.submits);
  json->Key("events").BeginArray();
  for (const GapStory::Event& event : thread.events) {
    json->BeginObject().Field("begin_ns", event.begin_ns).Field("end_ns", event.end_ns);
    if (event.call >= 0) {
      json->Field("api", event.detail).Field("where", event.where);
    } else {
      json->Field("samples", event.samples).Field("where", event.where);
      json->Field("detail", event.detail);
    }
    json->EndObject();
  }
  json->EndArray().EndObject();
}

// A gap at an end of the window that the user gave may go on outside of it.
const char* CutText(const Page& page) {
  const bool begin = page.input.options.from_ns == page.gap.begin_ns;
  const bool end = page.input.options.to_ns == page.gap.end_ns;
  return begin && end ? " (cut by --from and --to)"
         : begin      ? " (cut by --from)"
         : end        ? " (cut by --to)"
                      : "";
}

// The gap that was asked for; CheckExplain() has seen that there is one.
ListedGap Chosen(const ReportInput& input) { return *FindGap(input); }

}  // namespace

std::string GapText(const ReportInput& input) {
  const ListedGap chosen = Chosen(input);
  Page page(input, chosen);
  const int64_t origin = Origin(input);
  std::string out = absl::StrCat(TextPreamble(input), "\nGPU ", page.Number(), " idle for ",
                                 FormatDuration(page.gap.length_ns()), ", from ",
                                 RelativeTime(page.gap.begin_ns, origin), " to ",
                                 RelativeTime(page.gap.end_ns, origin), CutText(page),
                                 "; times below count from its begin\n");
  AppendRow("before", WorkText(page, page.story.before), &out);
  AppendRow("after", WorkText(page, page.story.after), &out);
  absl::StrAppend(&out, PartsBlock(page));
  for (const GapStory::ThreadStory& thread : page.story.threads)
    absl::StrAppend(&out, ThreadBlock(page, thread));
  absl::StrAppend(&out, HelpersBlock(page), SubmittedBlock(page));
  return out;
}

std::string GapJson(const ReportInput& input) {
  const ListedGap chosen = Chosen(input);
  Page page(input, chosen);
  std::string out;
  JsonWriter json(&out, 3);
  BeginReport(ReportKind::kGap, input, &json);
  json.Field("device", page.Number());
  json.Field("begin_ns", page.gap.begin_ns).Field("end_ns", page.gap.end_ns);
  json.Field("duration_ns", page.gap.length_ns());
  WriteWork("previous", page, page.story.before, &json);
  WriteWork("next", page, page.story.after, &json);
  json.Key("parts").BeginArray();
  for (const GapStory::Part& told : page.story.parts) {
    const GapPart& part = *told.part;
    json.BeginObject().Field("cause", CauseKey(part.cause));
    json.Field("where", WhereOf(input.analysis, part)).Field("detail", told.detail);
    json.Field("begin_ns", part.begin_ns).Field("end_ns", part.end_ns);
    json.Field("ns", part.end_ns - part.begin_ns).EndObject();
  }
  json.EndArray().Key("threads").BeginArray();
  for (const GapStory::ThreadStory& thread : page.story.threads) WriteThread(page, thread, &json);
  json.EndArray().Key("meanwhile").BeginArray();
  for (const Meanwhile& meanwhile : page.story.helpers) WriteOneMeanwhile(meanwhile, &json);
  json.EndArray().Key("submitted").BeginArray();
  for (const GapStory::Work& work : page.story.submitted) WriteWork(nullptr, page, work, &json);
  json.EndArray();
  EndReport(input, &json);
  return out;
}

std::string GapCsv(const ReportInput& input) {
  const ListedGap chosen = Chosen(input);
  const Page page(input, chosen);
  Table table;
  for (const char* title : {"device", "cause", "begin_ns", "end_ns", "ns", "where", "detail"})
    table.columns.push_back({title});
  for (const GapStory::Part& told : page.story.parts) {
    const GapPart& part = *told.part;
    table.rows.push_back({absl::StrCat(page.Number()), CauseKey(part.cause),
                          absl::StrCat(part.begin_ns), absl::StrCat(part.end_ns),
                          absl::StrCat(part.end_ns - part.begin_ns), WhereOf(input.analysis, part),
                          told.detail});
  }
  return RenderCsv(table);
}

}  // namespace gpuprobe::tools
