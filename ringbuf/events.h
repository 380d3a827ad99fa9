// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// What application threads have to tell the drain thread beside CUPTI's buffers: plain data of one
// cache line, handed over through ThreadRings.
#ifndef GPUPROBE_RINGBUF_EVENTS_H_
#define GPUPROBE_RINGBUF_EVENTS_H_

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace gpuprobe {

// In memory only: may be renumbered.
enum class EventKind : uint32_t {
  kNone = 0,
  kForeignClientTook = 1,      // another CUPTI client takes the activity API; text: who
  kForeignClientGaveBack = 2,  // ... and is done with it
  kTimestampCallback = 3,      // another client has registered a timestamp callback; text: who
  kCallSite = 4,               // where a blocking call was made; text: the place
};

struct SessionEvent {
  static constexpr size_t kTextBytes = 48;

  int64_t time_ns;  // trace clock
  EventKind kind;
  uint32_t thread;        // Linux tid; ThreadRings::Push fills it in
  char text[kTextBytes];  // ends with NUL, zero from there on

  // Copies `s` (nullptr: empty), cut at kTextBytes - 1 bytes.
  void SetText(const char* s) {
    size_t i = 0;
    for (; s != nullptr && i < kTextBytes - 1 && s[i] != '\0'; ++i) text[i] = s[i];
    for (; i < kTextBytes; ++i) text[i] = '\0';
  }
};

static_assert(sizeof(SessionEvent) == 64);  // a cache line, in rings that start on one
static_assert(std::is_trivially_copyable_v<SessionEvent>);

}  // namespace gpuprobe

#endif  // GPUPROBE_RINGBUF_EVENTS_H_
