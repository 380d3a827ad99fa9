// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// What is true for the whole file: devices, contexts, streams. CUPTI tells each once, but every
// frame must be readable alone, so those that a frame uses are written into it again. A fact is
// also written in the frame in which it arrives. When a table is full the oldest fact gives way: it
// stands in earlier frames.
#ifndef GPUPROBE_PROTO_FACTS_H_
#define GPUPROBE_PROTO_FACTS_H_

#include <cstddef>
#include <cstdint>

#include "proto/arena.h"
#include "proto/frame_map.h"
#include "proto/wire.h"
#include "ringbuf/records.h"

namespace gpuprobe::proto {

class Facts {
 public:
  static constexpr uint32_t kMaxDevices = 64;
  static constexpr uint32_t kMaxContexts = 256;
  static constexpr uint32_t kMaxStreams = 1024;
  static constexpr size_t kMaxDeviceNameBytes = 128;
  // Most bytes that Encode appends.
  static constexpr size_t kMaxBytes = kMaxDevices * 256 + kMaxContexts * 24 + kMaxStreams * 32;

  void Take(Arena* arena);
  void BeginFrame();

  // `name`: valid UTF-8.
  void AddDevice(const DeviceRecord& r, const char* name, size_t name_size);
  void AddContext(const ContextRecord& r);
  void AddStream(const StreamRecord& r);

  // This frame names them; kInvalidId: does not.
  void UseDevice(uint32_t device);
  void UseContext(uint32_t context);
  void UseStream(uint32_t context, uint32_t stream);

  // Appends the fields of Dictionary for what this frame uses.
  void Encode(WireWriter* out) const;
  // Whether a fact has arrived since the frame was begun.
  bool news() const { return news_; }

 private:
  struct Device {
    DeviceRecord record;
    char name[kMaxDeviceNameBytes];
    uint32_t name_size;
    uint32_t frame;  // last frame that uses it; 0: empty
  };
  struct Context {
    ContextRecord record;
    uint32_t frame;
  };
  struct Stream {
    StreamRecord record;
    uint32_t frame;
  };
  template <class T>
  struct Table {
    T* items;
    uint32_t size;    // filled
    uint32_t oldest;  // next to be replaced when full
  };
  template <class T, class Same>
  static T* FindOrReplace(Table<T>* table, uint32_t capacity, Same same);

  static constexpr uint32_t kMaxUsed = 2048;
  Table<Device> devices_ = {};
  Table<Context> contexts_ = {};
  Table<Stream> streams_ = {};
  FrameMap<kMaxUsed> used_;  // what has been looked for in this frame
  uint32_t frame_ = 1;
  bool news_ = false;

  bool AlreadyUsed(uint64_t kind, uint64_t id);
};

}  // namespace gpuprobe::proto

#endif  // GPUPROBE_PROTO_FACTS_H_
