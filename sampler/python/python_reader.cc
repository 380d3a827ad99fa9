// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "sampler/python/python_reader.h"

#include <errno.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <iterator>

#include "sampler/python/python_code_cache.h"
#include "sampler/python/python_code_checks.h"
#include "sampler/python/python_frames.h"
#include "sampler/python/python_layout.h"
#include "sampler/python/python_runtime.h"
#include "sampler/system/process_path.h"

namespace gpuprobe::sampler {
namespace {

constexpr size_t kMaxThreads = 512;
constexpr size_t kMaxInterpreters = 64;
constexpr uint32_t kListedThreadBytes = 192;  // to the end of the ids, in every version
// One for the first sight of new code, two for what changed meanwhile.
constexpr int kStackTries = 4;
// Threads whose frames are looked for along with what a look begins with.
constexpr size_t kForeseenThreads = 8;
constexpr size_t kVersionBytes = 16;
// The whole list of threads is read at every so many looks, or when its head has changed (new
// threads come first), or a thread that is asked for is not where it was: with 100 threads that
// costs twice as much as a stack. Threads that have no Python ask at every look, hence the second.
constexpr uint32_t kLooksPerList = 16, kLooksPerMiss = 4;

template <typename T>
T At(const uint8_t* bytes, uint32_t offset) {
  T value;
  memcpy(&value, bytes + offset, sizeof(value));
  return value;
}

struct ThreadEntry {
  uint64_t state;  // PyThreadState
  uint64_t pthread;
  pid_t tid;
};

struct InterpreterEntry {
  uint64_t address;
  size_t first_thread, thread_count;
};

}  // namespace

struct PythonReader::State {
  const ProcessMemory* memory = nullptr;
  PythonStatus status = PythonStatus::kNone;
  const char* reason = "";
  char version[kVersionBytes] = {};
  PythonRuntime runtime;
  PythonFrameWalk walk;
  PythonCodeCache cache;
  PythonCodeChecks checks;
  GilState gil;
  uint64_t main_interpreter = 0;

  InterpreterEntry interpreters[kMaxInterpreters];
  size_t interpreter_count = 0;
  ThreadEntry threads[kMaxThreads];  // newest first within each interpreter
  size_t thread_count = 0;
  uint32_t listed_bytes = 0;
  uint32_t looks_since_list = 0;
  bool listed_now = false;  // the list is of this look

  // What a look begins with.
  struct Heads {
    uint64_t finalizing;
    uint64_t interpreters[2];                // the newest, the main one
    uint64_t lock;                           // where the lock is
    uint8_t lock_image[kListedThreadBytes];  // of the lock that was at lock_before
    bool has_lock, has_links;
  };
  Heads heads;
  uint64_t lock_before = 0;
  // The states whose stacks were read at the last look.
  uint64_t asked[kForeseenThreads];
  size_t asked_count = 0;

  // Around the readings of one thread's frames: what has to be there, and what was.
  PythonFrameWalk::Guards guards;
  std::array<uint64_t, PythonFrameWalk::kMaxGuards + 1> expected, seen;  // the last: behind them
  uint32_t tid_before, tid_after;

  // Scratch.
  uint8_t thread_images[kMaxThreads * kListedThreadBytes];
  ProcessMemory::Piece pieces[kMaxThreads + 2 * kMaxInterpreters + 8 +
                              kForeseenThreads * PythonFrameWalk::kForesightPieces];
  uint64_t interpreter_links[kMaxInterpreters][2];  // next, first thread
  uint32_t tids[kMaxThreads];
  PythonFrameWalk::Memory walk_memory;
  PythonCodeCache::Memory cache_memory;
  PythonCodeChecks::Memory checks_memory;
  PythonRuntimeFinder::Scratch finder;

  void Begin();
  bool ReadHeads(bool as_last_time);
  bool HeadsAsBefore() const;
  bool ListAsBefore(uint64_t head);
  void List(uint64_t head);
  void Guard(size_t index);
  bool IsThatThread(size_t index) const;
  size_t LockBytes() const;
  void ListAnew(uint64_t head);
  void ListThreads(InterpreterEntry* interpreter, uint64_t thread);
  void TakeTids();
  void LookAtGil();
  void SetVersion();
  Read FindAndRead(pid_t tid, LocationTable* table, PythonStack* out, bool* found, bool* moved);
  Read ReadThread(size_t index, LocationTable* table, PythonStack* out);
  Read Describe(PythonStack* out);
  bool InCFunction(const PythonFrame& frame, int64_t offset, uint8_t opcode);
  bool ReadReplaced(uint64_t code, int64_t offset, uint8_t* opcode) const;
};

namespace {

// The instruction's offset in its code; false: outside.
bool OffsetIn(const PythonLayout& layout, const PythonCodeCache::Entry& entry,
              const PythonFrame& frame, int64_t* out) {
  int64_t offset = frame.instruction;
  if (layout.minor >= 11) {
    offset = static_cast<int64_t>(static_cast<uint64_t>(frame.instruction) - frame.code) -
             layout.code_instructions;
  }
  if (offset >= static_cast<int64_t>(entry.instruction_bytes) || offset < -2) return false;
  if (offset > 0 && offset % 2 != 0) return false;
  *out = offset;
  return true;
}

// A frame whose function has not begun (the interpreter hides those too), or that belongs to no
// function (the little frame that runs __init__ for a class from 3.13 on).
bool IsIncomplete(const PythonLayout& layout, const PythonCodeCache::Entry& entry,
                  const PythonFrame& frame, int64_t offset) {
  return layout.minor >= 11 && frame.owner != kGeneratorFrameOwner &&
         offset < int64_t{entry.fields.first_traceable} * 2;
}

}  // namespace

// --- The interpreter and its threads ---------------------------------------------------------

size_t PythonReader::MemoryBytes() { return sizeof(State); }

void PythonReader::Init(void* memory) {
  // The memory is zeroed, and that is each member's initial state but for `reason`.
  state_ = static_cast<State*>(memory);
  state_->reason = "";
  state_->walk.Init(&state_->walk_memory);
  state_->cache.Init(&state_->cache_memory);
  state_->checks.Init(&state_->checks_memory, &state_->cache);
}

PythonStatus PythonReader::Attach(const ProcessMemory* memory) {
  State& s = *state_;
  s.memory = memory;
  s.reason = "";
  s.thread_count = s.interpreter_count = 0;
  s.gil = {};
  s.runtime = {};
  s.version[0] = '\0';
  if (memory->error() != 0 || memory->pid() == 0) {
    s.status = PythonStatus::kUnreadable;
    s.reason = "its memory cannot be read";
    return s.status;
  }
  s.status = PythonRuntimeFinder::Find(*memory, &s.finder, &s.runtime, &s.reason);
  if (s.status == PythonStatus::kReady || s.status == PythonStatus::kUnsupported) s.SetVersion();
  if (s.status == PythonStatus::kReady) s.Begin();
  return s.status;
}

PythonStatus PythonReader::AttachRuntime(const ProcessMemory* memory,
                                         const PythonRuntime& runtime) {
  State& s = *state_;
  s.memory = memory;
  s.reason = "";
  s.runtime = runtime;
  s.status = PythonStatus::kReady;
  s.SetVersion();
  s.Begin();
  return s.status;
}

void PythonReader::State::Begin() {
  thread_count = interpreter_count = 0;
  main_interpreter = lock_before = 0;
  asked_count = 0;
  gil = {};
  const PythonLayout& layout = runtime.layout;
  uint32_t last = std::max(
      {layout.thread_next, layout.thread_prev, layout.thread_interpreter, layout.thread_pthread});
  if (layout.thread_native_id != kNoOffset) last = std::max(last, layout.thread_native_id);
  listed_bytes = last + 8;
  if (listed_bytes > kListedThreadBytes) {
    status = PythonStatus::kUnsupported;
    reason = "the offsets that this Python publishes cannot be";
    return;
  }
  walk.Reset(memory, &runtime.layout);
  cache.Reset(memory, &runtime, nullptr);
  checks.Reset(memory, &runtime.layout);
}

PythonStatus PythonReader::status() const { return state_->status; }
const char* PythonReader::version() const { return state_->version; }
const char* PythonReader::reason() const { return state_->reason; }
const GilState& PythonReader::gil() const { return state_->gil; }

void PythonReader::State::SetVersion() {
  const uint32_t hex = runtime.version_hex;
  if (hex == 0) return;
  char* to = version;
  to += FormatDecimal(to, hex >> 24);
  *to++ = '.';
  to += FormatDecimal(to, hex >> 16 & 0xFF);
  if ((hex & 0xFFFF) != 0) {
    *to++ = '.';
    to += FormatDecimal(to, hex >> 8 & 0xFF);
  }
  *to = '\0';
}

// Everything that a look begins with, in one call, taking it that the interpreters and the lock
// are where they were. False: something cannot be read, which what was known may be to blame for.
bool PythonReader::State::ReadHeads(bool as_last_time) {
  const PythonLayout& layout = runtime.layout;
  heads = {};
  size_t count = 0;
  const auto add = [&](uint64_t address, void* out, size_t size) {
    pieces[count++] = {address, out, static_cast<uint32_t>(size)};
  };
  add(runtime.address + layout.runtime_finalizing, &heads.finalizing, 8);
  add(runtime.address + layout.runtime_interpreters, heads.interpreters, 16);
  if (layout.interpreter_gil == kNoOffset) {
    heads.lock = lock_before = runtime.address + layout.runtime_gil;
  } else if (as_last_time && main_interpreter != 0) {
    add(main_interpreter + layout.interpreter_gil, &heads.lock, 8);
  }
  heads.has_lock = as_last_time && lock_before != 0;
  if (heads.has_lock) add(lock_before, heads.lock_image, LockBytes());
  for (size_t i = 0; as_last_time && i < interpreter_count; ++i) {
    const uint64_t address = interpreters[i].address;
    add(address + layout.interpreter_next, &interpreter_links[i][0], 8);
    add(address + layout.interpreter_threads, &interpreter_links[i][1], 8);
  }
  heads.has_links = as_last_time;
  for (size_t i = 0; as_last_time && i < asked_count; ++i) {
    walk.AddForesight(asked[i], pieces, &count);
  }
  if (!memory->ReadPieces(pieces, count)) return false;
  for (size_t i = 0; as_last_time && i < asked_count; ++i) walk.Foreseen(asked[i]);
  return true;
}

// Whether no interpreter and no thread is new since the list was read.
bool PythonReader::State::HeadsAsBefore() const {
  if (!heads.has_links || interpreter_count == 0 ||
      interpreters[0].address != heads.interpreters[0]) {
    return false;
  }
  for (size_t i = 0; i < interpreter_count; ++i) {
    const uint64_t next = i + 1 < interpreter_count ? interpreters[i + 1].address : 0;
    const uint64_t first =
        interpreters[i].thread_count > 0 ? threads[interpreters[i].first_thread].state : 0;
    if (interpreter_links[i][0] != next || interpreter_links[i][1] != first) return false;
  }
  return true;
}

// Puts places ahead of and behind the readings of a thread's frames that tell whether they are that
// thread's. A thread's state is still where the list had it if both neighbours point to it: one
// that was freed is linked to nothing, whatever its memory holds by now. It has to bear the
// thread's id, too, before and after: the memory of a state is used again at once, a new one bears
// its creator's id until it begins, and an old list may so name two states for one thread.
void PythonReader::State::Guard(size_t index) {
  const PythonLayout& layout = runtime.layout;
  const ThreadEntry& thread = threads[index];
  const InterpreterEntry* interpreter = interpreters;
  while (index >= interpreter->first_thread + interpreter->thread_count) ++interpreter;
  const size_t last = interpreter->first_thread + interpreter->thread_count - 1;
  const uint64_t before = index > interpreter->first_thread ? threads[index - 1].state : 0;
  const uint64_t after = index < last ? threads[index + 1].state : 0;
  const uint64_t self = thread.state;
  expected = {};
  seen = {};
  guards.before_count = guards.after_count = 0;
  const auto add = [this](ProcessMemory::Piece* to, size_t* count, uint64_t address, size_t at,
                          uint64_t value) {
    to[(*count)++] = {address, &seen[at], sizeof(seen[at])};
    expected[at] = value;
  };
  const auto add_before = [&](uint64_t address, uint64_t value) {
    add(guards.before, &guards.before_count, address, guards.before_count, value);
  };
  // The state's own fields last and mostly by their addresses, so that they are read as one.
  if (!listed_now) {
    if (before != 0) add_before(before + layout.thread_next, self);
    if (after != 0) add_before(after + layout.thread_prev, self);
    add_before(self + layout.thread_prev, before);
    add_before(self + layout.thread_next, after);
  }
  add_before(self + layout.thread_interpreter, interpreter->address);
  const bool native = layout.thread_native_id != kNoOffset;
  const uint64_t id_at = self + (native ? layout.thread_native_id : layout.thread_pthread);
  const uint64_t id = native ? static_cast<uint64_t>(thread.tid) : thread.pthread;
  add_before(id_at, id);
  add(guards.after, &guards.after_count, id_at, PythonFrameWalk::kMaxGuards, id);
  if (native) return;
  // The Linux id behind it has four bytes.
  guards.before[guards.before_count++] = {thread.pthread + kTidInPthread, &tid_before, 4};
  guards.after[guards.after_count++] = {thread.pthread + kTidInPthread, &tid_after, 4};
}

bool PythonReader::State::IsThatThread(size_t index) const {
  if (seen != expected) return false;
  if (runtime.layout.thread_native_id != kNoOffset) return true;
  const auto tid = static_cast<uint32_t>(threads[index].tid);
  return tid_before == tid && tid_after == tid;
}

// Reads all that was listed last time in one call: true if the list is the same.
bool PythonReader::State::ListAsBefore(uint64_t head) {
  if (interpreter_count == 0 || interpreters[0].address != head) return false;
  const PythonLayout& layout = runtime.layout;
  size_t count = 0;
  for (size_t i = 0; i < interpreter_count; ++i) {
    const uint64_t address = interpreters[i].address;
    pieces[count++] = {address + layout.interpreter_next, &interpreter_links[i][0], 8};
    pieces[count++] = {address + layout.interpreter_threads, &interpreter_links[i][1], 8};
  }
  for (size_t i = 0; i < thread_count; ++i) {
    pieces[count++] = {threads[i].state, thread_images + i * listed_bytes, listed_bytes};
  }
  if (!memory->ReadPieces(pieces, count)) return false;
  for (size_t i = 0; i < interpreter_count; ++i) {
    const uint64_t next = i + 1 < interpreter_count ? interpreters[i + 1].address : 0;
    if (interpreter_links[i][0] != next) return false;
    const size_t end = interpreters[i].first_thread + interpreters[i].thread_count;
    uint64_t next_state = interpreter_links[i][1];
    for (size_t t = interpreters[i].first_thread; t < end; ++t) {
      const uint8_t* image = thread_images + t * listed_bytes;
      if (threads[t].state != next_state ||
          At<uint64_t>(image, layout.thread_interpreter) != interpreters[i].address) {
        return false;
      }
      next_state = At<uint64_t>(image, layout.thread_next);
    }
    if (next_state != 0) return false;
  }
  return true;
}

void PythonReader::State::ListThreads(InterpreterEntry* interpreter, uint64_t thread) {
  const PythonLayout& layout = runtime.layout;
  uint64_t before = 0;
  while (thread != 0 && thread_count < kMaxThreads) {
    uint8_t* image = thread_images + thread_count * listed_bytes;
    if (!memory->Read(thread, image, listed_bytes)) return;
    // A state that is taken out or put in right now; what follows is met at the next look.
    if (At<uint64_t>(image, layout.thread_interpreter) != interpreter->address ||
        At<uint64_t>(image, layout.thread_prev) != before) {
      return;
    }
    threads[thread_count++] = {.state = thread};
    ++interpreter->thread_count;
    before = thread;
    thread = At<uint64_t>(image, layout.thread_next);
  }
}

void PythonReader::State::ListAnew(uint64_t head) {
  const PythonLayout& layout = runtime.layout;
  interpreter_count = thread_count = 0;
  while (head != 0 && interpreter_count < kMaxInterpreters) {
    uint64_t next = 0, first = 0;
    const ProcessMemory::Piece wanted[] = {
        {head + layout.interpreter_next, &next, sizeof(next)},
        {head + layout.interpreter_threads, &first, sizeof(first)},
    };
    if (!memory->ReadPieces(wanted, std::size(wanted))) return;
    InterpreterEntry& interpreter = interpreters[interpreter_count++];
    interpreter = {.address = head, .first_thread = thread_count};
    ListThreads(&interpreter, first);
    head = next;
  }
}

// The Linux ids of the listed threads.
void PythonReader::State::TakeTids() {
  const PythonLayout& layout = runtime.layout;
  for (size_t i = 0; i < thread_count; ++i) {
    const uint8_t* image = thread_images + i * listed_bytes;
    if (layout.thread_native_id != kNoOffset) {
      threads[i].tid = static_cast<pid_t>(At<uint64_t>(image, layout.thread_native_id));
    } else {
      threads[i].pthread = At<uint64_t>(image, layout.thread_pthread);
      pieces[i] = {threads[i].pthread + kTidInPthread, &tids[i], sizeof(tids[i])};
    }
  }
  if (layout.thread_native_id != kNoOffset) return;
  const bool all = memory->ReadPieces(pieces, thread_count);
  for (size_t i = 0; i < thread_count; ++i) {
    // One that has ended may have left nothing mapped.
    const bool known = all || memory->ReadPieces(&pieces[i], 1);
    threads[i].tid = known ? static_cast<pid_t>(tids[i]) : 0;
  }
}

size_t PythonReader::State::LockBytes() const {
  const size_t bytes = std::max(runtime.layout.gil_last_holder, runtime.layout.gil_locked) + 8;
  return std::min(bytes, sizeof(heads.lock_image));
}

void PythonReader::State::LookAtGil() {
  const PythonLayout& layout = runtime.layout;
  gil = {};
  if (std::max(layout.gil_last_holder, layout.gil_locked) + 8 > sizeof(heads.lock_image)) return;
  if (!heads.has_lock || heads.lock != lock_before) {
    uint64_t lock = heads.lock;
    lock_before = 0;
    if (layout.interpreter_gil != kNoOffset &&
        (main_interpreter == 0 ||
         !memory->ReadValue(main_interpreter + layout.interpreter_gil, &lock) || lock == 0)) {
      return;
    }
    if (!memory->Read(lock, heads.lock_image, LockBytes())) return;
    lock_before = lock;
  }
  const uint8_t* image = heads.lock_image;
  const auto locked = At<int32_t>(image, layout.gil_locked);
  if (locked < -1 || locked > 1) return;
  gil.known = true;
  gil.locked = locked == 1;
  gil.begin_address = lock_before;
  gil.end_address = lock_before + layout.gil_bytes;
  if (!gil.locked) return;
  const auto holder = At<uint64_t>(image, layout.gil_last_holder);
  for (size_t i = 0; i < thread_count; ++i) {
    if (threads[i].state == holder) gil.holder_tid = threads[i].tid;
  }
}

void PythonReader::State::List(uint64_t head) {
  if (!ListAsBefore(head)) ListAnew(head);
  TakeTids();
  looks_since_list = 0;
  listed_now = true;
}

bool PythonReader::BeginLook() {
  State& s = *state_;
  if (s.status != PythonStatus::kReady && s.status != PythonStatus::kFinalizing) return false;
  s.gil = {};
  if (!s.ReadHeads(/*as_last_time=*/true) && !s.ReadHeads(/*as_last_time=*/false)) {
    s.thread_count = s.interpreter_count = 0;
    return false;
  }
  s.asked_count = 0;
  const uint64_t head = s.heads.interpreters[0];
  // What was read at the address of another main interpreter is nothing.
  if (s.main_interpreter != s.heads.interpreters[1]) s.heads.has_lock = false;
  s.main_interpreter = s.heads.interpreters[1];
  const bool finalizing = s.heads.finalizing != 0;
  s.status = finalizing ? PythonStatus::kFinalizing : PythonStatus::kReady;
  if (finalizing || head == 0) {
    s.thread_count = s.interpreter_count = 0;
    return false;
  }
  s.listed_now = false;
  if (++s.looks_since_list >= kLooksPerList || !s.HeadsAsBefore()) s.List(head);
  s.LookAtGil();
  return true;
}

// --- Stacks -----------------------------------------------------------------------------------

// What the opcode of line tracing at that place stands for.
bool PythonReader::State::ReadReplaced(uint64_t code, int64_t offset, uint8_t* opcode) const {
  const PythonLayout& layout = runtime.layout;
  uint64_t monitoring = 0, lines = 0;
  if (layout.code_monitoring == kNoOffset ||
      !memory->ReadValue(code + layout.code_monitoring, &monitoring) ||
      !memory->ReadValue(monitoring + layout.monitoring_lines, &lines)) {
    return false;
  }
  const auto unit = static_cast<uint64_t>(offset) / 2;
  uint8_t entry_bytes = 2;
  if (layout.minor >= 14) {
    // An opcode, and a line in one to four bytes.
    if (!memory->ReadValue(lines++, &entry_bytes) || entry_bytes < 2 || entry_bytes > 5)
      return false;
  }
  return memory->ReadValue(lines + unit * entry_bytes, opcode);
}

bool PythonReader::State::InCFunction(const PythonFrame& frame, int64_t offset, uint8_t opcode) {
  const PythonLayout& layout = runtime.layout;
  const uint8_t tracing = LineTracingOpcode(layout.minor);
  if (opcode == tracing && tracing != 0 && !ReadReplaced(frame.code, offset, &opcode)) return false;
  // A call of a Python function takes less than the readings until that is the innermost one.
  return IsPythonCallOpcode(layout.minor, opcode) &&
         (walk.stood_still() || !MayCallPython(layout.minor, opcode));
}

PythonReader::Read PythonReader::State::Describe(PythonStack* out) {
  uint8_t opcode = 0;
  if (!checks.Check(walk, &opcode)) return Read::kTorn;
  const PythonLayout& layout = runtime.layout;
  out->depth = 0;
  out->cut = walk.cut();
  out->in_c_function = false;
  out->partial = walk.partial();
  bool innermost = !walk.partial();
  for (size_t i = 0; i < walk.count(); ++i) {
    PythonCodeCache::Entry* known = checks.entry(i);
    if (known == nullptr) continue;
    const PythonCodeCache::Entry& entry = *known;
    int64_t offset;
    if (!OffsetIn(layout, entry, walk.frame(i), &offset)) return Read::kTorn;
    if (IsIncomplete(layout, entry, walk.frame(i), offset)) {
      innermost = false;
      continue;
    }
    if (out->depth == kMaxStackDepth) {
      out->cut = true;
      break;
    }
    if (!cache.Locate(known, offset, &out->frames[out->depth])) return Read::kTorn;
    ++out->depth;
    if (innermost && i == 0) out->in_c_function = InCFunction(walk.frame(i), offset, opcode);
    innermost = false;
  }
  return out->depth > 0 ? Read::kOk : Read::kNoPython;
}

PythonReader::Read PythonReader::State::ReadThread(size_t index, LocationTable* table,
                                                   PythonStack* out) {
  if (cache.table() != table) cache.Reset(memory, &runtime, table);
  if (asked_count < kForeseenThreads) asked[asked_count++] = threads[index].state;
  for (int attempt = 0; attempt < kStackTries; ++attempt) {
    const PythonFrameWalk::Wishes wishes = checks.Foresee(threads[index].state);
    const PythonFrameWalk::Result result = walk.Walk(threads[index].state, guards, wishes);
    if (result == PythonFrameWalk::Result::kNoFrames) return Read::kNoPython;
    if (result == PythonFrameWalk::Result::kTorn) continue;
    const Read read = Describe(out);
    if (read != Read::kTorn) return read;
  }
  return Read::kTorn;
}

PythonReader::Read PythonReader::ReadStack(pid_t tid, LocationTable* table, PythonStack* out) {
  out->depth = 0;
  out->cut = false;
  out->in_c_function = false;
  out->partial = false;
  State& s = *state_;
  bool found = false, moved = false;
  const Read read = s.FindAndRead(tid, table, out, &found, &moved);
  const bool list_is_old = !s.listed_now && s.interpreter_count > 0;
  if (!list_is_old || (!moved && (found || s.looks_since_list < kLooksPerMiss))) return read;
  s.List(s.interpreters[0].address);
  return s.FindAndRead(tid, table, out, &found, &moved);
}

// `found`: it has a state; `moved`: one that it had is no longer where the list says.
PythonReader::Read PythonReader::State::FindAndRead(pid_t tid, LocationTable* table,
                                                    PythonStack* out, bool* found, bool* moved) {
  // A thread may have a state in each of several interpreters; the newest with a stack is where it
  // is now, since it entered that one from the others.
  for (size_t i = 0; i < thread_count; ++i) {
    if (threads[i].tid != tid) continue;
    Guard(i);
    const Read read = ReadThread(i, table, out);
    if (!IsThatThread(i)) {
      *moved = true;
      continue;
    }
    *found = true;
    if (read != Read::kNoPython) return read;
  }
  out->depth = 0;
  return Read::kNoPython;
}

}  // namespace gpuprobe::sampler
