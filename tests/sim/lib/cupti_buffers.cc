// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "tests/sim/lib/cupti_buffers.h"

#include <cupti.h>

#include <cstring>
#include <utility>

#include "tests/sim/lib/cupti_layout.h"
#include "tests/sim/lib/cupti_state.h"
#include "tests/sim/lib/faults.h"

namespace gpuprobe::sim {
namespace {

bool Fits(const ActivityBuffer& buffer, size_t bytes) {
  return buffer.data != nullptr && buffer.used + bytes <= buffer.size &&
         (buffer.max_records == 0 || buffer.records < buffer.max_records);
}

bool IsZero(const uint8_t* data, size_t size) {
  return size == 0 || (data[0] == 0 && memcmp(data, data + 1, size - 1) == 0);
}

bool EveryNth(const Fault* fault, uint64_t n) {
  if (fault == nullptr) return false;
  const uint64_t every = static_cast<uint64_t>(fault->Arg(0, 1));
  return every != 0 && n % every == 0;
}

}  // namespace

Buffers& Buffers::Get() {
  static Buffers* buffers = new Buffers;  // process lifetime
  return *buffers;
}

Buffers::Lane* Buffers::LaneOfThread() {
  static thread_local Lane* own = nullptr;
  static std::atomic<Lane*> shared{nullptr};
  const bool per_thread =
      CuptiState::Get().attributes[CUPTI_ACTIVITY_ATTR_PER_THREAD_ACTIVITY_BUFFER] != 0;
  if (per_thread && own != nullptr) return own;
  if (!per_thread && shared != nullptr) return shared;
  std::lock_guard<std::mutex> lock(mu_);
  if (!per_thread && shared != nullptr) return shared;
  lanes_.push_back(std::make_unique<Lane>());
  Lane* lane = lanes_.back().get();
  if (per_thread) {
    own = lane;
  } else {
    shared = lane;
  }
  return lane;
}

ActivityBuffer Buffers::Request() {
  CuptiState& state = CuptiState::Get();
  ActivityBuffer buffer;
  const auto request = state.request.load(std::memory_order_acquire);  // with RegisterCallbacks
  if (request == nullptr) return buffer;
  {
    CallbackSection section(CallbackKind::kBuffer, "the buffer-requested callback");
    request(&buffer.data, &buffer.size, &buffer.max_records);
  }
  Count(Tally::kBufferRequested, 0, 1);
  if (buffer.data == nullptr || buffer.size < RecordBytes(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL)) {
    Count(Tally::kBufferRefused, 0, 1);
    if (!CurrentLayout().refusal_is_safe) {
      Violation("buffer refused below CUPTI API 27, which crashes the real library");
    }
    return ActivityBuffer{};
  }
  if (reinterpret_cast<uintptr_t>(buffer.data) % 8 != 0)
    Violation("activity buffer not aligned to 8 bytes");
  {
    std::lock_guard<std::mutex> lock(mu_);
    if (!outstanding_.insert(buffer.data).second) {
      Violation("the client handed out a buffer that CUPTI already owns");
    }
  }
  if (state.attributes[CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER] == 0) {
    memset(buffer.data, 0, buffer.size);
  } else if (!IsZero(buffer.data, buffer.size)) {
    Violation("the client promised zeroed buffers and handed out one that is not");
  }
  return buffer;
}

void Buffers::Returned(const uint8_t* data) {
  std::lock_guard<std::mutex> lock(mu_);
  outstanding_.erase(data);
}

void Buffers::Drop(uint32_t kind, uint64_t n) {
  dropped_.fetch_add(n, std::memory_order_relaxed);
  Count(Tally::kRecordDropped, kind, n);
}

bool Buffers::Append(Lane* lane, const void* record, size_t bytes, int64_t complete_at_ns) {
  std::lock_guard<std::mutex> lock(lane->mu);
  ActivityBuffer& buffer = lane->current;
  if (!Fits(buffer, bytes)) return false;
  memcpy(buffer.data + buffer.used, record, bytes);
  buffer.used += bytes;
  ++buffer.records;
  if (complete_at_ns > buffer.latest_end_ns) buffer.latest_end_ns = complete_at_ns;
  return true;
}

void Buffers::Emit(const void* record, uint32_t kind, int64_t complete_at_ns) {
  GlobalLock global(false);
  Count(Tally::kRecordEmitted, kind, 1);
  StartFaultThreads();
  const uint64_t number = emitted_.fetch_add(1, std::memory_order_relaxed) + 1;
  const Faults& faults = Faults::Get();
  if (EveryNth(faults.Find("buffers", "drop"), number)) return Drop(kind, 1);
  const size_t bytes = RecordBytes(kind);
  Lane* lane = LaneOfThread();
  if (!Append(lane, record, bytes, complete_at_ns)) {
    std::lock_guard<std::mutex> asking(lane->request_mu);
    // With one lane for all threads another may have got a buffer meanwhile.
    if (!Append(lane, record, bytes, complete_at_ns)) {
      {
        std::lock_guard<std::mutex> lock(lane->mu);
        if (lane->current.data != nullptr) lane->full.push_back(std::exchange(lane->current, {}));
      }
      ActivityBuffer fresh = Request();
      if (fresh.data == nullptr) {
        Drop(kind, 1);
      } else {
        {
          std::lock_guard<std::mutex> lock(lane->mu);
          lane->current = fresh;
        }
        Append(lane, record, bytes, complete_at_ns);
      }
    }
  }
  if (kind != kUnknownKind && EveryNth(faults.Find("records", "unknown"), number)) {
    uint32_t extra[kUnknownKindBytes / 4] = {kUnknownKind};
    Emit(extra, kUnknownKind, 0);
  }
  if (std::vector<ActivityBuffer> ready = TakeReady(lane, false, false); !ready.empty()) {
    Deliver(std::move(ready), false);
  }
}

std::vector<ActivityBuffer> Buffers::TakeReady(Lane* lane, bool forced, bool include_current) {
  std::vector<ActivityBuffer> ready;
  std::lock_guard<std::mutex> lock(lane->mu);
  if (lane->full.empty() && !include_current) return ready;
  const int64_t now = DriverLink::Get()->now();
  const auto complete = [&](const ActivityBuffer& b) { return forced || b.latest_end_ns <= now; };
  for (auto it = lane->full.begin(); it != lane->full.end();) {
    if (complete(*it)) {
      ready.push_back(*it);
      it = lane->full.erase(it);
    } else {
      ++it;
    }
  }
  if (include_current && lane->current.data != nullptr && complete(lane->current)) {
    ready.push_back(std::exchange(lane->current, {}));
  }
  return ready;
}

void Buffers::Flush(bool forced) {
  std::vector<Lane*> lanes;
  {
    std::lock_guard<std::mutex> lock(mu_);
    for (const auto& lane : lanes_) lanes.push_back(lane.get());
  }
  std::vector<ActivityBuffer> ready;
  for (Lane* lane : lanes) {
    for (ActivityBuffer& buffer : TakeReady(lane, forced, true)) ready.push_back(buffer);
  }
  Deliver(std::move(ready), true);
}

}  // namespace gpuprobe::sim
