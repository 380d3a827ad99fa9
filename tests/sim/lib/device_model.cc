// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "tests/sim/lib/device_model.h"

#include <algorithm>

#include "tests/sim/lib/settings.h"

namespace gpuprobe::sim {
namespace {

// Busy intervals of an engine kept for hole searching. Work is submitted with ready times that
// grow, so old holes are never asked for again.
constexpr size_t kMaxIntervals = 512;

int64_t RoundUp(int64_t value, int64_t grain) {
  return grain <= 1 ? value : (value + grain - 1) / grain * grain;
}

Stream MakeStream(Context* context, uint32_t id, bool is_null, bool blocking, int priority) {
  Stream s{};
  s.magic = DeviceModel::kStreamMagic;
  s.id = id;
  s.context = context;
  s.is_null = is_null;
  s.blocking = blocking;
  s.priority = priority;
  return s;
}

}  // namespace

DeviceModel::DeviceModel(int device_count) {
  for (int i = 0; i < device_count; ++i) {
    auto device = std::make_unique<Device>();
    device->index = i;
    device->name = "Simulated GPU " + std::to_string(i);
    device->uuid = {0x67, 0x70, 0x75, 0x73, 0x69, 0x6d, 0, 0,
                    0,    0,    0,    0,    0,    0,    0, static_cast<uint8_t>(i)};
    device->next_grid_id = 1;
    devices_.push_back(std::move(device));
  }
}

Context* DeviceModel::CreateContext(Device* device, bool primary) {
  std::lock_guard<std::mutex> lock(mu_);
  contexts_.push_back(std::make_unique<Context>());
  Context* context = contexts_.back().get();
  context->magic = kContextMagic;
  context->id = next_context_++;
  context->device = device;
  context->is_primary = primary;
  context->null_stream = MakeStream(context, next_stream_++, true, true, 0);
  if (primary) device->primary = context;
  return context;
}

void DeviceModel::DestroyContext(Context* context) {
  std::lock_guard<std::mutex> lock(mu_);
  context->destroyed = true;
  if (context->device->primary == context) context->device->primary = nullptr;
  for (Stream* stream : context->streams) stream->destroyed = true;
}

std::vector<Context*> DeviceModel::Contexts() {
  std::lock_guard<std::mutex> lock(mu_);
  std::vector<Context*> alive;
  for (const auto& c : contexts_) {
    if (!c->destroyed) alive.push_back(c.get());
  }
  return alive;
}

Stream* DeviceModel::CreateStream(Context* context, bool blocking, int priority) {
  std::lock_guard<std::mutex> lock(mu_);
  streams_.push_back(
      std::make_unique<Stream>(MakeStream(context, next_stream_++, false, blocking, priority)));
  Stream* stream = streams_.back().get();
  context->streams.push_back(stream);
  return stream;
}

void DeviceModel::DestroyStream(Stream* stream) {
  std::lock_guard<std::mutex> lock(mu_);
  Context* context = stream->context;
  stream->destroyed = true;
  context->destroyed_tail_ns = std::max(context->destroyed_tail_ns, stream->tail_ns);
  std::erase(context->streams, stream);
}

std::vector<Stream*> DeviceModel::Streams(Context* context) {
  std::lock_guard<std::mutex> lock(mu_);
  return context->streams;
}

Event* DeviceModel::CreateEvent(bool timing) {
  std::lock_guard<std::mutex> lock(mu_);
  events_.push_back(std::make_unique<Event>());
  Event* event = events_.back().get();
  event->magic = kEventMagic;
  event->id = next_event_++;
  event->timing = timing;
  return event;
}

int64_t DeviceModel::ReadyLocked(const Stream* stream, int64_t submitted_ns) const {
  int64_t ready =
      std::max(submitted_ns + Settings::Get()[Setting::kLaunchLatencyNs], stream->tail_ns);
  const Context* context = stream->context;
  if (stream->is_null) {
    for (const Stream* other : context->streams) {
      if (other->blocking) ready = std::max(ready, other->tail_ns);
    }
  } else if (stream->blocking) {
    ready = std::max(ready, context->null_stream.tail_ns);
  }
  return ready;
}

int64_t DeviceModel::FirstHole(std::deque<Interval>& busy, int64_t ready_ns,
                               int64_t duration_ns) const {
  int64_t start = ready_ns;
  auto it = busy.begin();
  for (; it != busy.end(); ++it) {
    if (it->end_ns <= start) continue;
    if (it->start_ns >= start + duration_ns) break;
    start = it->end_ns;
  }
  busy.insert(it, Interval{start, start + duration_ns});
  if (busy.size() > kMaxIntervals) busy.pop_front();
  return start;
}

Interval DeviceModel::Submit(Stream* stream, Engine engine, bool is_kernel, int64_t submitted_ns,
                             int64_t duration_ns) {
  const int64_t grain = Settings::Get()[Setting::kGrainNs];
  std::lock_guard<std::mutex> lock(mu_);
  int64_t ready = ReadyLocked(stream, submitted_ns);
  const int64_t overlap = Settings::Get()[Setting::kStreamOverlapNs];
  if (overlap > 0 && is_kernel && stream->tail_is_kernel && ready == stream->tail_ns) {
    // Programmatic dependent launch: real recordings hold kernels that overlap on one stream.
    ready = std::max(submitted_ns + Settings::Get()[Setting::kLaunchLatencyNs], ready - overlap);
  }
  const int64_t duration = RoundUp(std::max<int64_t>(duration_ns, 0), grain);
  int64_t start = RoundUp(ready, grain);
  if (engine != Engine::kCompute) {
    start =
        FirstHole(stream->context->device->engines[static_cast<size_t>(engine)], start, duration);
  }
  stream->tail_ns = std::max(stream->tail_ns, start + duration);
  stream->tail_is_kernel = is_kernel;
  return {start, start + duration};
}

int64_t DeviceModel::ReadyAt(Stream* stream, int64_t submitted_ns) {
  std::lock_guard<std::mutex> lock(mu_);
  return RoundUp(ReadyLocked(stream, submitted_ns), Settings::Get()[Setting::kGrainNs]);
}

void DeviceModel::ExtendTail(Stream* stream, int64_t end_ns) {
  std::lock_guard<std::mutex> lock(mu_);
  stream->tail_ns = std::max(stream->tail_ns, end_ns);
  stream->tail_is_kernel = false;
}

uint64_t DeviceModel::SubmitHostFunction(Stream* stream) {
  std::lock_guard<std::mutex> lock(mu_);
  return ++stream->host_functions_submitted;
}

void DeviceModel::HostFunctionDone(Stream* stream) {
  std::lock_guard<std::mutex> lock(mu_);
  ++stream->host_functions_done;
}

void DeviceModel::RecordEvent(Event* event, Stream* stream, int64_t submitted_ns) {
  std::lock_guard<std::mutex> lock(mu_);
  // No launch latency: an event behind nothing is reached as soon as it is submitted.
  const int64_t latency = Settings::Get()[Setting::kLaunchLatencyNs];
  event->time_ns = ReadyLocked(stream, submitted_ns - latency);
  event->recorded = true;
  event->sync_id = next_sync_id_++;
  event->stream = stream;
  event->host_functions = stream->host_functions_submitted;
}

void DeviceModel::WaitEvent(Stream* stream, const Event* event) {
  std::lock_guard<std::mutex> lock(mu_);
  if (!event->recorded) return;
  stream->tail_ns = std::max(stream->tail_ns, event->time_ns);
  stream->tail_is_kernel = false;
}

int64_t DeviceModel::StreamEnd(const Stream* stream) {
  std::lock_guard<std::mutex> lock(mu_);
  int64_t end = stream->tail_ns;
  if (!stream->is_null) return end;
  for (const Stream* other : stream->context->streams) {
    if (other->blocking) end = std::max(end, other->tail_ns);
  }
  return end;
}

int64_t DeviceModel::ContextEnd(Context* context) {
  std::lock_guard<std::mutex> lock(mu_);
  int64_t end = std::max(context->null_stream.tail_ns, context->destroyed_tail_ns);
  for (const Stream* stream : context->streams) end = std::max(end, stream->tail_ns);
  return end;
}

Event DeviceModel::Snapshot(const Event* event) {
  std::lock_guard<std::mutex> lock(mu_);
  return *event;
}

bool DeviceModel::HostFunctionsDone(const Stream* stream, uint64_t up_to) {
  std::lock_guard<std::mutex> lock(mu_);
  return stream->host_functions_done >= std::min(up_to, stream->host_functions_submitted);
}

int64_t DeviceModel::NextGridId(Device* device) {
  std::lock_guard<std::mutex> lock(mu_);
  return device->next_grid_id++;
}

}  // namespace gpuprobe::sim
