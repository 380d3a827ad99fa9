// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Files and their documents: begin and end of each, damage, notices.
#include "tools/import/kineto/kineto_loader.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tools/format/format_text.h"
#include "tools/format/format_units.h"
#include "tools/import/progress.h"
#include "tools/load/files/foreign_files.h"

namespace gpuprobe::tools {
namespace {

constexpr size_t kListedCategories = 8, kProblemsInWords = 3;

const char* DamageKey(TextDamage::Kind kind) {
  switch (kind) {
    case TextDamage::Kind::kTruncated:
      return "truncated";
    case TextDamage::Kind::kCorrupt:
      return "corrupt";
    case TextDamage::Kind::kRepaired:
      return "repaired";
    case TextDamage::Kind::kPacking:
      return "packing";
  }
  return "unknown";
}

}  // namespace

void KinetoLoader::BeginDocument() {
  Timeline& timeline = run_->timeline;
  document_ = Document();
  Process process = {};
  process.source = SourceKind::kKineto;
  process.rank = -1;
  process.files.push_back(input_);
  timeline.processes.push_back(std::move(process));
  run_->captures.push_back({});
  document_.process = LastIndex(timeline.processes);
  document_.member.path = timeline.inputs[static_cast<size_t>(input_)].path;
  document_.begin = {timeline.ops.size(),     timeline.untimed.size(),   timeline.calls.size(),
                     timeline.syncs.size(),   timeline.overheads.size(), timeline.samples.size(),
                     timeline.sampled.size(), timeline.markers.size()};
}

void KinetoLoader::ShiftToFirstBase() {
  if (!has_first_base_) {
    has_first_base_ = true;
    first_base_ns_ = document_.base_ns;
  }
  const int64_t shift_ns = document_.base_ns - first_base_ns_;
  run_->captures[static_cast<size_t>(document_.process)].clock.shift_ns = shift_ns;
  if (shift_ns == 0) return;
  other_base_ = true;
  Timeline& timeline = run_->timeline;
  const auto shift = [shift_ns](auto* items, size_t begin) {
    for (size_t i = begin; i < items->size(); ++i) {
      (*items)[i].start_ns += shift_ns;
      (*items)[i].end_ns += shift_ns;
    }
  };
  shift(&timeline.ops, document_.begin.ops);
  shift(&timeline.calls, document_.begin.calls);
  shift(&timeline.syncs, document_.begin.syncs);
  shift(&timeline.overheads, document_.begin.overheads);
  for (size_t i = document_.begin.untimed; i < timeline.untimed.size(); ++i) {
    if (timeline.untimed[i].start_ns != 0) timeline.untimed[i].start_ns += shift_ns;
  }
  for (size_t i = document_.begin.samples; i < timeline.samples.size(); ++i) {
    timeline.samples[i].time_ns += shift_ns;
  }
  for (size_t i = document_.begin.sampled; i < timeline.sampled.size(); ++i) {
    timeline.sampled[i].begin_ns += shift_ns;
    timeline.sampled[i].end_ns += shift_ns;
  }
  for (size_t i = document_.begin.markers; i < timeline.markers.size(); ++i) {
    timeline.markers[i].begin_ns += shift_ns;
    timeline.markers[i].end_ns += shift_ns;
  }
  if (document_.first_ns <= document_.last_ns) {
    document_.first_ns += shift_ns;
    document_.last_ns += shift_ns;
  }
}

void KinetoLoader::CloseDocument() {
  ResolveSyncs();
  ResolveGpuMarkers();
  spans_.Build(document_.process, document_.begin.calls);
  NameThreadsAndProcess();
  ShiftToFirstBase();
  Process& process = run_->timeline.processes[static_cast<size_t>(document_.process)];
  DescribeSource(&process, &run_->captures[static_cast<size_t>(document_.process)]);
  if (document_.first_ns <= document_.last_ns) {
    process.capture_begin_ns = document_.first_ns;
    process.capture_end_ns = document_.last_ns;
    document_.member.begin_ns = document_.first_ns;
    document_.member.end_ns = document_.last_ns;
  }
  members_.push_back(document_.member);
}

void KinetoLoader::AddDamage(const EventReader& reader) {
  InputFile& input = run_->timeline.inputs[static_cast<size_t>(input_)];
  Process& process = run_->timeline.processes[static_cast<size_t>(document_.process)];
  const int64_t shift_ns = run_->captures[static_cast<size_t>(document_.process)].clock.shift_ns;
  std::vector<std::string> problems;
  const auto blind = [&](int64_t begin_ns, int64_t end_ns, const std::string& why) {
    if (begin_ns < end_ns) {
      run_->timeline.blinds.push_back({begin_ns, end_ns, document_.process, Blind::Why::kDamage,
                                       absl::StrCat(input.path, ": ", why)});
    }
  };
  for (const TextDamage& item : reader.damage()) {
    FileDamage damage = {input_, DamageKey(item.kind), item.offset, item.bytes};
    damage.detail = item.detail;
    if (item.end_ns != 0) {
      damage.begin_ns = item.begin_ns + shift_ns;
      damage.end_ns = item.end_ns + shift_ns;
    }
    // What was read after all is in the figures.
    if (item.kind != TextDamage::Kind::kRepaired) {
      input.damaged_bytes += item.bytes;
      if (item.hides_gpu_work && item.end_ns != 0) {
        blind(damage.begin_ns, damage.end_ns, item.detail);
      } else if (item.hides_gpu_work) {
        blind(process.capture_begin_ns, process.capture_end_ns, item.detail);
      }
    }
    if (item.kind == TextDamage::Kind::kTruncated) process.ended = false;
    problems.push_back(item.detail);
    run_->damage.push_back(std::move(damage));
  }
  for (FileDamage& row : unusable_rows_) {
    problems.push_back(absl::StrCat("row at byte ", row.offset, ": ", row.detail));
    run_->damage.push_back(std::move(row));
  }
  const uint64_t all =
      reader.damage().size() + reader.counts().damage_not_listed + unusable_row_count_;
  problems.resize(std::min(problems.size(), kProblemsInWords));
  if (all > problems.size()) {
    problems.push_back(absl::StrCat(FormatCount(all - problems.size()), " more (info lists them)"));
  }
  input.problem = absl::StrJoin(problems, "; ");
  input.complete = all == 0;
}

void KinetoLoader::AddNotices(const std::string& path, const RowCounts& counts) {
  const auto note = [&](const std::string& text) {
    run_->notices.push_back(absl::StrCat(path, ": ", text));
  };
  if (!counts.unknown_categories.empty()) {
    std::vector<std::pair<uint64_t, std::string>> unknown;
    for (const auto& [name, count] : counts.unknown_categories) unknown.emplace_back(count, name);
    std::sort(unknown.rbegin(), unknown.rend());
    std::vector<std::string> words;
    for (const auto& [count, name] : unknown) {
      if (words.size() == kListedCategories) break;
      words.push_back(absl::StrCat(name, " (", FormatCount(count), ")"));
    }
    note(absl::StrCat("categories that are not known: ", absl::StrJoin(words, ", "),
                      unknown.size() > words.size() ? ", ..." : ""));
  }
  if (counts.without_category > 0) {
    note(absl::StrCat(FormatPlural(counts.without_category, "row"),
                      " without a category: not used"));
  }
  if (counts.unmatched_ends > 0) {
    note(absl::StrCat(FormatPlural(counts.unmatched_ends, "end"), " without a begin: not used"));
  }
  if (counts.unfinished > 0) {
    note(absl::StrCat(FormatPlural(counts.unfinished, "row"), " without an end"));
  }
  if (counts.rounded_times > 0) {
    note(absl::StrCat(FormatPlural(counts.rounded_times, "row"),
                      " with times finer than a nanosecond: rounded"));
  }
  if (counts.control_characters > 0) {
    note(absl::StrCat(FormatPlural(counts.control_characters, "row"),
                      " with raw control characters in a text"));
  }
  if (counts.not_objects > 0) {
    note(absl::StrCat(FormatPlural(counts.not_objects, "element"), " among the rows that is none"));
  }
  const Timeline& timeline = run_->timeline;
  const bool gpu_work = timeline.ops.size() > document_.begin.ops ||
                        timeline.untimed.size() > document_.begin.untimed;
  if (counts.documents <= 1 && !gpu_work) {
    note(counts.elements == 0 ? "no event in it" : "no GPU work among its rows");
  }
}

absl::Status KinetoLoader::Load(const std::string& path, Packing packing) {
  auto opened = EventReader::Open(path, packing);
  if (!opened.ok()) return opened.status();
  EventReader& reader = **opened;
  Timeline& timeline = run_->timeline;
  timeline.inputs.push_back({path, reader.source().file_bytes()});
  input_ = LastIndex(timeline.inputs);
  unusable_rows_.clear();
  unusable_row_count_ = 0;
  odd_names_ = 0;
  Progress progress(path, reader.source().file_bytes());
  const size_t first_process = timeline.processes.size(), first_member = members_.size();
  BeginDocument();
  for (EventReader::Item item = reader.Next(); item != EventReader::Item::kEnd;
       item = reader.Next()) {
    progress.Tick(reader.source().consumed_bytes());
    if (item == EventReader::Item::kRow) {
      AddRow(reader.row());
    } else if (item == EventReader::Item::kMember) {
      AddMember(reader.key(), reader.value());
    } else {
      CloseDocument();
      BeginDocument();
    }
  }
  CloseDocument();
  const RowCounts& counts = reader.counts();
  const bool rows = counts.elements > counts.without_phase + counts.not_objects;
  const bool empty = counts.elements == counts.empty_objects && reader.damage().empty() &&
                     reader.has_event_array();
  if (!rows && !empty && !reader.has_trace_member()) {
    timeline.processes.resize(first_process);
    run_->captures.resize(first_process);
    members_.resize(first_member);
    timeline.inputs.pop_back();
    const std::string why = !reader.damage().empty()   ? reader.damage().front().detail
                            : reader.has_event_array() ? "its elements have no phase (\"ph\")"
                                                       : "it has no \"traceEvents\"";
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": JSON, but no trace that can be read: ", why, kJsonAdvice));
  }
  timeline.inputs[static_cast<size_t>(input_)].records = counts.elements;
  AddDamage(reader);
  AddNotices(path, counts);
  if (odd_names_ > 0) {
    run_->notices.push_back(absl::StrCat(path, ": ", FormatPlural(odd_names_, "name"),
                                         " with bytes that are not UTF-8: replaced"));
  }
  return absl::OkStatus();
}

absl::Status KinetoLoader::Finish() {
  if (absl::Status status = CheckOneRun(members_); !status.ok()) return status;
  std::stable_sort(
      run_->timeline.sampled.begin(), run_->timeline.sampled.end(),
      [](const SampledPeriod& a, const SampledPeriod& b) { return a.begin_ns < b.begin_ns; });
  if (members_.size() > 1) {
    run_->notices.push_back(
        absl::StrCat("times of the ", members_.size(),
                     " processes are their hosts' wall clocks: comparable as far as these agree"));
  }
  return absl::OkStatus();
}

}  // namespace gpuprobe::tools
