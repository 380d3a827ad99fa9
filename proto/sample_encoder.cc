// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "proto/sample_encoder.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "proto/frame_map.h"
#include "proto/utf8.h"
#include "proto/wire.h"

namespace gpuprobe::proto {
namespace {

// A piece of 250 ms of 20 threads at 100 Hz has 500 samples; stacks of 64 frames that differ in the
// inner 16 make 8,000 nodes.
constexpr uint32_t kMaxTexts = 4096;
constexpr uint32_t kMaxLocations = 4096;
constexpr uint32_t kMaxNodes = 16383;  // an id takes two bytes as a varint
constexpr uint32_t kMaxSamples = 6144;
constexpr uint32_t kMaxThreads = 512;
constexpr uint32_t kMaxProcesses = 128;
constexpr uint32_t kMaxUnreadable = 8;
constexpr uint32_t kMaxModules = 256;
constexpr uint32_t kPoolBytes = 192u << 10;

constexpr size_t kMaxTextBytes = 1024;  // of functions and files; what is longer is cut
constexpr size_t kMaxNameBytes = 64;
constexpr size_t kMaxCommandLineBytes = 256;
constexpr size_t kMaxReasonBytes = 160;

// Most that tags and lengths take: the message's own numbers and its seven columns; a thread with
// ten columns; a process. Lengths below 512 KiB have three bytes at most.
constexpr size_t kMessageBytes = 3 * 11 + 6 * 12 + 7 * 4;
constexpr size_t kThreadBytes = 4 + 2 * 6 + 3 + 2 + 10 * 4;
constexpr size_t kProcessBytes = 4 + 4 * 11 + 2 + 3 * 4;
constexpr size_t kTextHeaderBytes = 3;
constexpr size_t kModuleBytes = 3 + 3 + 2;
constexpr size_t kMaxBuildIdBytes = 64;

// Times are written in microseconds: reading what a thread does takes ten times that, and the
// digits below would be half of the file.
constexpr uint32_t kUnitNs = 1000;

using Id = uint16_t;  // index + 1; 0: none

struct Text {
  uint32_t offset;  // in the pool
  uint32_t size;
};
struct Location {
  uint64_t offset;
  uint32_t caller_id;
  uint32_t line;
  Id function, file;
  uint8_t kind;
};
// Zigzag of the difference to the row before, that of the first row to 0.
template <class Row>
uint64_t IdDelta(const Row* rows, const Row& row, Id Row::*id) {
  const int32_t before = &row == rows ? 0 : (&row - 1)->*id;
  return ZigZag(int32_t{row.*id} - before);
}

struct Module {
  Text build_id;
  Id file;
};
struct Node {
  Id parent, location;
};
struct Sample {
  // As written: in units of kUnitNs, and what the schema makes of them.
  uint64_t time_delta, interval_excess, cpu;  // zigzag
  uint64_t runnable;
  uint32_t syscall_plus1;
  uint32_t gil_holder;
  uint32_t state, flags;
  Id stack, wait_target;
  Id next;  // of the same thread
};
struct Thread {
  uint32_t pid, tid;
  int64_t last_ns;    // of its last sample
  int64_t last_time;  // the same, in units from base_ns
  Text name;
  uint32_t count;
  Id first, last;  // samples
  bool main;
};
struct Process {
  uint64_t start_ticks;
  uint32_t pid, parent_pid, allowed_cpus, unreadable_count;
  Text name, command_line, python_version;
  Text unreadable[kMaxUnreadable];
  bool ended;
};

uint64_t HashText(const char* text, size_t size) {
  uint64_t hash = size;
  while (size >= 8) {
    uint64_t word;
    std::memcpy(&word, text, 8);
    hash = Mix(hash, word);
    text += 8;
    size -= 8;
  }
  uint64_t rest = 0;
  if (size != 0) std::memcpy(&rest, text, size);
  return Mix(hash, rest);
}

// The reader's sums wrap, too.
template <class Int>
int64_t Difference(Int a, Int b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) - static_cast<uint64_t>(b));
}

// To the nearest unit, but never to none at all.
uint64_t Units(uint64_t ns) {
  return ns == 0 ? 0 : std::max<uint64_t>(1, ns / kUnitNs + (ns % kUnitNs >= kUnitNs / 2));
}

// A thread that runs does so all the time as a rule, and one that does not, not at all: what is
// written is the distance from the nearer of the two.
uint64_t CpuOfInterval(uint64_t cpu, uint64_t interval) {
  const bool near_all = cpu <= interval && cpu > interval / 2;
  return ZigZag(near_all ? Difference(cpu, interval) - 1 : static_cast<int64_t>(cpu));
}

// What is within the interval stays within it, whatever rounding does.
uint64_t PartUnits(uint64_t part_ns, uint64_t whole_ns, uint64_t whole) {
  return part_ns <= whole_ns ? std::min(Units(part_ns), whole) : Units(part_ns);
}

// `before`: the thread as its previous sample left it.
void SetTimes(const SampleRecord& sample, const Thread& before, int64_t time, Sample* out) {
  const int64_t delta = Difference(time, before.last_time);
  const bool contiguous = before.count != 0 && static_cast<int64_t>(sample.interval_ns) ==
                                                   Difference(sample.time_ns, before.last_ns);
  const uint64_t interval = contiguous ? static_cast<uint64_t>(delta) : Units(sample.interval_ns);
  const uint64_t cpu = PartUnits(sample.cpu_ns, sample.interval_ns, interval);
  const bool disjoint = sample.cpu_ns <= sample.interval_ns;
  out->time_delta = ZigZag(delta);
  out->interval_excess =
      ZigZag(before.count == 0 ? static_cast<int64_t>(interval)
                               : Difference(interval, static_cast<uint64_t>(delta)));
  out->cpu = CpuOfInterval(cpu, interval);
  out->runnable =
      disjoint ? PartUnits(sample.runnable_ns, sample.interval_ns - sample.cpu_ns, interval - cpu)
               : Units(sample.runnable_ns);
}

size_t EncodedBytes(const Sample& s) {
  return VarintBytes(s.time_delta) + VarintBytes(s.interval_excess) + VarintBytes(s.cpu) +
         VarintBytes(s.runnable) + VarintBytes(s.state) + VarintBytes(s.stack) +
         VarintBytes(s.syscall_plus1) + VarintBytes(s.wait_target) + VarintBytes(s.flags) +
         VarintBytes(s.gil_holder);
}

// Ids by hash, open addressing, never more than half full.
template <uint32_t kMaxIds>
struct IdTable {
  static constexpr uint32_t kSlots = std::bit_ceil(2 * kMaxIds);
  Id slots[kSlots];

  // The slot of the id for which `same` is true, or the empty one where it belongs.
  template <class Same>
  Id* Find(uint64_t hash, Same same) {
    for (uint32_t i = static_cast<uint32_t>(hash) & (kSlots - 1);; i = (i + 1) & (kSlots - 1)) {
      if (slots[i] == 0 || same(slots[i])) return &slots[i];
    }
  }
};

// Whether the zeros at the end of a column are written: one column tells how long all are.
enum class Zeros { kCut, kKept };

// Chained samples of one thread as one packed column.
template <class Value>
void WriteColumn(uint32_t field, const Sample* samples, const Thread& thread, Zeros zeros,
                 WireWriter* out, Value value) {
  size_t used = 0, at = 0;
  for (Id id = thread.first; id != 0; id = samples[id - 1].next) {
    ++at;
    if (zeros == Zeros::kKept || value(samples[id - 1]) != 0) used = at;
  }
  if (used == 0) return;
  const WireWriter::Mark mark = out->Open(field, used);
  for (Id id = thread.first; used != 0; id = samples[id - 1].next, --used) {
    out->Varint(value(samples[id - 1]));
  }
  out->Close(mark);
}

// One packed column of a table.
template <class Row, class Value>
void WriteTable(uint32_t field, const Row* rows, size_t count, Zeros zeros, WireWriter* out,
                Value value) {
  size_t used = count;
  while (zeros == Zeros::kCut && used != 0 && value(rows[used - 1]) == 0) --used;
  if (used == 0) return;
  const WireWriter::Mark mark = out->Open(field, used);
  for (size_t i = 0; i < used; ++i) out->Varint(value(rows[i]));
  out->Close(mark);
}

}  // namespace

struct SampleEncoder::State {
  int64_t base_ns;
  size_t bytes;  // most that Seal would write now
  uint32_t text_count, location_count, node_count, sample_count, thread_count, process_count;
  uint32_t module_count;
  uint32_t pool_used;
  bool full;

  IdTable<kMaxTexts> text_ids;
  IdTable<kMaxLocations> location_ids;
  IdTable<kMaxNodes> node_ids;
  IdTable<kMaxThreads> thread_ids;
  Text texts[kMaxTexts];
  Location locations[kMaxLocations];
  Node nodes[kMaxNodes];
  Sample samples[kMaxSamples];
  Thread threads[kMaxThreads];
  Process processes[kMaxProcesses];
  Module modules[kMaxModules];
  char pool[kPoolBytes];

  bool Refuse() {
    full = true;
    return false;
  }
  bool Room(size_t more) const { return bytes + more <= kMaxSealedBytes; }

  // Copies a text to the free end of the pool, where it is not yet kept; false: no room.
  bool Copy(std::string_view text, size_t limit, Text* out) {
    const size_t size = text.size() < limit ? text.size() : limit;
    if (kPoolBytes - pool_used < size) return Refuse();
    *out = {pool_used, static_cast<uint32_t>(size)};
    if (size == 0) return true;
    std::memcpy(pool + pool_used, text.data(), size);
    ReplaceInvalidUtf8(pool + pool_used, size);
    return true;
  }
  // The same, kept.
  bool Keep(std::string_view text, size_t limit, Text* out) {
    if (!Copy(text, limit, out)) return false;
    pool_used += out->size;
    return true;
  }
  const char* At(const Text& text) const { return pool + text.offset; }
  void Write(uint32_t field, const Text& text, WireWriter* out) const {
    if (text.size != 0) out->Bytes(field, At(text), text.size);
  }

  Id* FindThread(uint32_t pid, uint32_t tid) {
    return thread_ids.Find(Mix(pid, tid), [&](Id id) {
      return threads[id - 1].pid == pid && threads[id - 1].tid == tid;
    });
  }
  void WriteThread(const Thread& thread, WireWriter* out) const;
  void WriteProcess(const Process& process, WireWriter* out) const;
};

void SampleEncoder::Init(void* memory) {
  static_assert(sizeof(State) <= kMemoryBytes);
  state_ = static_cast<State*>(memory);
}

void SampleEncoder::Begin(int64_t base_ns) {
  State& s = *state_;
  s.base_ns = base_ns;
  s.bytes = kMessageBytes;
  s.text_count = s.location_count = s.node_count = s.sample_count = s.thread_count = 0;
  s.process_count = s.module_count = s.pool_used = 0;
  s.full = false;
  std::memset(&s.text_ids, 0, sizeof(s.text_ids));
  std::memset(&s.location_ids, 0, sizeof(s.location_ids));
  std::memset(&s.node_ids, 0, sizeof(s.node_ids));
  std::memset(&s.thread_ids, 0, sizeof(s.thread_ids));
}

uint32_t SampleEncoder::InternText(std::string_view text) {
  State& s = *state_;
  Text copy;
  if (text.empty() || !s.Copy(text, kMaxTextBytes, &copy)) return 0;
  Id* id = s.text_ids.Find(HashText(s.At(copy), copy.size), [&](Id other) {
    const Text& known = s.texts[other - 1];
    return known.size == copy.size && std::memcmp(s.At(known), s.At(copy), copy.size) == 0;
  });
  if (*id != 0) return *id;
  const size_t bytes = copy.size + kTextHeaderBytes;
  if (s.text_count == kMaxTexts || !s.Room(bytes)) return s.Refuse();
  s.bytes += bytes;
  s.pool_used += copy.size;
  s.texts[s.text_count++] = copy;
  return *id = static_cast<Id>(s.text_count);
}

uint32_t SampleEncoder::FindLocation(uint32_t caller_id) const {
  return *state_->location_ids.Find(
      Mix(caller_id, 0), [&](Id id) { return state_->locations[id - 1].caller_id == caller_id; });
}

uint32_t SampleEncoder::AddLocation(uint32_t caller_id, uint32_t function, uint32_t file,
                                    uint32_t line, uint64_t offset, uint32_t kind) {
  State& s = *state_;
  Id* id = s.location_ids.Find(
      Mix(caller_id, 0), [&](Id other) { return s.locations[other - 1].caller_id == caller_id; });
  if (*id != 0) return *id;
  constexpr size_t kIdsAndKindBytes = 2 + 2 + 2;
  const size_t bytes = kIdsAndKindBytes + VarintBytes(line) + VarintBytes(offset);
  if (s.location_count == kMaxLocations || !s.Room(bytes)) return s.Refuse();
  s.bytes += bytes;
  const auto known = [&](uint32_t text) {
    return static_cast<Id>(text <= s.text_count ? text : 0);
  };
  s.locations[s.location_count++] = {offset,          caller_id,   line,
                                     known(function), known(file), static_cast<uint8_t>(kind)};
  return *id = static_cast<Id>(s.location_count);
}

bool SampleEncoder::AddModule(uint32_t file, const void* build_id, size_t size) {
  State& s = *state_;
  if (file == 0 || file > s.text_count || size == 0 || size > kMaxBuildIdBytes) return false;
  if (s.module_count == kMaxModules || kPoolBytes - s.pool_used < size ||
      !s.Room(kModuleBytes + size)) {
    return s.Refuse();
  }
  s.bytes += kModuleBytes + size;
  std::memcpy(s.pool + s.pool_used, build_id, size);
  s.modules[s.module_count++] = {{s.pool_used, static_cast<uint32_t>(size)}, static_cast<Id>(file)};
  s.pool_used += static_cast<uint32_t>(size);
  return true;
}

uint32_t SampleEncoder::InternStack(const uint32_t* locations, size_t depth) {
  State& s = *state_;
  Id node = 0;
  while (depth != 0) {
    const uint32_t given = locations[--depth];
    const Id location = static_cast<Id>(given <= s.location_count ? given : 0);
    Id* id = s.node_ids.Find(Mix(node, location), [&](Id other) {
      return s.nodes[other - 1].parent == node && s.nodes[other - 1].location == location;
    });
    if (*id == 0) {
      constexpr size_t kNodeBytes = 2 + 2;
      if (s.node_count == kMaxNodes || !s.Room(kNodeBytes)) return s.Refuse();
      s.bytes += kNodeBytes;
      s.nodes[s.node_count++] = {node, location};
      *id = static_cast<Id>(s.node_count);
    }
    node = *id;
  }
  return node;
}

bool SampleEncoder::AddSample(uint32_t pid, uint32_t tid, const SampleRecord& sample) {
  State& s = *state_;
  Id* id = s.FindThread(pid, tid);
  const bool added = *id == 0;
  if (s.sample_count == kMaxSamples || (added && s.thread_count == kMaxThreads)) return s.Refuse();
  const Thread before = added ? Thread{pid, tid, s.base_ns} : s.threads[*id - 1];
  Sample staged = {};
  const int64_t time = Difference(sample.time_ns, s.base_ns) / kUnitNs;
  SetTimes(sample, before, time, &staged);
  staged.syscall_plus1 = sample.syscall < 0 ? 0 : static_cast<uint32_t>(sample.syscall) + 1;
  staged.gil_holder = sample.gil_holder;
  staged.state = sample.state;
  staged.flags = sample.flags;
  staged.stack = static_cast<Id>(sample.stack <= s.node_count ? sample.stack : 0);
  staged.wait_target = static_cast<Id>(sample.wait_target <= s.text_count ? sample.wait_target : 0);
  const size_t bytes = EncodedBytes(staged) + (added ? kThreadBytes : 0);
  if (!s.Room(bytes)) return s.Refuse();
  s.bytes += bytes;
  if (added) {
    s.threads[s.thread_count++] = before;
    *id = static_cast<Id>(s.thread_count);
  }
  s.samples[s.sample_count++] = staged;
  const Id index = static_cast<Id>(s.sample_count);
  Thread& thread = s.threads[*id - 1];
  (added ? thread.first : s.samples[thread.last - 1].next) = index;
  thread.last = index;
  thread.last_ns = sample.time_ns;
  thread.last_time = time;
  ++thread.count;
  return true;
}

void SampleEncoder::NameThread(uint32_t pid, uint32_t tid, std::string_view name, bool main) {
  State& s = *state_;
  const Id id = *s.FindThread(pid, tid);
  if (id == 0) return;
  Thread& thread = s.threads[id - 1];
  thread.main = main;
  Text kept;
  if (thread.name.size != 0 || !s.Room(kMaxNameBytes) || !s.Keep(name, kMaxNameBytes, &kept))
    return;
  s.bytes += kept.size;
  thread.name = kept;
}

bool SampleEncoder::AddProcess(const SampledProcessFacts& facts) {
  State& s = *state_;
  uint32_t place = 0;
  while (place < s.process_count && (s.processes[place].pid != facts.pid ||
                                     s.processes[place].start_ticks != facts.start_ticks)) {
    ++place;
  }
  if (place == kMaxProcesses) return s.Refuse();
  const bool added = place == s.process_count;
  const Process before = s.processes[place];
  Process& process = s.processes[place];
  process = {};
  process.start_ticks = facts.start_ticks;
  process.pid = facts.pid;
  process.parent_pid = facts.parent_pid;
  process.allowed_cpus = facts.allowed_cpus;
  process.ended = facts.ended;
  const uint32_t pool_before = s.pool_used;
  bool fits = s.Keep(facts.name, kMaxNameBytes, &process.name) &&
              s.Keep(facts.command_line, kMaxCommandLineBytes, &process.command_line) &&
              s.Keep(facts.python_version, kMaxNameBytes, &process.python_version);
  for (size_t i = 0; fits && i < facts.unreadable_count && i < kMaxUnreadable; ++i) {
    fits = s.Keep(facts.unreadable[i], kMaxReasonBytes, &process.unreadable[i]);
    ++process.unreadable_count;
  }
  const size_t bytes =
      kProcessBytes + process.unreadable_count * kTextHeaderBytes + (s.pool_used - pool_before);
  if (!fits || !s.Room(bytes)) {
    s.pool_used = pool_before;
    process = before;
    return s.Refuse();
  }
  s.bytes += bytes;
  s.process_count += added;
  return true;
}

bool SampleEncoder::empty() const {
  return state_->sample_count == 0 && state_->process_count == 0;
}

bool SampleEncoder::full() const { return state_->full; }

void SampleEncoder::State::WriteThread(const Thread& thread, WireWriter* out) const {
  const WireWriter::Mark mark = out->Open(12, thread.count * 16);
  const auto column = [&](uint32_t field, Zeros zeros, auto value) {
    WriteColumn(field, samples, thread, zeros, out, value);
  };
  out->Uint(1, thread.pid);
  out->Uint(2, thread.tid);
  Write(3, thread.name, out);
  out->Uint(4, thread.main);
  column(5, Zeros::kKept, [](const Sample& sample) { return sample.time_delta; });
  column(6, Zeros::kCut, [](const Sample& sample) { return sample.interval_excess; });
  column(7, Zeros::kCut, [](const Sample& sample) { return sample.cpu; });
  column(8, Zeros::kCut, [](const Sample& sample) { return sample.runnable; });
  column(9, Zeros::kCut, [](const Sample& sample) { return sample.state; });
  column(10, Zeros::kCut, [](const Sample& sample) { return sample.stack; });
  column(11, Zeros::kCut, [](const Sample& sample) { return sample.syscall_plus1; });
  column(12, Zeros::kCut, [](const Sample& sample) { return sample.wait_target; });
  column(13, Zeros::kCut, [](const Sample& sample) { return sample.flags; });
  column(14, Zeros::kCut, [](const Sample& sample) { return sample.gil_holder; });
  out->Close(mark);
}

void SampleEncoder::State::WriteProcess(const Process& process, WireWriter* out) const {
  const WireWriter::Mark mark = out->Open(13, 200);
  out->Uint(1, process.pid);
  out->Uint(2, process.parent_pid);
  Write(3, process.name, out);
  Write(4, process.command_line, out);
  out->Uint(5, process.start_ticks);
  Write(6, process.python_version, out);
  for (uint32_t i = 0; i < process.unreadable_count; ++i) Write(7, process.unreadable[i], out);
  out->Uint(8, process.allowed_cpus);
  out->Uint(9, process.ended);
  out->Close(mark);
}

size_t SampleEncoder::Seal(int64_t end_ns, const SamplerTotals& totals, uint8_t* data,
                           size_t capacity) {
  const State& s = *state_;
  WireWriter out(data, capacity);
  out.Int(1, s.base_ns);
  out.Int(2, s.base_ns);
  out.Int(3, end_ns);
  for (uint32_t i = 0; i < s.text_count; ++i) s.Write(4, s.texts[i], &out);
  const auto locations = [&](uint32_t field, Zeros zeros, auto value) {
    WriteTable(field, s.locations, s.location_count, zeros, &out, value);
  };
  locations(5, Zeros::kKept,
            [&](const Location& row) { return IdDelta(s.locations, row, &Location::function); });
  locations(6, Zeros::kCut,
            [&](const Location& row) { return IdDelta(s.locations, row, &Location::file); });
  locations(7, Zeros::kCut, [](const Location& location) { return location.line; });
  locations(8, Zeros::kCut, [](const Location& location) { return location.offset; });
  locations(9, Zeros::kCut, [](const Location& location) { return location.kind; });
  const auto nodes = [&](uint32_t field, Zeros zeros, auto value) {
    WriteTable(field, s.nodes, s.node_count, zeros, &out, value);
  };
  nodes(10, Zeros::kCut, [&](const Node& node) {
    return node.parent == 0 ? 0 : static_cast<uint32_t>(&node - s.nodes) + 1 - node.parent;
  });
  nodes(11, Zeros::kKept, [&](const Node& row) { return IdDelta(s.nodes, row, &Node::location); });
  for (uint32_t i = 0; i < s.thread_count; ++i) s.WriteThread(s.threads[i], &out);
  for (uint32_t i = 0; i < s.process_count; ++i) s.WriteProcess(s.processes[i], &out);
  out.Uint(14, totals.sampler_cpu_ns);
  out.Uint(15, totals.looks);
  out.Uint(16, totals.ticks_missed);
  out.Uint(17, totals.samples_dropped);
  out.Uint(18, totals.stacks_unreadable);
  out.Uint(19, kUnitNs);
  for (uint32_t i = 0; i < s.module_count; ++i) {
    const WireWriter::Mark mark = out.Open(20, kMaxBuildIdBytes);
    out.Uint(1, s.modules[i].file);
    s.Write(2, s.modules[i].build_id, &out);
    out.Close(mark);
  }
  return out.overflowed() ? 0 : out.size();
}

}  // namespace gpuprobe::proto
