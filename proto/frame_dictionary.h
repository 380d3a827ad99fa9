// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// The dictionary of the frame being staged: gives names, launch shapes, API symbols and copy shapes
// their frame-local ids (dense, in first-use order) and encodes each entry when it is first used.
//
// Nothing is kept from frame to frame, since each frame must hold what it uses anyway: a process
// that makes up kernels without end fills frames sooner, but never a table for good, and loses no
// name. When something does not fit, the caller closes the frame and asks again; in an empty
// dictionary every single entry fits.
//
// Thread: the drain thread.
#ifndef GPUPROBE_PROTO_FRAME_DICTIONARY_H_
#define GPUPROBE_PROTO_FRAME_DICTIONARY_H_

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "proto/arena.h"
#include "proto/format.h"
#include "proto/frame_map.h"
#include "proto/trace_writer.h"
#include "proto/wire.h"
#include "ringbuf/records.h"

namespace gpuprobe::proto {

// A record's fields, asked for one by one; cupti::KernelInBuffer is the same of a record that has
// not been decoded.
struct KernelFields {
  const KernelRecord& r;
  int64_t start_ns() const { return r.start_ns; }
  int64_t end_ns() const { return r.end_ns; }
  uint32_t device() const { return r.device; }
  uint32_t context() const { return r.context; }
  uint32_t stream() const { return r.stream; }
  uint32_t correlation() const { return r.correlation; }
  // Neither of a graph nor with latency timestamps.
  bool plain() const {
    return (r.graph_id | r.graph_node_id | static_cast<uint64_t>(r.queued_ns | r.submitted_ns)) ==
           0;
  }
  uint16_t how() const { return static_cast<uint16_t>(r.launch_type | r.device_launched << 8); }
  // The launch configuration in eight words, in KernelRecord's order from `name` on.
  uint64_t shape_word(size_t i) const {
    uint64_t word;
    std::memcpy(&word, reinterpret_cast<const char*>(&r) + offsetof(KernelRecord, name) + 8 * i, 8);
    return word;
  }
};

class FrameDictionary {
 public:
  static constexpr size_t kBytes = 512u << 10;  // encoded entries of one frame
  static constexpr uint32_t kMaxNames = 8192;
  static constexpr uint32_t kMaxShapes = 8192;
  static constexpr uint32_t kMaxApiSymbols = 2048;
  static constexpr uint32_t kMaxCopyShapes = 2048;
  static constexpr uint32_t kMaxMarkerNames = 4096;
  // Id 0xffff is never given: all ids fit 16 bits in the staged records.
  static_assert(kMaxMarkerNames < 0xffff && kMaxShapes < 0xffff && kMaxApiSymbols < 0xffff &&
                kMaxCopyShapes < 0xffff);

  void Take(Arena* arena, const WriterHooks& hooks);
  void BeginFrame();
  // Pointers may stand for other names from now on.
  void BeginBuffer();

  struct ShapeRef {
    uint16_t id;
    bool name_replaced;  // the name at the record's pointer could not be read
  };
  // False: no room, close the frame and ask again.
  [[nodiscard]] bool Shape(const KernelRecord& r, ShapeRef* out);
  [[nodiscard]] bool ApiSymbol(ApiDomain domain, uint32_t cbid, uint16_t* id);
  // The name at a pointer, cut at kMaxMarkerNameBytes: an id of marker_names; nullptr: 0.
  [[nodiscard]] bool MarkerName(const char* pointer, uint16_t* id, bool* replaced);
  [[nodiscard]] bool CopyShape(const CopyRecord& r, uint16_t* id);

  // Short cuts for what this frame has seen: the id, or kUnknown, which only means that the full
  // question has to be asked.
  static constexpr uint32_t kUnknown = 0xffff;
  uint32_t KnownApiSymbol(ApiDomain domain, uint32_t cbid) const {
    return cbid < kDirectSymbols
               ? (uint32_t{direct_symbols_[static_cast<size_t>(domain)][cbid]} - 1) & kUnknown
               : kUnknown;
  }
  // Also kUnknown where the name could not be read.
  template <class Kernel>
  uint32_t KnownShape(const Kernel& k) const;

  // Fields of the Dictionary message, as they stand in the frame.
  const WireWriter& encoded() const { return encoded_; }

 private:
  // What distinguishes launch shapes: the record's own bytes from `name` to `registers_per_thread`.
  static constexpr size_t kShapeWords = 8;
  struct ShapeEntry {
    uint64_t words[kShapeWords];
    uint32_t pointer_generation;  // in which the name was last read
    uint32_t known_generation;    // the same, 0 if it could not be
    uint32_t name;
    uint16_t id;
    uint16_t how;  // KernelFields::how
  };
  // CUDA 13's calls end at 867.
  static constexpr uint32_t kDirectSymbols = 1024;
  struct NameEntry {
    uint64_t hash;
    uint32_t offset, size;  // of the bytes in encoded_
  };
  static constexpr size_t kShapeSlots = 2 * kMaxShapes;
  static constexpr size_t kNameSlots = 2 * kMaxNames;
  static constexpr uint32_t kNoName = 0;

  bool NameAt(const char* pointer, uint32_t* id);
  bool InternName(const char* text, size_t size, uint32_t* id);
  bool Placeholder(uint32_t* id);
  bool AddShape(const KernelRecord& r, uint32_t name, uint16_t* id);
  template <class Kernel>
  static uint64_t HashShape(const Kernel& k);
  template <class Kernel>
  static bool IsShape(const ShapeEntry& entry, const Kernel& k);

  WriterHooks hooks_ = {};
  WireWriter encoded_;
  uint32_t pointer_generation_ = 1;

  NameEntry* names_ = nullptr;      // [kMaxNames]; id - 1
  uint32_t* name_slots_ = nullptr;  // [kNameSlots]; id, 0: empty
  uint32_t name_count_ = 0;
  uint32_t placeholder_ = 0;      // id of the placeholder name in this frame, 0: not used yet
  FrameMap<kMaxNames> pointers_;  // name pointer -> id, within the frame and the buffer
  char* scratch_ = nullptr;       // [kMaxNameBytes]

  ShapeEntry* shapes_ = nullptr;     // [kMaxShapes]
  uint32_t* shape_slots_ = nullptr;  // [kShapeSlots]; index in shapes_ + 1, 0: empty
  uint32_t shape_entries_ = 0;
  uint32_t shape_count_ = 0;  // ids given; more than entries if a pointer changed its name

  FrameMap<kMaxApiSymbols> api_symbols_;
  uint16_t direct_symbols_[2][kDirectSymbols] = {};  // id + 1, by domain and cbid; 0: not known
  FrameMap<kMaxCopyShapes> copy_shapes_;
  FrameMap<kMaxMarkerNames> marker_names_;  // length and hash -> id
};

// The launch configuration lies in KernelRecord as one block that starts with the name pointer.
static_assert(sizeof(KernelRecord::name) == 8);
static_assert(offsetof(KernelRecord, registers_per_thread) +
                  sizeof(KernelRecord::registers_per_thread) - offsetof(KernelRecord, name) ==
              64);

// The functions below are a part of every kernel record's way.
// Of name, grid, block and the shared memory that a launch chooses: what hardly varies beside them
// is only compared. Two sums of products instead of a chain: the products do not wait for each
// other.
template <class Kernel>
[[gnu::always_inline]] inline uint64_t FrameDictionary::HashShape(const Kernel& k) {
  const uint64_t even = k.shape_word(0) + k.shape_word(2) * 0x9fb21c651e98df25u +
                        k.shape_word(6) * 0xc2b2ae3d27d4eb4fu;
  const uint64_t odd = k.shape_word(1) + k.shape_word(3) * 0xa0761d6478bd642fu;
  return Mix(even, odd);
}

// memcmp would be a call, and want the record in memory.
template <class Kernel>
[[gnu::always_inline]] inline bool FrameDictionary::IsShape(const ShapeEntry& entry,
                                                            const Kernel& k) {
  uint64_t difference = entry.how ^ k.how();
  difference |= entry.words[0] ^ k.shape_word(0);
  difference |= entry.words[1] ^ k.shape_word(1);
  difference |= entry.words[2] ^ k.shape_word(2);
  difference |= entry.words[3] ^ k.shape_word(3);
  difference |= entry.words[4] ^ k.shape_word(4);
  difference |= entry.words[5] ^ k.shape_word(5);
  difference |= entry.words[6] ^ k.shape_word(6);
  difference |= entry.words[7] ^ k.shape_word(7);
  return difference == 0;
}

template <class Kernel>
[[gnu::always_inline]] inline uint32_t FrameDictionary::KnownShape(const Kernel& k) const {
  for (size_t slot = HashShape(k);; ++slot) {
    const uint32_t index = shape_slots_[slot & (kShapeSlots - 1)];
    if (index == 0) return kUnknown;
    const ShapeEntry& entry = shapes_[index - 1];
    if (!IsShape(entry, k)) continue;
    return entry.known_generation == pointer_generation_ ? entry.id : kUnknown;
  }
}

}  // namespace gpuprobe::proto

#endif  // GPUPROBE_PROTO_FRAME_DICTIONARY_H_
