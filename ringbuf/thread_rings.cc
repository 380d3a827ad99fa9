// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "ringbuf/thread_rings.h"

#include <errno.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <new>

namespace gpuprobe {
namespace {

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18  // linux/mman.h; missing in older libc headers
#endif

struct ThreadState {
  uint32_t registry_id;  // whose slot this is; 0: none
  uint32_t slot;
  uint32_t tid;               // 0: not asked for yet
  std::atomic<bool> pushing;  // atomic towards this thread's own signal handlers
};
static_assert(sizeof(ThreadState) <= 64);

// Not initial-exec: "cannot allocate memory in static TLS block" is fatal to a late dlopen.
__attribute__((tls_model("global-dynamic"))) constinit thread_local ThreadState t_state = {};

constinit std::atomic<uint32_t> g_last_id{0};

uint32_t CallerTid() {
  // Not gettid(): that function needs glibc 2.30. This system call cannot fail and leaves errno
  // alone.
  if (t_state.tid == 0) t_state.tid = static_cast<uint32_t>(syscall(SYS_gettid));
  return t_state.tid;
}

bool ThreadHasEnded(pid_t process, uint32_t tid) {
  // Signal 0 only asks. Any other answer than "no such thread", such as a sandbox's EPERM, keeps
  // the ring.
  return syscall(SYS_tgkill, process, static_cast<pid_t>(tid), 0) != 0 && errno == ESRCH;
}

constexpr size_t RoundUp(size_t bytes, size_t grain) { return (bytes + grain - 1) / grain * grain; }

}  // namespace

bool ThreadRings::Init(uint32_t rings, uint32_t events) {
  constexpr uint32_t kMaxEvents = 1u << 20;  // keeps the sizes below far from overflow
  if (alive_ != nullptr || rings == 0 || rings > kMaxRings || !IsPowerOfTwo(events) ||
      events > kMaxEvents) {
    return false;
  }
  // The alive word has a page of its own: that page alone is wiped in a fork's child. (The rings
  // are not, for a fork from a signal handler may return into the middle of a Push.)
  const size_t page_bytes = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const size_t slots_bytes = RoundUp(sizeof(Slot) * rings, page_bytes);
  const size_t ring_bytes = SpscRing<SessionEvent>::BytesFor(events);
  const size_t total_bytes = page_bytes + slots_bytes + ring_bytes * rings;
  void* memory = mmap(nullptr, total_bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return false;
  (void)madvise(memory, page_bytes, MADV_WIPEONFORK);  // refused before Linux 4.14: StopInForkChild
  uint8_t* bytes = static_cast<uint8_t*>(memory);
  slots_ = reinterpret_cast<Slot*>(bytes + page_bytes);
  uint8_t* elements = bytes + page_bytes + slots_bytes;
  for (uint32_t i = 0; i < rings; ++i) {
    Slot* slot = new (slots_ + i) Slot{};
    if (!slot->ring.Init(elements + ring_bytes * i, events)) return false;
  }
  slot_count_ = rings;
  reserved_bytes_ = total_bytes;
  id_ = g_last_id.fetch_add(1, std::memory_order_relaxed) + 1;  // unique is enough
  alive_ = new (memory) std::atomic<uint32_t>(1);
  return true;
}

bool ThreadRings::Alive() const {
  // relaxed: Init comes before every other call, and the word only changes in a child with one
  // thread.
  return alive_ != nullptr && alive_->load(std::memory_order_relaxed) != 0;
}

void ThreadRings::StopInForkChild() {
  if (alive_ != nullptr) alive_->store(0, std::memory_order_relaxed);  // the child has one thread
}

bool ThreadRings::Push(const SessionEvent& event) {
  if (!Alive()) return false;
  ThreadState& state = t_state;
  // relaxed, here and below: only this thread and its signal handlers look, and the signal fences
  // keep the compiler from moving the work out from between the two stores.
  if (state.pushing.load(std::memory_order_relaxed)) [[unlikely]] {
    no_ring_.Add(1, event.time_ns, event.time_ns);
    return false;
  }
  state.pushing.store(true, std::memory_order_relaxed);
  std::atomic_signal_fence(std::memory_order_seq_cst);
  Slot* slot = state.registry_id == id_ ? slots_ + state.slot : ClaimSlot(CallerTid());
  bool pushed = false;
  if (slot != nullptr) [[likely]] {
    pushed = slot->ring.TryPushWith([&event, &state](SessionEvent* out) {
      *out = event;
      out->thread = state.tid;
    });
    if (!pushed) slot->ring.CountDrop(event.time_ns);
  } else {
    no_ring_.Add(1, event.time_ns, event.time_ns);
  }
  std::atomic_signal_fence(std::memory_order_seq_cst);
  state.pushing.store(false, std::memory_order_relaxed);
  return pushed;
}

ThreadRings::Slot* ThreadRings::ClaimSlot(uint32_t tid) {
  const auto adopt = [this](Slot* slot) {
    t_state.registry_id = id_;
    t_state.slot = static_cast<uint32_t>(slot - slots_);
    return slot;
  };
  // Our tid is on a ring: we have used another registry in between, or an ended thread had our tid
  // and its ring was not taken back. The ring is ours either way, as living threads differ in their
  // tids.
  for (Slot& slot : slots()) {
    // relaxed: a thread sees its own claims, and a former owner's writes are older than its tid's
    // reuse.
    if (slot.owner_tid.load(std::memory_order_relaxed) == tid) return adopt(&slot);
  }
  for (Slot& slot : slots()) {
    uint32_t owner = slot.owner_tid.load(std::memory_order_relaxed);  // only a guess for the CAS
    // acquire: partner is the store in ReclaimEnded; the former owner is done, and its events are
    // read or in front of ours. relaxed on failure: the slot is not touched then.
    if (owner == 0 && slot.owner_tid.compare_exchange_strong(owner, tid, std::memory_order_acquire,
                                                             std::memory_order_relaxed)) {
      claims_.fetch_add(1, std::memory_order_relaxed);  // a statistic
      return adopt(&slot);
    }
  }
  return nullptr;
}

void ThreadRings::ReclaimEnded() {
  if (!Alive()) return;
  const pid_t process = getpid();
  for (Slot& slot : slots()) {
    const uint32_t owner =
        slot.owner_tid.load(std::memory_order_relaxed);  // only names whom to ask about
    if (owner == 0 || !ThreadHasEnded(process, owner)) continue;
    // release: partner is the CAS in ClaimSlot.
    slot.owner_tid.store(0, std::memory_order_release);
    reclaims_.fetch_add(1, std::memory_order_relaxed);  // a statistic
  }
}

bool ThreadRings::TakeDrops(DropRange* out) {
  DropRange all = {};
  const auto merge = [&all](const DropRange& more) {
    all.first_ns = all.count == 0 ? more.first_ns : std::min(all.first_ns, more.first_ns);
    all.last_ns = all.count == 0 ? more.last_ns : std::max(all.last_ns, more.last_ns);
    all.count += more.count;
  };
  Loss loss;
  if (no_ring_.Take(&loss)) merge({loss.count, loss.begin_ns, loss.end_ns});
  for (Slot& slot : slots()) {
    DropRange drops;
    if (slot.ring.TakeDrops(&drops)) merge(drops);
  }
  if (all.count == 0) return false;
  *out = all;
  return true;
}

ThreadRings::Stats ThreadRings::stats() const {
  // relaxed: a snapshot for reports, each number by itself.
  Stats stats = {.claims = claims_.load(std::memory_order_relaxed),
                 .reclaims = reclaims_.load(std::memory_order_relaxed),
                 .dropped = no_ring_.total(),
                 .rings_in_use = 0};
  for (const Slot& slot : slots()) {
    stats.dropped += slot.ring.dropped();
    stats.rings_in_use += slot.owner_tid.load(std::memory_order_relaxed) != 0;
  }
  return stats;
}

}  // namespace gpuprobe
