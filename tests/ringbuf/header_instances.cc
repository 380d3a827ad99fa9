// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// The header-only parts of ringbuf/ compiled by the rules of the injected library, for
// check_symbols.cmake; and the proof that everything can be a global without a constructor.
#include <cstdint>
#include <span>

#include "ringbuf/buffer_pool.h"
#include "ringbuf/events.h"
#include "ringbuf/loss.h"
#include "ringbuf/spsc_ring.h"
#include "ringbuf/thread_rings.h"

namespace gpuprobe {

constinit BufferPool g_pool;
constinit ThreadRings g_rings;
constinit LossCounters g_losses;
constinit SpscRing<SessionEvent> g_ring;

template class SpscRing<uint64_t>;
template class SpscRing<SessionEvent>;

uint64_t UseEverything(const SessionEvent& event, uint64_t* memory) {
  uint64_t sum = g_ring.Init(memory, 64) + g_ring.Push(event, event.time_ns);
  g_ring.Consume([&sum](std::span<const SessionEvent> events) { sum += events.size(); });
  sum += g_rings.Push(event);
  g_rings.Consume([&sum](const SessionEvent& e) { sum += e.thread; });
  g_losses.Add(LossCause::kQueueFull, 1, event.time_ns, event.time_ns);
  g_losses.TakeAll([&sum](const Loss& loss) { sum += loss.count; });
  return sum + g_losses.total(LossCause::kQueueFull) + g_pool.stats().acquired;
}

}  // namespace gpuprobe
