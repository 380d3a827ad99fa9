// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// A CUPTI inside the test's process, chosen by the linker: it defines cupti::LoadCupti, so that the
// session and its drain thread, linked as they are, find it instead of a library. Records have the
// layout of CUDA 13.0. As in the real one each thread that launches fills a buffer of its own, any
// thread may flush them all, a second registration replaces the first, and a buffer that a client
// left inside goes to whoever is registered when it is full.
//
// Threads: the setters before the session starts; everything else from any thread. Never destroyed:
// threads launch until the process is gone.
#ifndef GPUPROBE_TESTS_DRAIN_FAKE_CUPTI_H_
#define GPUPROBE_TESTS_DRAIN_FAKE_CUPTI_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>

#include "cupti/cupti_api.h"

namespace gpuprobe::drain_test {

class FakeCupti {
 public:
  static constexpr size_t kSlots = 8;

  static FakeCupti& Get();

  // How LoadCupti and the first calls answer.
  void SetMissing() { missing_ = true; }
  void SetVersion(uint32_t version) { version_ = version; }
  void SetSubscribeResult(cupti::Result result) { subscribe_result_ = result; }

  // One launch on the calling thread: a call record and a kernel record with this correlation. Slot
  // s is the thread's own; its kernels run on stream s + 1. False: nobody listens, or there was no
  // room (dropped and counted, as CUPTI does).
  bool Launch(size_t slot, uint32_t correlation);

  // Flushes by others than the second client (see BecomeOtherClient) do not return until told.
  void HoldFlushes(bool hold) { hold_flushes_.store(hold); }
  uint32_t held_flushes() const { return held_flushes_.load(); }
  uint32_t flushes() const { return flushes_.load(); }  // begun, the other client's not counted

  // The second client: its calls come from the thread that calls this, and count as its own.
  static void BecomeOtherClient();
  void SetTimestampCallback(cupti::TimestampFn callback) { timestamp_.store(callback); }
  void Finalize() { finalized_.store(true); }

  uint32_t kinds_enabled() const;
  uint32_t registrations() const { return registrations_.load(); }
  uint64_t refused_requests() const { return refused_requests_.load(); }
  uint64_t dropped_records() const { return dropped_records_.load(); }
  // Calls that gpuprobe must not make: a flush while the other client has CUPTI, any call after
  // Finalize.
  uint32_t forbidden_calls() const { return forbidden_calls_.load(); }
  void OtherClientHasIt(bool has) { other_has_it_.store(has); }

  cupti::CuptiApi Api();
  bool missing() const { return missing_; }

 private:
  static constexpr size_t kKinds = 64;

  struct Slot {
    std::mutex mutex;
    uint8_t* data = nullptr;
    size_t size = 0, used = 0;
    uint64_t last_end = 0;  // in units of the timestamp in force
    cupti::TimestampFn last_timestamp = nullptr;
  };

  cupti::Result Call();
  cupti::Result FlushAll(uint32_t flag);
  uint64_t Now() const;
  bool HaveRoom(Slot* slot, size_t bytes);
  void Complete(Slot* slot);

  bool missing_ = false;
  uint32_t version_ = 130001;
  cupti::Result subscribe_result_ = cupti::kSuccess;
  std::array<Slot, kSlots> slots_;
  std::array<std::atomic<bool>, kKinds> enabled_{};
  std::atomic<cupti::BufferRequestedFn> requested_{nullptr};
  std::atomic<cupti::BufferCompletedFn> completed_{nullptr};
  std::atomic<cupti::TimestampFn> timestamp_{nullptr};
  std::atomic<bool> hold_flushes_{false}, other_has_it_{false}, finalized_{false};
  std::atomic<uint32_t> flushes_{0}, held_flushes_{0}, registrations_{0}, forbidden_calls_{0};
  std::atomic<uint64_t> refused_requests_{0}, dropped_records_{0}, dropped_untold_{0};
};

}  // namespace gpuprobe::drain_test

#endif  // GPUPROBE_TESTS_DRAIN_FAKE_CUPTI_H_
