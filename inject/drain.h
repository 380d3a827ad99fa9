// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// The drain thread; the other thread of ours is the sampler's (sampler/host_sampler.h). It takes
// completed buffers from the pool and sealed pieces from the sampler, decodes and appends them to
// the trace writer, closes a frame once per flush period, and closes the file. All signals but
// SIGSYS are blocked on it (StartThread says why). It flushes CUPTI without any lock (the driver's
// lock and ours would deadlock in the end); only when it comes back after another client it
// registers under the control lock, whose other takers give up after a bounded wait.
#ifndef GPUPROBE_INJECT_DRAIN_H_
#define GPUPROBE_INJECT_DRAIN_H_

#include <cstdint>

#include "inject/session.h"

namespace gpuprobe::inject {

class Drain {
 public:
  explicit Drain(Session* session) : s_(*session) {}

  static bool InitDecoder(Session* session);
  static proto::WriterHooks Hooks(Session* session);
  static void* ThreadMain(void* session);

 private:
  void Run();
  void RunWithoutCapture(uint32_t tid);
  void DrainBuffers();
  void Period(int64_t now);
  void FlushCupti(bool forced);
  void FlushEarlyIfLow();
  void TakeLosses();
  void TakeEvents();
  void OnEvent(const SessionEvent& event);
  bool WriteFrame(const uint8_t* data, size_t size);
  void CloseFrameIfDue(int64_t now);
  void NoteFailedFile();
  void CheckFile();
  void Answer();
  void EndSampler(int64_t limit_ns);
  void Finish(const char* reason);
  bool CloseFile(const char* reason);
  void FinishAsLast();
  void PrintLine();

  void WaitForFile();

  static void AddPackets(void* session, proto::PacketBuilder* out);
  void AddProcess(proto::PacketBuilder* out);
  void AddCapture(proto::PacketBuilder* out);
  void AddOutages(proto::PacketBuilder* out);
  void AddCost(proto::PacketBuilder* out);
  void AddUsage(proto::PacketBuilder* out);
  void AddSamples(proto::PacketBuilder* out);

  Session& s_;
  int64_t period_begin_ns_ = 0;  // trace clock: begin of the range in which losses are counted
  int64_t last_frame_ns_ = 0;    // CLOCK_MONOTONIC
  bool early_flush_is_vain_ = false;
  int64_t blind_begin_ns_ = 0;  // trace clock; 0: not blind
  char blind_who_[SessionEvent::kTextBytes] = {};
  const char* blind_call_ = "";
};

}  // namespace gpuprobe::inject

#endif  // GPUPROBE_INJECT_DRAIN_H_
