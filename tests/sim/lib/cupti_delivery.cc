// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// The last stage of a buffer inside CUPTI: unfinished work gets end = 0, times are converted to a
// client's timestamp function, planted faults are applied, and the client gets its buffer back (in
// time, or late, or from another thread, or at exit).
#include <cupti.h>
#include <sys/mman.h>
#include <time.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <thread>
#include <utility>

#include "tests/sim/lib/cupti_buffers.h"
#include "tests/sim/lib/cupti_layout.h"
#include "tests/sim/lib/cupti_state.h"
#include "tests/sim/lib/faults.h"

namespace gpuprobe::sim {
namespace {

constexpr size_t kPageBytes = 4096;

int64_t ReadTime(const uint8_t* at) {
  int64_t value;
  memcpy(&value, at, sizeof value);
  return value;
}

void WriteTime(uint8_t* at, int64_t value) { memcpy(at, &value, sizeof value); }

bool IsKernel(uint32_t kind) {
  return kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL || kind == CUPTI_ACTIVITY_KIND_KERNEL;
}

// From the simulation's clock to the client's, through the pair taken at registration and one taken
// now.
class ForeignClock {
 public:
  ForeignClock() {
    CuptiState& state = CuptiState::Get();
    const auto callback = state.timestamp.load(std::memory_order_acquire);  // with its registration
    if (callback == nullptr) return;
    active_ = true;
    const int64_t first_sim = state.timestamp_first_sim;
    const uint64_t first_client = state.timestamp_first_client;
    sim_ = DriverLink::Get()->now();
    client_ = callback();
    // Too short a base gives no rate; a nanosecond clock is then the best guess.
    constexpr int64_t kShortestBaseNs = 1'000'000;
    if (sim_ - first_sim >= kShortestBaseNs) {
      rate_ = static_cast<double>(client_ - first_client) / static_cast<double>(sim_ - first_sim);
    }
  }
  bool active() const { return active_; }
  int64_t Convert(int64_t t) const {
    return static_cast<int64_t>(client_) +
           static_cast<int64_t>(static_cast<double>(t - sim_) * rate_);
  }

 private:
  bool active_ = false;
  int64_t sim_ = 0;
  uint64_t client_ = 0;
  double rate_ = 1.0;
};

void CutUnfinished(uint8_t* record, uint32_t kind, const TimeFields& times, int64_t now) {
  if (!times.is_gpu_work || ReadTime(record + times.end) <= now) return;
  if (ReadTime(record + times.start) > now) WriteTime(record + times.start, 0);
  WriteTime(record + times.end, 0);
  if (IsKernel(kind)) WriteTime(record + offsetof(CUpti_ActivityKernel10, completed), 0);
  Count(Tally::kRecordUnfinished, kind, 1);
}

void SpoilTimes(uint8_t* record, const TimeFields& times) {
  static std::atomic<int64_t> kernels{0};
  const int64_t n = kernels.fetch_add(1, std::memory_order_relaxed) + 1;
  const Faults& faults = Faults::Get();
  const auto set = [&](int64_t start, int64_t end) {
    WriteTime(record + times.start, start);
    WriteTime(record + times.end, end);
  };
  const auto shift = [&](int64_t by) {
    set(ReadTime(record + times.start) + by, ReadTime(record + times.end) + by);
  };
  if (const Fault* f = faults.Find("records", "zero"); f && n % f->Arg(0, 1) == 0) set(0, 0);
  if (const Fault* f = faults.Find("records", "sentinel"); f && n % f->Arg(0, 1) == 0) {
    set(INT64_MIN, n % 2 == 0 ? INT64_MIN : -1);  // -1: UINT64_MAX
  }
  if (const Fault* f = faults.Find("records", "skew"); f && n <= f->Arg(1, 1)) shift(f->Arg(0, 0));
  if (const Fault* f = faults.Find("records", "early")) shift(-f->Arg(0, 0));
}

// Name strings that a fault puts under the records of one buffer; unmapped again after the callback
// for "unmapped", else kept for the life of the process.
const char* SpoiltName(std::vector<std::pair<void*, size_t>>* to_unmap) {
  const Faults& faults = Faults::Get();
  if (faults.Find("names", "null")) return nullptr;
  if (faults.Find("names", "empty")) return "";
  if (faults.Find("names", "garbage")) return "\xff\xfe\x80 garbage \xc3\x28";
  if (faults.Find("names", "long")) {
    static const std::string* name = new std::string(64 * 1024, 'k');
    return name->c_str();
  }
  void* page =
      mmap(nullptr, kPageBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  strcpy(static_cast<char*>(page), "name_in_an_unloaded_module");
  to_unmap->emplace_back(page, kPageBytes);
  return static_cast<const char*>(page);
}

bool NamesAreSpoilt() {
  for (const char* what : {"null", "empty", "garbage", "long", "unmapped"}) {
    if (Faults::Get().Find("names", what)) return true;
  }
  return false;
}

void Finish(ActivityBuffer& buffer, const ForeignClock& clock,
            std::vector<std::pair<void*, size_t>>* to_unmap) {
  static const bool spoil_names = NamesAreSpoilt();
  const char* name = spoil_names ? SpoiltName(to_unmap) : nullptr;
  const int64_t now = DriverLink::Get()->now();
  const bool check_unfinished = buffer.latest_end_ns > now;
  for (size_t at = 0; at < buffer.used;) {
    uint8_t* record = buffer.data + at;
    uint32_t kind;
    memcpy(&kind, record, sizeof kind);
    TimeFields times;
    if (TimesOf(kind, &times)) {
      if (check_unfinished) CutUnfinished(record, kind, times, now);
      if (clock.active() && !buffer.recorded) {
        for (const size_t field : {times.start, times.end}) {
          const int64_t t = ReadTime(record + field);
          if (t != 0) WriteTime(record + field, clock.Convert(t));
        }
      }
      if (IsKernel(kind)) SpoilTimes(record, times);
    }
    if (spoil_names && IsKernel(kind)) {
      memcpy(record + offsetof(CUpti_ActivityKernel10, name), &name, sizeof name);
    }
    Count(Tally::kRecordDelivered, kind, 1);
    at += RecordBytes(kind);
  }
}

void CallComplete(uint8_t* data, size_t size, size_t valid) {
  // The callback registered now, whoever handed the buffer out: a later registration by another
  // client gets the earlier one's buffers (measured with torch.profiler beside a first client).
  const auto complete =
      CuptiState::Get().complete.load(std::memory_order_acquire);  // with its registration
  if (complete == nullptr) return;
  GlobalLock global(false);
  CallbackSection section(CallbackKind::kBuffer, "the buffer-completed callback");
  complete(nullptr, 0, data, size, valid);
}

void HandOver(ActivityBuffer buffer) {
  const Faults& faults = Faults::Get();
  Buffers::Get().Returned(buffer.data);
  size_t valid = buffer.used;
  if (faults.Find("buffers", "oversize")) valid = buffer.size + kPageBytes;
  if (faults.Find("buffers", "tail") && buffer.used + 40 <= buffer.size) {
    memset(buffer.data + buffer.used, 0xee, 40);
    valid = buffer.used + 40;
  }
  if (faults.Find("buffers", "empty")) {
    const ActivityBuffer extra = Buffers::Get().Request();
    if (extra.data != nullptr) {
      Buffers::Get().Returned(extra.data);
      CallComplete(extra.data, extra.size, 0);
    }
  }
  if (faults.Find("buffers", "foreign")) {
    static uint8_t* stranger = static_cast<uint8_t*>(calloc(1, kPageBytes));
    CallComplete(stranger, kPageBytes, sizeof(CUpti_ActivityAPI));
  }
  CallComplete(buffer.data, buffer.size, valid);
  if (faults.Find("buffers", "twice")) CallComplete(buffer.data, buffer.size, valid);
  Count(Tally::kBufferCompleted, 0, 1);
}

void HandOverAll(const std::vector<ActivityBuffer>& buffers) {
  const ForeignClock clock;
  for (ActivityBuffer buffer : buffers) {
    std::vector<std::pair<void*, size_t>> to_unmap;
    Finish(buffer, clock, &to_unmap);
    HandOver(buffer);
    for (const auto& [page, bytes] : to_unmap) munmap(page, bytes);
  }
}

std::mutex* g_held_mu = new std::mutex;
std::vector<ActivityBuffer>* g_held = new std::vector<ActivityBuffer>;  // guarded by g_held_mu
std::atomic<bool> g_exit_delivery{false};

void SleepMs(int64_t ms) {
  timespec ts{static_cast<time_t>(ms / 1000), static_cast<long>(ms % 1000 * 1'000'000)};
  nanosleep(&ts, nullptr);
}

// Keeps two of the client's buffers for good and goes on writing into them, as CUPTI may until it
// has returned them.
void Scribble() {
  std::vector<ActivityBuffer> kept;
  for (int i = 0; i < 2; ++i) {
    const ActivityBuffer buffer = Buffers::Get().Request();
    if (buffer.data != nullptr) kept.push_back(buffer);
  }
  std::thread([kept] {
    for (uint8_t value = 1;; ++value) {
      for (const ActivityBuffer& buffer : kept) memset(buffer.data, value, 4096);
      SleepMs(10);
    }
  }).detach();
}

}  // namespace

void StartFaultThreads() {
  static const bool at_exit = Faults::Get().Find("buffers", "at_exit") != nullptr;
  static const bool scribble = Faults::Get().Find("buffers", "scribble") != nullptr;
  if (at_exit) {
    static const int registered = atexit([] { DeliverHeld("late"); });
    (void)registered;
  }
  if (!scribble) return;
  static std::atomic<bool> started{false};
  if (!started.exchange(true)) Scribble();
}

void Deliver(std::vector<ActivityBuffer> buffers, bool from_flush) {
  if (buffers.empty()) return;
  const Faults& faults = Faults::Get();
  if (faults.Find("buffers", "at_exit") != nullptr && !g_exit_delivery) {
    std::lock_guard<std::mutex> lock(*g_held_mu);
    for (const ActivityBuffer& buffer : buffers) g_held->push_back(buffer);
    return;
  }
  if (const Fault* late = faults.Find("buffers", "late")) {
    const int64_t ms = late->Arg(0, 100);
    std::thread([buffers = std::move(buffers), ms] {
      SleepMs(ms);
      HandOverAll(buffers);
    }).detach();
    return;
  }
  if (from_flush && faults.Find("buffers", "thread") != nullptr) {
    std::thread([&buffers] { HandOverAll(buffers); }).join();
    return;
  }
  HandOverAll(buffers);
}

// buffers:at_exit[:early|late]: CUPTI returns nothing until the process exits, then everything by
// itself. "late" (the default): from a handler registered after the client's, which therefore runs
// before it; "early": from one registered when libcuda was loaded, which runs after it.
void DeliverHeld(const char* handler) {
  const Fault* fault = Faults::Get().Find("buffers", "at_exit");
  if (fault == nullptr) return;
  const std::string wanted = fault->args.empty() ? "late" : fault->args[0];
  if (wanted != handler) return;
  g_exit_delivery = true;
  std::vector<ActivityBuffer> buffers;
  {
    std::lock_guard<std::mutex> lock(*g_held_mu);
    buffers.swap(*g_held);
  }
  HandOverAll(buffers);
  Buffers::Get().Flush(true);
}

}  // namespace gpuprobe::sim
