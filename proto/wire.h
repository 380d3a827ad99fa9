// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Protobuf wire format into fixed memory, for the injected side: varints, tags, nested messages.
//
// Why not protozero, whose writer does the same: (1) its submessage writer reserves five bytes
// through the buffer and later writes *before* its position, so a buffer that refuses to grow
// without throwing gets earlier bytes overwritten; (2) its destructors have a catch-all, which
// clang at -O2 and g++ at -O0 turn into references to __gxx_personality_v0, __cxa_begin_catch and
// std::terminate, symbols of the libstdc++ that this library does without; (3) its asserts abort
// the host in a build without NDEBUG.
#ifndef GPUPROBE_PROTO_WIRE_H_
#define GPUPROBE_PROTO_WIRE_H_

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace gpuprobe::proto {

inline constexpr size_t kMaxVarintBytes = 10;

enum WireType : uint32_t {
  kWireVarint = 0,
  kWireFixed64 = 1,
  kWireLengthDelimited = 2,
  kWireFixed32 = 5
};

constexpr uint64_t ZigZag(int64_t value) {
  return (static_cast<uint64_t>(value) << 1) ^ static_cast<uint64_t>(value >> 63);
}

constexpr size_t VarintBytes(uint64_t value) {
  return (static_cast<size_t>(std::bit_width(value | 1)) + 6) / 7;
}

// Writes a varint; `out` must have room for kMaxVarintBytes whatever the value is. Values of two to
// four bytes are written without a branch on their length: in columns of times that length is
// random, and a byte loop mispredicts about every other value.
inline uint8_t* PutVarint(uint8_t* out, uint64_t value) {
  if (value < 0x80) {
    *out = static_cast<uint8_t>(value);
    return out + 1;
  }
  if (value < (1u << 28)) {
    const uint32_t v = static_cast<uint32_t>(value);
    const uint32_t length = static_cast<uint32_t>(VarintBytes(v));
    uint32_t spread =
        (v & 0x7f) | ((v & 0x3f80) << 1) | ((v & 0x1fc000) << 2) | ((v & 0xfe00000) << 3);
    spread |= 0x00808080u & ((1u << (8 * (length - 1))) - 1);  // length 2..4: more bytes follow
    std::memcpy(out, &spread, 4);
    return out + length;
  }
  while (value >= 0x80) {
    *out++ = static_cast<uint8_t>(value | 0x80);
    value >>= 7;
  }
  *out = static_cast<uint8_t>(value);
  return out + 1;
}

// The same without a branch between one byte and two, for columns whose values lie around 128:
// there every third one would be guessed wrong.
inline uint8_t* PutMixedVarint(uint8_t* out, uint64_t value) {
  if (value >= (1u << 14)) [[unlikely]] {
    return PutVarint(out, value);
  }
  const uint32_t v = static_cast<uint32_t>(value);
  const uint32_t more = v > 0x7f;
  const uint16_t bytes = static_cast<uint16_t>((v + (v & 0x3f80)) | more << 7);
  std::memcpy(out, &bytes, sizeof(bytes));
  return out + 1 + more;
}

// Appends to memory of the caller. What does not fit is not written and sets overflowed(); the
// bytes before it stay intact, so the caller can cut back to a size that it remembers.
class WireWriter {
 public:
  constexpr WireWriter() = default;
  constexpr WireWriter(uint8_t* data, size_t capacity) : data_(data), capacity_(capacity) {}

  // Open length-delimited field: where it begins and how many bytes its length was given.
  struct Mark {
    size_t start;  // of the tag
    size_t body;   // first byte after the length
    size_t length_bytes;
  };

  // `expected_bytes` is a guess of the body's size: a wrong one costs a move of the body in Close.
  Mark Open(uint32_t field, size_t expected_bytes) {
    Mark mark{size_, size_, VarintBytes(expected_bytes)};
    Tag(field, kWireLengthDelimited);
    if (!Room(mark.length_bytes)) return mark;
    size_ += mark.length_bytes;
    mark.body = size_;
    return mark;
  }
  void Close(const Mark& mark) {
    if (overflowed_) return;
    const size_t body_bytes = size_ - mark.body;
    const size_t need = VarintBytes(body_bytes);
    if (need != mark.length_bytes) {
      if (need > mark.length_bytes && !Room(need - mark.length_bytes)) return;
      std::memmove(data_ + mark.body - mark.length_bytes + need, data_ + mark.body, body_bytes);
      size_ = size_ - mark.length_bytes + need;
    }
    uint8_t length[kMaxVarintBytes];
    PutVarint(length, body_bytes);
    std::memcpy(data_ + mark.body - mark.length_bytes, length, need);
  }

  void Varint(uint64_t value) {
    if (room() >= kMaxVarintBytes && !overflowed_) {
      size_ = static_cast<size_t>(PutVarint(data_ + size_, value) - data_);
      return;
    }
    uint8_t bytes[kMaxVarintBytes];
    Append(bytes, static_cast<size_t>(PutVarint(bytes, value) - bytes));
  }
  void Tag(uint32_t field, WireType type) { Varint(field << 3 | type); }
  void Uint(uint32_t field, uint64_t value) {  // 0 is left out
    if (value == 0) return;
    Tag(field, kWireVarint);
    Varint(value);
  }
  void Int(uint32_t field, int64_t value) { Uint(field, static_cast<uint64_t>(value)); }
  void Fixed64(uint32_t field, uint64_t value) {
    Tag(field, kWireFixed64);
    Append(&value, sizeof(value));
  }
  void Bytes(uint32_t field, const void* data, size_t size) {
    Tag(field, kWireLengthDelimited);
    Varint(size);
    Append(data, size);
  }
  void Append(const void* data, size_t size) {
    if (!Room(size)) return;
    if (size != 0) std::memcpy(data_ + size_, data, size);
    size_ += size;
  }

  uint8_t* data() const { return data_; }
  uint8_t* end() const { return data_ + size_; }
  size_t size() const { return size_; }
  size_t capacity() const { return capacity_; }
  size_t room() const { return capacity_ - size_; }
  bool overflowed() const { return overflowed_; }
  // Forgets what was written after `size`, and that it did not fit.
  void CutTo(size_t size) {
    size_ = size;
    overflowed_ = false;
  }
  // Accepts bytes that the caller wrote at end() itself.
  void Advance(uint8_t* new_end) { size_ = static_cast<size_t>(new_end - data_); }

 private:
  bool Room(size_t bytes) {
    if (capacity_ - size_ >= bytes && !overflowed_) return true;
    overflowed_ = true;
    return false;
  }

  uint8_t* data_ = nullptr;
  size_t size_ = 0;
  size_t capacity_ = 0;
  bool overflowed_ = false;
};

}  // namespace gpuprobe::proto

#endif  // GPUPROBE_PROTO_WIRE_H_
