// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Trace events (Chrome's JSON format, as PyTorch's profiler writes it) row by row, in constant
// memory, also torn and damaged ones. One thread; one reader per file.
//
// What it takes: an object with "traceEvents", also one level deeper, or a bare array; missing
// ends, commas too many, empty objects, several documents behind each other (files put together by
// `cat`); NaN, Infinity, raw control characters; quoted numbers.
//
// Damage. A row that is no JSON is first read as if quotes inside strings had not been escaped;
// where that does not help either, reading goes on at the next place that looks like the begin of a
// row. Every stretch left out is in damage(), with its offset in the unpacked text. Where the file
// ends inside of a row, or before the events are over, it is truncated; a bare array may lack its
// bracket, the format allows it.
#ifndef GPUPROBE_TOOLS_IMPORT_KINETO_EVENT_READER_H_
#define GPUPROBE_TOOLS_IMPORT_KINETO_EVENT_READER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "tools/import/kineto/event_row.h"
#include "tools/import/kineto/text_damage.h"
#include "tools/import/text/byte_source.h"
#include "tools/import/text/json_scan.h"

namespace gpuprobe::tools {

struct RowCounts {
  uint64_t elements = 0;          // of the event arrays
  uint64_t without_phase = 0;     // of these
  uint64_t empty_objects = 0;     // of these
  uint64_t not_objects = 0;       // numbers, null
  uint64_t without_category = 0;  // complete rows
  uint64_t unmatched_ends = 0;    // "E" without a "B"
  uint64_t unfinished = 0;        // "B" without an "E"
  uint64_t rounded_times = 0;
  uint64_t control_characters = 0;  // rows that have some, raw, in a string
  uint64_t documents = 0;
  uint64_t text_bytes = 0;  // unpacked
  uint64_t damage_not_listed = 0;
  std::map<std::string, uint64_t> unknown_categories;  // complete rows of each
};

class EventReader {
 public:
  static absl::StatusOr<std::unique_ptr<EventReader>> Open(const std::string& path,
                                                           Packing packing);
  EventReader(const EventReader&) = delete;
  EventReader& operator=(const EventReader&) = delete;

  enum class Item {
    kRow,       // row(): complete rows of kinds that mean something here, and metadata rows
    kMember,    // key() and value(): a member of the object around the events
    kDocument,  // another document begins
    kEnd
  };
  Item Next();

  const Row& row() const { return row_; }
  std::string_view key() const { return key_; }
  // The member's value as it stands; kJsonPadding readable bytes follow.
  std::string_view value() const { return value_; }

  const RowCounts& counts() const { return counts_; }
  const std::vector<TextDamage>& damage() const { return damage_; }  // complete at kEnd
  bool has_event_array() const { return has_event_array_; }          // of any document
  bool has_trace_member() const { return has_trace_member_; }        // "schemaVersion", ...
  const ByteSource& source() const { return *source_; }

 private:
  enum class State { kBegin, kMembers, kEvents, kTail, kFlush, kEnd };
  struct OpenRow;

  explicit EventReader(std::unique_ptr<ByteSource> source);

  // Window. False: nothing more comes, or the window would exceed `limit`.
  bool Grow(size_t limit);
  const char* at() const { return window_.data() + begin_; }
  const char* end() const { return window_.data() + end_; }
  uint64_t OffsetOf(const char* position) const {
    return base_ + static_cast<uint64_t>(position - window_.data());
  }
  void MoveTo(const char* position) { begin_ = static_cast<size_t>(position - window_.data()); }
  // To the next character that is no white space; false: there is none.
  bool SkipSpace();

  bool Begin();
  std::optional<Item> NextMember();
  std::optional<Item> NextElement();
  std::optional<Item> NextTail();
  std::optional<Item> FlushOpenRow();
  void SetTimes();
  bool Pair();  // B and E rows; true: row_ is complete
  bool Accept();

  // Leaves the text from `begin` on out, up to the next row or member.
  void Resynchronise(const char* begin, const char* what);
  const char* FindRow(const char* from, bool* needs_more) const;
  void Truncated(const char* begin);
  void AddDamage(TextDamage damage);

  std::unique_ptr<ByteSource> source_;
  std::string window_;  // [begin_, end_) is text that was not used yet; padding follows
  size_t begin_ = 0, end_ = 0;
  uint64_t base_ = 0;  // offset of window_[0] in the text
  bool source_ended_ = false;

  State state_ = State::kBegin;
  int depth_ = 0;  // objects around the events
  bool bare_array_ = false;
  bool has_event_array_ = false, has_trace_member_ = false;
  Row row_;
  JsonText start_, duration_;
  std::string_view key_, value_;
  std::map<std::string, std::vector<OpenRow>> open_rows_;  // by pid and tid
  std::unique_ptr<OpenRow> closed_;                        // keeps the texts of row_
  RowCounts counts_;
  std::vector<TextDamage> damage_;

 public:
  ~EventReader();
};

}  // namespace gpuprobe::tools

#endif  // GPUPROBE_TOOLS_IMPORT_KINETO_EVENT_READER_H_
