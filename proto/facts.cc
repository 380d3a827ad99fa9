// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "proto/facts.h"

#include <cstring>

namespace gpuprobe::proto {
namespace {

constexpr uint64_t kDeviceKind = 1, kContextKind = 2, kStreamKind = 3;
// Fields of Dictionary.
constexpr uint32_t kDevices = 5, kContexts = 6, kStreams = 7;
constexpr size_t kExpectedFactBytes = 100;  // lengths of one byte

}  // namespace

void Facts::Take(Arena* arena) {
  devices_.items = arena->Take<Device>(kMaxDevices);
  contexts_.items = arena->Take<Context>(kMaxContexts);
  streams_.items = arena->Take<Stream>(kMaxStreams);
  used_.Take(arena);
}

void Facts::BeginFrame() {
  ++frame_;
  used_.Clear();
  news_ = false;
}

template <class T, class Same>
T* Facts::FindOrReplace(Table<T>* table, uint32_t capacity, Same same) {
  for (uint32_t i = 0; i < table->size; ++i) {
    if (same(table->items[i].record)) return &table->items[i];
  }
  if (table->size < capacity) return &table->items[table->size++];
  T* oldest = &table->items[table->oldest];
  table->oldest = (table->oldest + 1) % capacity;
  return oldest;
}

void Facts::AddDevice(const DeviceRecord& r, const char* name, size_t name_size) {
  Device* device = FindOrReplace(
      &devices_, kMaxDevices, [&](const DeviceRecord& known) { return known.device == r.device; });
  device->record = r;
  device->name_size =
      static_cast<uint32_t>(name_size < kMaxDeviceNameBytes ? name_size : kMaxDeviceNameBytes);
  if (device->name_size != 0) std::memcpy(device->name, name, device->name_size);
  device->frame = frame_;
  news_ = true;
}

void Facts::AddContext(const ContextRecord& r) {
  Context* context = FindOrReplace(&contexts_, kMaxContexts, [&](const ContextRecord& known) {
    return known.context == r.context;
  });
  *context = {r, frame_};
  news_ = true;
}

void Facts::AddStream(const StreamRecord& r) {
  Stream* stream = FindOrReplace(&streams_, kMaxStreams, [&](const StreamRecord& known) {
    return known.context == r.context && known.stream == r.stream;
  });
  *stream = {r, frame_};
  news_ = true;
}

bool Facts::AlreadyUsed(uint64_t kind, uint64_t id) {
  const FrameKey key = {id, kind};
  if (used_.Find(key) != nullptr) return true;
  if (!used_.full()) used_.Insert(key, 0);
  return false;
}

void Facts::UseDevice(uint32_t device) {
  if (device == kInvalidId || AlreadyUsed(kDeviceKind, device)) return;
  for (uint32_t i = 0; i < devices_.size; ++i) {
    if (devices_.items[i].record.device == device) devices_.items[i].frame = frame_;
  }
}

void Facts::UseContext(uint32_t context) {
  if (context == kInvalidId || AlreadyUsed(kContextKind, context)) return;
  for (uint32_t i = 0; i < contexts_.size; ++i) {
    if (contexts_.items[i].record.context != context) continue;
    contexts_.items[i].frame = frame_;
    UseDevice(contexts_.items[i].record.device);
  }
}

void Facts::UseStream(uint32_t context, uint32_t stream) {
  UseContext(context);
  if (stream == kInvalidId) return;
  if (AlreadyUsed(kStreamKind, static_cast<uint64_t>(context) << 32 | stream)) return;
  for (uint32_t i = 0; i < streams_.size; ++i) {
    const StreamRecord& known = streams_.items[i].record;
    if (known.context == context && known.stream == stream) streams_.items[i].frame = frame_;
  }
}

void Facts::Encode(WireWriter* out) const {
  for (uint32_t i = 0; i < devices_.size; ++i) {
    const Device& device = devices_.items[i];
    if (device.frame != frame_) continue;
    static constexpr uint8_t kNoUuid[sizeof(device.record.uuid)] = {};
    const WireWriter::Mark mark = out->Open(kDevices, kExpectedFactBytes);
    out->Uint(1, device.record.device);
    if (std::memcmp(device.record.uuid, kNoUuid, sizeof(kNoUuid)) != 0) {
      out->Bytes(2, device.record.uuid, sizeof(device.record.uuid));
    }
    if (device.name_size != 0) out->Bytes(3, device.name, device.name_size);
    out->Uint(4, device.record.memory_bytes);
    out->Uint(5, device.record.sm_count);
    out->Uint(6, device.record.compute_major);
    out->Uint(7, device.record.compute_minor);
    out->Uint(8, device.record.memory_bandwidth_kb_s);
    out->Uint(9, device.record.core_clock_khz);
    out->Uint(10, device.record.mig);
    out->Close(mark);
  }
  for (uint32_t i = 0; i < contexts_.size; ++i) {
    if (contexts_.items[i].frame != frame_) continue;
    const ContextRecord& r = contexts_.items[i].record;
    const WireWriter::Mark mark = out->Open(kContexts, kExpectedFactBytes);
    out->Uint(1, r.context);
    out->Uint(2, r.device);
    out->Uint(3, r.null_stream);
    out->Close(mark);
  }
  for (uint32_t i = 0; i < streams_.size; ++i) {
    if (streams_.items[i].frame != frame_) continue;
    const StreamRecord& r = streams_.items[i].record;
    const WireWriter::Mark mark = out->Open(kStreams, kExpectedFactBytes);
    out->Uint(1, r.context);
    out->Uint(2, r.stream);
    out->Uint(3, r.priority);
    out->Uint(4, r.flag);
    out->Close(mark);
  }
}

}  // namespace gpuprobe::proto
