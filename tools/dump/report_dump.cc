// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "tools/dump/report_dump.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proto/trace_reader.h"
#include "tools/dump/dump_records.h"
#include "tools/dump/dump_timeline.h"
#include "tools/format/format_json.h"
#include "tools/format/format_table.h"
#include "tools/format/format_text.h"
#include "tools/import/source_format.h"
#include "tools/load/loss_causes.h"
#include "tools/load/trace_loader.h"

namespace gpuprobe::tools {
namespace {

// Of a list in text and CSV: the innermost frames of a stack.
constexpr size_t kListedItems = 8;

// One record to one line; the formats differ in this alone.
class LineWriter {
 public:
  LineWriter(Format format, Output* output) : format_(format), output_(output), json_(&line_) {}

  void Begin(const std::string& path) { path_ = path; }

  void Open() {
    if (format_ == Format::kCsv)
      AppendCsvRow({"file", "kind", "start_ns", "end_ns", "name", "fields"}, &line_);
    if (format_ == Format::kJson) {
      json_.BeginObject().Field("schema", "gpuprobe.dump/1").Key("records").BeginArray();
    }
    Send();
  }

  void Write(const DumpRecord& record) {
    switch (format_) {
      case Format::kText:
        Text(record);
        break;
      case Format::kCsv:
        Csv(record);
        break;
      case Format::kJson:
        Json(record);
        break;
    }
    Send();
  }

  void Close(bool partial, const std::vector<Unusable>& unusable) {
    if (format_ != Format::kJson) return;
    json_.EndArray().Field("partial", partial).Key("unusable").BeginArray();
    for (const Unusable& item : unusable) {
      json_.BeginObject().Field("path", item.path).Field("message", item.message).EndObject();
    }
    json_.EndArray().EndObject();
    line_.push_back('\n');
    Send();
  }

 private:
  static std::string Quoted(const std::string& text) {
    return absl::StrCat("\"", absl::Utf8SafeCEscape(ToValidUtf8(text)), "\"");
  }
  static std::string ListText(std::vector<std::string> list) {
    if (list.size() > kListedItems) {
      const size_t more = list.size() - kListedItems;
      list.resize(kListedItems);
      list.push_back(absl::StrCat("... ", more, " more"));
    }
    return absl::StrJoin(list, " < ");
  }
  static std::string FieldText(const DumpField& field) {
    switch (field.kind) {
      case DumpField::Kind::kNumber:
        return absl::StrCat(field.key, "=", field.number);
      case DumpField::Kind::kText:
        return absl::StrCat(field.key, "=", Quoted(field.text));
      case DumpField::Kind::kList:
        return absl::StrCat(field.key, "=", Quoted(ListText(field.list)));
    }
    return "";
  }
  static std::string AllFields(const DumpRecord& record) {
    return absl::StrJoin(record.fields, " ", [](std::string* out, const DumpField& field) {
      absl::StrAppend(out, FieldText(field));
    });
  }

  void Text(const DumpRecord& record) {
    absl::StrAppend(&line_, record.kind);
    if (record.timed) {
      // Unsigned: times are whatever the file says.
      absl::StrAppend(
          &line_, " ", record.start_ns, " +",
          static_cast<uint64_t>(record.end_ns) - static_cast<uint64_t>(record.start_ns));
    }
    if (!record.fields.empty()) absl::StrAppend(&line_, " ", AllFields(record));
    if (!record.name.empty()) absl::StrAppend(&line_, " ", ToPrintable(record.name));
    line_.push_back('\n');
  }

  void Csv(const DumpRecord& record) {
    const std::string start = record.timed ? absl::StrCat(record.start_ns) : "";
    const std::string end = record.timed ? absl::StrCat(record.end_ns) : "";
    AppendCsvRow({path_, record.kind, start, end, record.name, AllFields(record)}, &line_);
  }

  void JsonField(const DumpField& field) {
    json_.Key(field.key);
    switch (field.kind) {
      case DumpField::Kind::kNumber:
        json_.Value(field.number);
        return;
      case DumpField::Kind::kText:
        json_.Value(field.text);
        return;
      case DumpField::Kind::kList:
        json_.BeginArray();
        for (const std::string& item : field.list) json_.Value(item);
        json_.EndArray();
    }
  }

  void Json(const DumpRecord& record) {
    json_.BeginObject().Field("kind", record.kind);
    if (record.timed) json_.Field("start_ns", record.start_ns).Field("end_ns", record.end_ns);
    if (!record.name.empty()) json_.Field("name", record.name);
    for (const DumpField& field : record.fields) {
      JsonField(field);
    }
    json_.EndObject();
  }

  void Send() {
    output_->Write(line_);
    line_.clear();
  }

  Format format_;
  Output* output_;
  std::string path_, line_;
  JsonWriter json_;
};

// Not where it was told to record nothing (ProcessCapture::told_not_to_record).
bool TurnedItselfOff(const CaptureInfo& capture) {
  for (const CaptureInfo::Setting& setting : capture.settings()) {
    if (setting.name() == "GPUPROBE_CAPTURE" && setting.value() == "0") return false;
  }
  return !capture.off_reason().empty();
}

// What makes a run partial for the other reports, too (LoadedRun::complete).
bool TellsOfLoss(const proto::Frame& frame) {
  for (const Packet& packet : frame.trace.packet()) {
    if (packet.has_loss() && WordsForLoss(packet.loss().cause()).hides) return true;
    if (packet.has_end() && packet.end().buffers_outstanding() > 0) return true;
    if (packet.has_capture() && TurnedItselfOff(packet.capture())) return true;
  }
  return false;
}

class Dumper {
 public:
  Dumper(const DumpOptions& options, Output* output)
      : options_(options), output_(output), writer_(options.format, output) {}

  void Open() { writer_.Open(); }
  void Close(bool partial, const std::vector<Unusable>& unusable) {
    writer_.Close(partial, unusable);
  }

  // Whether the file was complete.
  bool DumpFile(proto::TraceReader* reader) {
    writer_.Begin(reader->path());
    Write(FileRecord(*reader));
    proto::Frame frame;
    bool records = false, lost = false;
    FrameDumper dumper([this](const DumpRecord& record) { return Write(record); });
    while (!full_ && reader->Next(&frame)) {
      records |= frame.header().records() > 0;
      lost |= TellsOfLoss(frame);
      if (options_.pid.has_value() && dumper.PidOf(frame) != *options_.pid) continue;
      dumper.Dump(frame);
    }
    bool complete = !lost;
    for (const proto::Damage& damage : reader->damage()) {
      Write(DamageRecord(damage));
      // A capture without a record is empty, not incomplete.
      complete &= damage.kind == proto::Damage::Kind::kNoEnd && !records;
    }
    return complete;
  }

  void DumpRun(const LoadedRun& run) {
    writer_.Begin(run.name);
    DumpTimeline(run, options_.pid, [this](const DumpRecord& record) { return Write(record); });
  }

 private:
  // False once enough was written.
  bool Write(const DumpRecord& record) {
    if (full_) return false;
    writer_.Write(record);
    ++written_;
    const bool limited = options_.top.has_value() && *options_.top > 0;
    full_ = (limited && written_ >= static_cast<uint64_t>(*options_.top)) || !output_->ok();
    return !full_;
  }

  const DumpOptions& options_;
  Output* output_;
  LineWriter writer_;
  uint64_t written_ = 0;
  bool full_ = false;
};

bool IsImported(const std::string& path) {
  return DetectSourceOfFile(path).format != SourceFormat::kOther;
}

absl::StatusOr<bool> DumpImported(const InputFiles& files, const DumpOptions& options,
                                  Output* output) {
  const absl::StatusOr<LoadedRun> run = LoadRun(files, Linking::kAsRecorded);
  if (!run.ok()) return run.status();
  Dumper dumper(options, output);
  dumper.Open();
  dumper.DumpRun(*run);
  dumper.Close(!run->complete(), run->unusable);
  return run->complete();
}

}  // namespace

absl::StatusOr<bool> WriteDump(const InputFiles& files, const DumpOptions& options,
                               Output* output) {
  if (std::any_of(files.paths.begin(), files.paths.end(), IsImported)) {
    return DumpImported(files, options, output);
  }
  std::vector<Unusable> unusable = files.unusable;
  Dumper dumper(options, output);
  bool complete = true, opened = false;
  // One file at a time: a run may have more files than a process may have descriptors.
  for (const std::string& path : files.paths) {
    absl::StatusOr<std::unique_ptr<proto::TraceReader>> reader = proto::TraceReader::Open(path);
    if (!reader.ok()) {
      unusable.push_back({path, std::string(reader.status().message())});
      continue;
    }
    if (!opened) dumper.Open();
    opened = true;
    complete &= dumper.DumpFile(reader->get());
  }
  if (!opened) {
    return absl::InvalidArgumentError(absl::StrJoin(
        unusable, "\n",
        [](std::string* out, const Unusable& item) { absl::StrAppend(out, item.message); }));
  }
  complete &= unusable.empty();
  dumper.Close(!complete, unusable);
  return complete;
}

}  // namespace gpuprobe::tools
