// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// What every frame carries beside records: what the process is, how it was recorded, what recording
// cost, and the sampler's sealed pieces. On the drain thread, while a frame is closed.
#include <sys/resource.h>

#include <cstdio>
#include <cstring>
#include <ctime>

#include "inject/drain.h"

#ifndef GPUPROBE_VERSION
#error "GPUPROBE_VERSION comes from the build"
#endif

namespace gpuprobe::inject {
namespace {

// Thread names, again, so that a damaged first frame does not lose them.
constexpr uint64_t kThreadNamesEveryFrames = 32;

// Field numbers of gpuprobe.proto.
namespace packet {
constexpr uint32_t kProcess = 16, kCapture = 17, kCost = 20, kHostSamples = 23, kUsage = 24;
}

int64_t ThreadCpuNs() {
  struct timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return t.tv_sec * 1'000'000'000LL + t.tv_nsec;
}

void AddOutcomes(uint32_t field, const cupti::Outcome* outcomes, size_t count,
                 proto::PacketBuilder* out) {
  for (size_t i = 0; i < count; ++i) {
    out->BeginMessage(field);
    out->AddString(1, outcomes[i].name);
    out->AddInt(2, outcomes[i].result);
    out->EndMessage();
  }
}

}  // namespace

void Drain::AddPackets(void* session, proto::PacketBuilder* out) {
  Session& s = *static_cast<Session*>(session);
  Drain drain(&s);
  drain.AddProcess(out);
  if (!s.capture_written_) drain.AddCapture(out);
  drain.AddCost(out);
  drain.AddUsage(out);
  const bool all_names =
      !s.threads_written_ || s.writer_.stats().frames % kThreadNamesEveryFrames == 0;
  s.thread_names_.Write(all_names, s.facts_.pid, out);
  s.pieces_in_frame_ = 0;
  if (s.sampling_) drain.AddSamples(out);
}

// Last of all: they may be large, and what has no room stays for the next frame.
void Drain::AddSamples(proto::PacketBuilder* out) {
  const uint8_t* data;
  size_t bytes;
  while (s_.sampler_.TakeSealed(&data, &bytes, s_.pieces_in_frame_)) {
    if (!out->AddSerializedPacket(packet::kHostSamples, data, bytes)) return;
    ++s_.pieces_in_frame_;
  }
}

void Drain::AddUsage(proto::PacketBuilder* out) {
  const auto ns = [](const struct timeval& t) {
    return t.tv_sec * 1'000'000'000LL + t.tv_usec * 1000LL;
  };
  struct rusage own = {}, children = {};
  getrusage(RUSAGE_SELF, &own);
  getrusage(RUSAGE_CHILDREN, &children);
  out->BeginPacket(packet::kUsage);
  out->AddInt(1, s_.clock_.Now() - s_.process_start_ns_);
  out->AddInt(2, ns(own.ru_utime));
  out->AddInt(3, ns(own.ru_stime));
  out->AddInt(4, ns(children.ru_utime) + ns(children.ru_stime));
  out->AddInt(5, own.ru_maxrss * 1024LL);
  out->AddUint(6, static_cast<uint64_t>(own.ru_nvcsw));
  out->AddUint(7, static_cast<uint64_t>(own.ru_nivcsw));
  out->EndPacket();
}

void Drain::AddProcess(proto::PacketBuilder* out) {
  const ProcessFacts& f = s_.facts_;
  out->BeginPacket(packet::kProcess);
  out->AddUint(1, f.pid);
  out->AddUint(2, f.parent_pid);
  out->AddString(3, f.host);
  out->AddString(4, f.boot_id);
  out->AddInt(5, s_.process_start_ns_);
  out->AddString(6, f.executable);
  for (size_t i = 0; i < f.command_line_bytes;) {
    const size_t length = strnlen(f.command_line + i, f.command_line_bytes - i);
    out->AddString(7, f.command_line + i, length);
    i += length + 1;
  }
  out->AddUint(8, f.pid_namespace);
  out->AddInt(9, f.rank);
  out->AddInt(10, f.local_rank);
  out->AddInt(11, f.world_size);
  out->AddString(12, f.cgroup);
  out->AddUint(13, f.start_ticks);
  out->EndPacket();
}

void Drain::AddCapture(proto::PacketBuilder* out) {
  out->BeginPacket(packet::kCapture);
  out->AddString(1, GPUPROBE_VERSION);
  out->AddString(2, s_.door_);
  out->AddString(3, s_.api_.path);
  out->AddUint(4, s_.api_.version);
  size_t count;
  const Setting* settings = Settings(&count);
  for (size_t i = 0; i < count; ++i) {
    char value[sizeof(Config::out)];
    FormatSetting(s_.config_, settings[i], value, sizeof value);
    out->BeginMessage(6);
    out->AddString(1, settings[i].name);
    out->AddString(2, value);
    out->AddUint(3, IsDefault(s_.config_, settings[i]) ? 1 : 0);
    out->EndMessage();
  }
  AddOutcomes(7, s_.kinds_, s_.kind_count_, out);
  AddOutcomes(8, s_.attributes_, s_.attribute_count_, out);
  out->AddString(9, s_.off_reason_);
  for (size_t i = 0; i < s_.warnings_.count; ++i) out->AddString(10, s_.warnings_.text[i]);
  AddOutages(out);
  s_.graph_nodes_told_ = s_.config_.graph_nodes || s_.source_.graph_level_given_up();
  out->AddUint(11, s_.graph_nodes_told_ ? 1 : 0);
  out->AddUint(12, s_.config_.latency_timestamps ? 1 : 0);
  out->AddString(13, s_.facts_.driver_release);
  out->EndPacket();
}

// Known to the frame that ends an outage: the one before it was refused, or not even made.
void Drain::AddOutages(proto::PacketBuilder* out) {
  const uint32_t count = s_.file_.outages();
  if (count == 0) return;
  char text[200];
  std::snprintf(text, sizeof text,
                "the trace could not be written for a while, %u %s; the last time: errno %d, %s",
                count, count == 1 ? "time" : "times", s_.file_.error_number(),
                s_.file_.error_text());
  out->AddString(10, text);
}

void Drain::AddCost(proto::PacketBuilder* out) {
  const BufferPool::Stats pool = s_.pool_.stats();
  out->BeginPacket(packet::kCost);
  out->AddUint(1, static_cast<uint64_t>(ThreadCpuNs()));
  out->AddUint(2, s_.writer_.stats().records);
  out->AddUint(3, s_.cupti_bytes_);
  out->AddUint(4, s_.writer_.stats().bytes);
  out->AddUint(5, s_.buffers_completed_);
  out->AddUint(6, pool.outstanding);
  out->AddUint(7, pool.peak_outstanding);
  out->AddUint(8, s_.memory_bytes_);
  out->AddUint(9, s_.flush_calls_);
  out->AddUint(10, s_.flush_ns_);
  out->AddUint(11, static_cast<uint64_t>(s_.start_duration_ns_));
  out->EndPacket();
}

}  // namespace gpuprobe::inject
