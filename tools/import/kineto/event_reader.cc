// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "tools/import/kineto/event_reader.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tools/import/text/exact_time.h"

namespace gpuprobe::tools {
namespace {

using namespace std::string_view_literals;

constexpr size_t kWindowBytes = 1 << 20;
// A row that is longer has lost a quote and goes on into its neighbours. Names of 1 MiB exist.
constexpr size_t kMaxRowBytes = 8 << 20;
// Sources of the traced program, environment dumps.
constexpr size_t kMaxMemberBytes = 128 << 20;
constexpr size_t kListedDamage = 1000;
constexpr size_t kShownBytes = 24;  // of a damaged place, in words

// With what rows begin. Objects among a row's arguments begin with other words, or stand behind a
// colon.
constexpr std::string_view kRowKeys[] = {"ph", "name", "cat", "pid", "tid", "ts",  "dur",
                                         "id", "args", "s",   "bp",  "tts", "tdur"};
// Members of the object around the events that no other kind of JSON has.
constexpr std::string_view kTraceMembers[] = {"schemaVersion",   "deviceProperties",
                                              "distributedInfo", "traceName",
                                              "displayTimeUnit", "baseTimeNanoseconds"};

bool HasCategory(RowKind kind) { return kind != RowKind::kNone; }

std::string Excerpt(const char* at, const char* end) {
  std::string text(at, std::min(static_cast<size_t>(end - at), kShownBytes));
  std::replace_if(
      text.begin(), text.end(), [](unsigned char c) { return c < 0x20; }, ' ');
  return text;
}

// What JSON has between its elements. Zeros are no space: where a disk was full or a machine went
// down, they stand in the place of rows.
bool IsJsonSpace(char c) { return c == ' ' || c == '\n' || c == '\r' || c == '\t'; }

}  // namespace

// A row whose end has not come yet, with its texts.
struct EventReader::OpenRow {
  Row row;
  std::array<std::string, 7> texts;

  explicit OpenRow(const Row& from) : row(from) { Keep(); }
  OpenRow(OpenRow&& other) noexcept : row(other.row), texts(std::move(other.texts)) { Point(); }
  OpenRow& operator=(OpenRow&&) = delete;

  std::array<JsonText*, 7> Texts() {
    return {&row.category, &row.name, &row.pid, &row.tid, &row.device, &row.stream, &row.sync_kind};
  }
  void Keep() {
    const auto all = Texts();
    for (size_t i = 0; i < all.size(); ++i) texts[i] = all[i]->raw;
    Point();
  }
  void Point() {
    const auto all = Texts();
    for (size_t i = 0; i < all.size(); ++i) all[i]->raw = texts[i];
    row.label = row.labels = {};
  }
};

EventReader::EventReader(std::unique_ptr<ByteSource> source) : source_(std::move(source)) {
  window_.resize(kWindowBytes + kJsonPadding);
}

EventReader::~EventReader() = default;

absl::StatusOr<std::unique_ptr<EventReader>> EventReader::Open(const std::string& path,
                                                               Packing packing) {
  auto source = ByteSource::Open(path, packing);
  if (!source.ok()) return source.status();
  return std::unique_ptr<EventReader>(new EventReader(*std::move(source)));
}

bool EventReader::Grow(size_t limit) {
  if (source_ended_) return false;
  const size_t used = end_ - begin_;
  if (used > limit) return false;
  std::memmove(window_.data(), window_.data() + begin_, used);
  base_ += begin_;
  begin_ = 0;
  end_ = used;
  size_t capacity = window_.size() - kJsonPadding;
  if (used > capacity / 2) {
    capacity *= 2;
    window_.resize(capacity + kJsonPadding);
  }
  while (end_ < capacity) {
    const size_t got = source_->Read(window_.data() + end_, capacity - end_);
    if (got == 0) {
      source_ended_ = true;
      break;
    }
    end_ += got;
  }
  counts_.text_bytes = base_ + end_;
  std::memset(window_.data() + end_, 0, kJsonPadding);
  return end_ > used;
}

bool EventReader::SkipSpace() {
  for (;;) {
    while (begin_ < end_ && IsJsonSpace(window_[begin_])) ++begin_;
    if (begin_ < end_) return true;
    if (!Grow(kMaxRowBytes)) return false;
  }
}

void EventReader::AddDamage(TextDamage damage) {
  if (damage_.size() < kListedDamage) {
    damage_.push_back(std::move(damage));
    return;
  }
  ++counts_.damage_not_listed;
  damage_.back().bytes += damage.bytes;
  damage_.back().hides_gpu_work |= damage.hides_gpu_work;
  damage_.back().begin_ns = damage_.back().end_ns = 0;
}

void EventReader::Truncated(const char* begin) {
  const uint64_t offset = OffsetOf(begin);
  AddDamage({TextDamage::Kind::kTruncated, offset, OffsetOf(end()) - offset,
             absl::StrCat("truncated: the text ends at byte ", OffsetOf(end()),
                          " before the trace does")});
  begin_ = end_;
  state_ = State::kFlush;
}

// The next place from `from` on where a row may begin, or the event array. nullptr: not in the
// window.
const char* EventReader::FindRow(const char* from, bool* needs_more) const {
  *needs_more = false;
  const auto space = [](char c) { return static_cast<unsigned char>(c) <= ' '; };
  const char* const stop = end();
  for (const char* at = from; at < stop; ++at) {
    at = static_cast<const char*>(
        std::memchr(at, state_ == State::kMembers ? '"' : '{', static_cast<size_t>(stop - at)));
    if (at == nullptr) return nullptr;
    if (state_ == State::kMembers) {
      constexpr auto kEvents = "\"traceEvents\""sv;
      if (stop - at < static_cast<ptrdiff_t>(kEvents.size())) {
        *needs_more = true;
        return at;
      }
      if (std::string_view(at, kEvents.size()) == kEvents) return at;
      continue;
    }
    const char* before = at;
    while (before > from && space(before[-1])) --before;
    if (before > from && before[-1] != ',' && before[-1] != '[' && before[-1] != '}') continue;
    const char* key = at + 1;
    while (key < stop && space(*key)) ++key;
    const char* quote = key;
    if (key < stop && *key == '"') {
      quote = static_cast<const char*>(
          std::memchr(key + 1, '"', static_cast<size_t>(std::min<ptrdiff_t>(stop - key - 1, 8))));
    }
    if (key >= stop || (quote == nullptr && stop - key < 9)) {
      *needs_more = true;
      return at;
    }
    if (*key != '"' || quote == nullptr) continue;
    const char* colon = quote + 1;
    while (colon < stop && space(*colon)) ++colon;
    if (colon >= stop) {
      *needs_more = true;
      return at;
    }
    const std::string_view word(key + 1, static_cast<size_t>(quote - key - 1));
    if (*colon == ':' &&
        std::find(std::begin(kRowKeys), std::end(kRowKeys), word) != std::end(kRowKeys)) {
      return at;
    }
  }
  return nullptr;
}

void EventReader::Resynchronise(const char* begin, const char* what) {
  TextDamage damage = {TextDamage::Kind::kCorrupt, OffsetOf(begin), 0, ""};
  damage.detail = absl::StrCat(what, " at byte ", damage.offset, ": ", Excerpt(begin, end()));
  MoveTo(begin);
  size_t from = 1;  // from begin_; what stands there was tried
  bool whole = true;
  for (;;) {
    bool needs_more = false;
    const char* found = FindRow(at() + std::min(from, end_ - begin_), &needs_more);
    if (found != nullptr && !needs_more) {
      if (whole) Describe(std::string_view(at(), static_cast<size_t>(found - at())), &damage);
      damage.bytes = OffsetOf(found) - damage.offset;
      MoveTo(found);
      AddDamage(std::move(damage));
      return;
    }
    // Of garbage without end only the last bytes matter: a row may begin in them.
    from = needs_more ? static_cast<size_t>(found - at()) : end_ - begin_;
    if (from > kMaxRowBytes) {
      constexpr size_t kBefore = 16;  // room for what stands before a row
      begin_ += from - kBefore;
      from = kBefore;
      whole = false;
    }
    if (!Grow(2 * kMaxRowBytes)) break;
  }
  if (whole) Describe(std::string_view(at(), end_ - begin_), &damage);
  damage.bytes = OffsetOf(end()) - damage.offset;
  begin_ = end_;
  AddDamage(std::move(damage));
  state_ = State::kFlush;
}

bool EventReader::Begin() {
  constexpr auto kByteOrderMark = "\xef\xbb\xbf"sv;
  if (begin_ == end_) Grow(kMaxRowBytes);
  if (std::string_view(at(), end_ - begin_).starts_with(kByteOrderMark)) {
    begin_ += kByteOrderMark.size();
  }
  if (!SkipSpace()) return false;
  ++counts_.documents;
  bare_array_ = *at() == '[';
  depth_ = bare_array_ ? 0 : 1;
  has_event_array_ |= bare_array_;
  state_ = bare_array_ ? State::kEvents : State::kMembers;
  if (*at() == '[' || *at() == '{') ++begin_;
  return true;
}

std::optional<EventReader::Item> EventReader::NextMember() {
  if (!SkipSpace()) {
    Truncated(end());
    return std::nullopt;
  }
  if (*at() == '}') {
    ++begin_;
    if (--depth_ == 0) state_ = State::kTail;
    return std::nullopt;
  }
  if (*at() == ',') {
    ++begin_;
    return std::nullopt;
  }
  for (;;) {
    JsonCursor cursor(at(), end());
    JsonText key;
    Scan scan = *at() == '"' ? cursor.String(&key) : Scan::kBad;
    if (scan == Scan::kOk) scan = cursor.Space();
    if (scan == Scan::kOk && cursor.Peek() != ':') scan = Scan::kBad;
    if (scan == Scan::kOk) {
      cursor.Take();
      scan = cursor.Space();
    }
    const char* const value = cursor.at();
    const bool events = scan == Scan::kOk && key.raw == "traceEvents"sv;
    if (events && (*value == '[' || *value == '{')) {
      has_event_array_ |= *value == '[';
      has_trace_member_ = true;
      if (*value == '[') state_ = State::kEvents;
      if (*value == '{') ++depth_;
      MoveTo(value + 1);
      return std::nullopt;
    }
    if (scan == Scan::kOk) scan = cursor.Skip();
    if (scan == Scan::kOk) {
      has_trace_member_ |= std::find(std::begin(kTraceMembers), std::end(kTraceMembers), key.raw) !=
                           std::end(kTraceMembers);
      key_ = key.raw;
      value_ = std::string_view(value, static_cast<size_t>(cursor.at() - value));
      MoveTo(cursor.at());
      return Item::kMember;
    }
    if (scan == Scan::kMore && Grow(kMaxMemberBytes)) continue;
    if (scan == Scan::kMore && source_ended_) {
      bool needs_more = false;
      if (has_event_array_ || FindRow(at() + 1, &needs_more) == nullptr) {
        Truncated(at());
        return std::nullopt;
      }
    }
    Resynchronise(at(), "no JSON");
    return std::nullopt;
  }
}

void EventReader::SetTimes() {
  bool rounded = false;
  row_.start_ns = NanosecondsOf(start_.raw, &rounded);
  row_.end_ns.reset();
  if (row_.start_ns && !duration_.raw.empty()) {
    const auto length = NanosecondsOf(duration_.raw, &rounded);
    int64_t end = 0;
    if (length && *length >= 0 && !__builtin_add_overflow(*row_.start_ns, *length, &end)) {
      row_.end_ns = end;
    }
  }
  counts_.rounded_times += rounded;
}

bool EventReader::Pair() {
  std::string lane(row_.pid.raw);
  lane.push_back('\0');
  lane += row_.tid.raw;
  std::vector<OpenRow>& open = open_rows_[lane];
  if (row_.phase == 'B') {
    open.emplace_back(row_);
    return false;
  }
  if (open.empty()) {
    ++counts_.unmatched_ends;
    return false;
  }
  const auto end_ns = row_.start_ns;
  closed_ = std::make_unique<OpenRow>(std::move(open.back()));
  open.pop_back();
  row_ = closed_->row;
  if (row_.start_ns && end_ns && *end_ns >= *row_.start_ns) row_.end_ns = end_ns;
  return true;
}

// Is row_ one to hand out? Counts it.
bool EventReader::Accept() {
  if (row_.phase == 'M') {
    row_.kind = RowKind::kMetadata;
    return true;
  }
  if (row_.phase == 'B' || row_.phase == 'E') {
    if (!row_.unfinished) SetTimes();
    if (!row_.unfinished && !Pair()) return false;
  } else if (row_.phase != 'X') {
    return false;
  } else if (row_.kind < RowKind::kMetadata) {
    SetTimes();
  }
  if (row_.kind == RowKind::kUnknown) {
    ++counts_.unknown_categories[Unescape(row_.category)];
    return false;
  }
  if (!HasCategory(row_.kind)) ++counts_.without_category;
  return row_.kind < RowKind::kMetadata;
}

std::optional<EventReader::Item> EventReader::NextElement() {
  if (!SkipSpace()) {
    if (bare_array_) {
      state_ = State::kFlush;
    } else {
      Truncated(end());
    }
    return std::nullopt;
  }
  if (*at() == ',') {
    ++begin_;
    return std::nullopt;
  }
  if (*at() == ']') {
    ++begin_;
    state_ = bare_array_ ? State::kTail : State::kMembers;
    return std::nullopt;
  }
  bool lenient = false;
  for (;;) {
    JsonCursor cursor(at(), end(), lenient);
    const bool object = *at() == '{';
    const Scan scan = object                         ? ParseRow(&cursor, &row_, &start_, &duration_)
                      : *at() == '"' || *at() == '[' ? Scan::kBad
                                                     : cursor.Skip();
    if (scan == Scan::kOk) {
      row_.offset = OffsetOf(at());
      row_.bytes = static_cast<uint64_t>(cursor.at() - at());
      counts_.control_characters += cursor.saw_control();
      ++counts_.elements;
      MoveTo(cursor.at());
      if (lenient) {
        AddDamage({TextDamage::Kind::kRepaired, row_.offset, row_.bytes,
                   absl::StrCat("quotes not escaped in the row at byte ", row_.offset), false});
      }
      if (!object) {
        ++counts_.not_objects;
        return std::nullopt;
      }
      counts_.without_phase += row_.phase == 0;
      counts_.empty_objects += row_.bytes == 2;
      if (Accept()) return Item::kRow;
      return std::nullopt;
    }
    if (scan == Scan::kMore && Grow(kMaxRowBytes)) continue;
    if (object && !lenient && scan == Scan::kBad) {
      lenient = true;
      continue;
    }
    if (scan == Scan::kMore && source_ended_) {
      bool needs_more = false;
      const char* next = FindRow(at() + 1, &needs_more);
      if (next == nullptr || needs_more) {
        Truncated(at());
        return std::nullopt;
      }
    }
    Resynchronise(at(), "no valid row");
    return std::nullopt;
  }
}

std::optional<EventReader::Item> EventReader::NextTail() {
  if (!SkipSpace()) {
    state_ = State::kFlush;
    return std::nullopt;
  }
  if (*at() == '{' || *at() == '[') {
    state_ = State::kBegin;
    open_rows_.clear();
    return Item::kDocument;
  }
  if (*at() == '\0') {
    ++begin_;
    return std::nullopt;
  }
  // What follows may still be rows: an object that ended too early.
  state_ = State::kEvents;
  bare_array_ = true;
  Resynchronise(at(), "no JSON");
  return std::nullopt;
}

// Rows that began and never ended, at the end of the text.
std::optional<EventReader::Item> EventReader::FlushOpenRow() {
  while (!open_rows_.empty()) {
    auto lane = open_rows_.begin();
    if (lane->second.empty()) {
      open_rows_.erase(lane);
      continue;
    }
    closed_ = std::make_unique<OpenRow>(std::move(lane->second.back()));
    lane->second.pop_back();
    row_ = closed_->row;
    row_.unfinished = true;
    ++counts_.unfinished;
    if (Accept()) return Item::kRow;
  }
  for (const UnpackProblem& problem : source_->problems()) {
    AddDamage({TextDamage::Kind::kPacking, problem.offset, problem.bytes, problem.text});
  }
  state_ = State::kEnd;
  return Item::kEnd;
}

EventReader::Item EventReader::Next() {
  for (;;) {
    std::optional<Item> item;
    switch (state_) {
      case State::kBegin:
        if (!Begin()) state_ = State::kFlush;
        break;
      case State::kMembers:
        item = NextMember();
        break;
      case State::kEvents:
        item = NextElement();
        break;
      case State::kTail:
        item = NextTail();
        break;
      case State::kFlush:
        item = FlushOpenRow();
        break;
      case State::kEnd:
        return Item::kEnd;
    }
    if (item) return *item;
  }
}

}  // namespace gpuprobe::tools
