// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "proto/frame_dictionary.h"

#include <cstring>

#include "proto/utf8.h"

namespace gpuprobe::proto {
namespace {

// Fields of Dictionary and of its entries.
constexpr uint32_t kNames = 1, kShapes = 2, kApiSymbols = 3, kCopyShapes = 4, kMarkerNames = 8;

constexpr char kUnreadableName[] = "(name could not be read)";
// A tag and a length in front of a name; the largest entry that is no name (17 fields of 2 + 5
// bytes).
constexpr size_t kNameOverheadBytes = 8;
constexpr size_t kMaxEntryBytes = 128;
static_assert(FrameDictionary::kBytes >= kMaxNameBytes + kNameOverheadBytes + kMaxEntryBytes,
              "a single record must fit into an empty dictionary");

uint64_t HashBytes(const char* text, size_t size) {
  uint64_t hash = size;
  for (; size >= 8; text += 8, size -= 8) {
    uint64_t word;
    std::memcpy(&word, text, 8);
    hash = Mix(hash, word);
  }
  uint64_t tail = 0;
  if (size != 0) std::memcpy(&tail, text, size);
  return Mix(hash, tail);
}

// Where to cut so that no UTF-8 sequence is split: at most 3 bytes back.
size_t CutPoint(const char* text, size_t size) {
  for (size_t cut = size; cut + 4 > size && cut > 0; --cut) {
    const uint8_t c = static_cast<uint8_t>(text[cut - 1]);
    if (c < 0x80) return cut;
    if (c >= 0xc0) return cut - 1;
  }
  return size;
}

}  // namespace

void FrameDictionary::Take(Arena* arena, const WriterHooks& hooks) {
  hooks_ = hooks;
  encoded_ = WireWriter(arena->Take<uint8_t>(kBytes), kBytes);
  names_ = arena->Take<NameEntry>(kMaxNames);
  name_slots_ = arena->Take<uint32_t>(kNameSlots);
  pointers_.Take(arena);
  scratch_ = arena->Take<char>(kMaxNameBytes);
  shapes_ = arena->Take<ShapeEntry>(kMaxShapes);
  shape_slots_ = arena->Take<uint32_t>(kShapeSlots);
  api_symbols_.Take(arena);
  copy_shapes_.Take(arena);
  marker_names_.Take(arena);
}

void FrameDictionary::BeginFrame() {
  encoded_.CutTo(0);
  if (name_count_ != 0) std::memset(name_slots_, 0, kNameSlots * sizeof(*name_slots_));
  if (shape_entries_ != 0) std::memset(shape_slots_, 0, kShapeSlots * sizeof(*shape_slots_));
  name_count_ = shape_entries_ = shape_count_ = 0;
  std::memset(direct_symbols_, 0, sizeof(direct_symbols_));
  placeholder_ = 0;
  pointers_.Clear();
  api_symbols_.Clear();
  copy_shapes_.Clear();
  marker_names_.Clear();
}

void FrameDictionary::BeginBuffer() {
  ++pointer_generation_;
  pointers_.Clear();
}

bool FrameDictionary::InternName(const char* text, size_t size, uint32_t* id) {
  const uint64_t hash = HashBytes(text, size);
  size_t slot = hash & (kNameSlots - 1);
  for (; name_slots_[slot] != 0; slot = (slot + 1) & (kNameSlots - 1)) {
    const NameEntry& entry = names_[name_slots_[slot] - 1];
    if (entry.hash == hash && entry.size == size &&
        std::memcmp(encoded_.data() + entry.offset, text, size) == 0) {
      *id = name_slots_[slot];
      return true;
    }
  }
  if (name_count_ == kMaxNames || encoded_.room() < size + kNameOverheadBytes) return false;
  encoded_.Bytes(kNames, text, size);
  names_[name_count_] = {hash, static_cast<uint32_t>(encoded_.size() - size),
                         static_cast<uint32_t>(size)};
  name_slots_[slot] = ++name_count_;
  *id = name_count_;
  return true;
}

bool FrameDictionary::Placeholder(uint32_t* id) {
  if (placeholder_ == 0 &&
      !InternName(kUnreadableName, sizeof(kUnreadableName) - 1, &placeholder_)) {
    return false;
  }
  *id = placeholder_;
  return true;
}

bool FrameDictionary::NameAt(const char* pointer, uint32_t* id) {
  if (pointer == nullptr) {
    *id = kNoName;
    return true;
  }
  const FrameKey key = {reinterpret_cast<uintptr_t>(pointer), 0};
  if (const uint32_t* known = pointers_.Find(key)) {
    *id = *known;
    return true;
  }
  int64_t size = -1;
  if (hooks_.read_name != nullptr)
    size = hooks_.read_name(hooks_.user, pointer, scratch_, kMaxNameBytes);
  if (size < 0) {
    if (!Placeholder(id)) return false;
  } else {
    size_t bytes = static_cast<size_t>(size);
    if (bytes >= kMaxNameBytes) bytes = CutPoint(scratch_, kMaxNameBytes);
    ReplaceInvalidUtf8(scratch_, bytes);
    if (!InternName(scratch_, bytes, id)) return false;
  }
  if (pointers_.full()) pointers_.Clear();
  pointers_.Insert(key, *id);
  return true;
}

bool FrameDictionary::Shape(const KernelRecord& r, ShapeRef* out) {
  const KernelFields fields = {r};
  size_t slot = HashShape(fields) & (kShapeSlots - 1);
  ShapeEntry* entry = nullptr;
  for (; shape_slots_[slot] != 0; slot = (slot + 1) & (kShapeSlots - 1)) {
    ShapeEntry* candidate = &shapes_[shape_slots_[slot] - 1];
    if (IsShape(*candidate, fields)) {
      entry = candidate;
      break;
    }
  }
  if (entry == nullptr || entry->pointer_generation != pointer_generation_) {
    uint32_t name;
    if (!NameAt(r.name, &name)) return false;
    if (entry == nullptr || entry->name != name) {
      uint16_t id;
      if (!AddShape(r, name, &id)) return false;
      if (entry == nullptr) {
        entry = &shapes_[shape_entries_];
        shape_slots_[slot] = ++shape_entries_;
        for (size_t i = 0; i < kShapeWords; ++i) entry->words[i] = fields.shape_word(i);
        entry->how = fields.how();
      }
      entry->name = name;
      entry->id = id;
    }
    entry->pointer_generation = pointer_generation_;
  }
  out->id = entry->id;
  out->name_replaced = entry->name == placeholder_ && placeholder_ != 0;
  entry->known_generation = out->name_replaced ? 0 : pointer_generation_;
  return true;
}

bool FrameDictionary::MarkerName(const char* pointer, uint16_t* id, bool* replaced) {
  *id = 0;
  if (pointer == nullptr) return true;
  // Kernels' names have 0 there: one map for both.
  const FrameKey key = {reinterpret_cast<uintptr_t>(pointer), 1};
  if (const uint32_t* known = pointers_.Find(key)) {
    *id = static_cast<uint16_t>(*known);
    return true;
  }
  int64_t size = -1;
  if (hooks_.read_name != nullptr)
    size = hooks_.read_name(hooks_.user, pointer, scratch_, kMaxMarkerNameBytes);
  const char* text = scratch_;
  *replaced = size < 0;
  if (size < 0) {
    text = kUnreadableName;
    size = sizeof(kUnreadableName) - 1;
  }
  size_t bytes = static_cast<size_t>(size);
  if (bytes >= kMaxMarkerNameBytes) bytes = CutPoint(scratch_, kMaxMarkerNameBytes);
  if (!*replaced) ReplaceInvalidUtf8(scratch_, bytes);
  // 128 bits of length and hash stand for the text: nothing else tells names apart here.
  const FrameKey name = {HashBytes(text, bytes), bytes};
  if (const uint32_t* known = marker_names_.Find(name)) {
    *id = static_cast<uint16_t>(*known);
  } else {
    if (marker_names_.full() || encoded_.room() < bytes + kNameOverheadBytes) return false;
    encoded_.Bytes(kMarkerNames, text, bytes);
    *id = static_cast<uint16_t>(marker_names_.size() + 1);
    marker_names_.Insert(name, *id);
  }
  if (pointers_.full()) pointers_.Clear();
  pointers_.Insert(key, *id);
  return true;
}

// Since an entry is only made together with an id, there is room for an entry if there is for an
// id.
bool FrameDictionary::AddShape(const KernelRecord& r, uint32_t name, uint16_t* id) {
  if (shape_count_ == kMaxShapes || encoded_.room() < kMaxEntryBytes) return false;
  const WireWriter::Mark mark = encoded_.Open(kShapes, 0);
  const uint32_t fields[] = {name,
                             r.grid_x,
                             r.grid_y,
                             r.grid_z,
                             r.block_x,
                             r.block_y,
                             r.block_z,
                             r.cluster_x,
                             r.cluster_y,
                             r.cluster_z,
                             r.static_shared_bytes,
                             r.dynamic_shared_bytes,
                             r.shared_executed_bytes,
                             r.local_bytes_per_thread,
                             r.registers_per_thread,
                             r.launch_type,
                             r.device_launched};
  uint32_t number = 0;
  for (uint32_t value : fields) encoded_.Uint(++number, value);
  encoded_.Close(mark);
  *id = static_cast<uint16_t>(shape_count_++);
  return true;
}

bool FrameDictionary::ApiSymbol(ApiDomain domain, uint32_t cbid, uint16_t* id) {
  const FrameKey key = {cbid, static_cast<uint64_t>(domain)};
  if (const uint32_t* known = api_symbols_.Find(key)) {
    *id = static_cast<uint16_t>(*known);
    return true;
  }
  if (api_symbols_.full()) return false;
  uint32_t api_class = 0;
  const char* text = nullptr;
  if (hooks_.api_name != nullptr) text = hooks_.api_name(hooks_.user, domain, cbid, &api_class);
  uint32_t name = kNoName;
  if (text != nullptr && !InternName(text, strnlen(text, kMaxNameBytes), &name)) return false;
  if (encoded_.room() < kMaxEntryBytes) return false;
  const WireWriter::Mark mark = encoded_.Open(kApiSymbols, 0);
  encoded_.Uint(1, static_cast<uint64_t>(domain));
  encoded_.Uint(2, cbid);
  encoded_.Uint(3, name);
  encoded_.Uint(4, api_class);
  encoded_.Close(mark);
  *id = static_cast<uint16_t>(api_symbols_.size());
  api_symbols_.Insert(key, *id);
  if (cbid < kDirectSymbols) {
    direct_symbols_[static_cast<size_t>(domain)][cbid] = static_cast<uint16_t>(*id + 1);
  }
  return true;
}

bool FrameDictionary::CopyShape(const CopyRecord& r, uint16_t* id) {
  const uint64_t bits =
      static_cast<uint64_t>(r.copy_kind) | static_cast<uint64_t>(r.src_kind) << 8 |
      static_cast<uint64_t>(r.dst_kind) << 16 | static_cast<uint64_t>(r.flags) << 24 |
      static_cast<uint64_t>(r.peer) << 32 | static_cast<uint64_t>(r.device_launched) << 33;
  const uint32_t src_plus1 = r.peer ? r.src_device + 1 : 0;
  const uint32_t dst_plus1 = r.peer ? r.dst_device + 1 : 0;
  const FrameKey key = {bits, static_cast<uint64_t>(src_plus1) << 32 | dst_plus1};
  if (const uint32_t* known = copy_shapes_.Find(key)) {
    *id = static_cast<uint16_t>(*known);
    return true;
  }
  if (copy_shapes_.full() || encoded_.room() < kMaxEntryBytes) return false;
  const WireWriter::Mark mark = encoded_.Open(kCopyShapes, 0);
  encoded_.Uint(1, r.copy_kind);
  encoded_.Uint(2, r.src_kind);
  encoded_.Uint(3, r.dst_kind);
  encoded_.Uint(4, r.flags);
  encoded_.Uint(5, r.peer);
  encoded_.Uint(6, r.device_launched);
  encoded_.Uint(7, src_plus1);
  encoded_.Uint(8, dst_plus1);
  encoded_.Close(mark);
  *id = static_cast<uint16_t>(copy_shapes_.size());
  copy_shapes_.Insert(key, *id);
  return true;
}

}  // namespace gpuprobe::proto
