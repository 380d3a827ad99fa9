// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// A hash table for keys of a few integers that are looked up once a record: open addressing, no
// node on the heap, no division. Entries are never removed.
#ifndef GPUPROBE_TOOLS_TIMELINE_FLAT_MAP_H_
#define GPUPROBE_TOOLS_TIMELINE_FLAT_MAP_H_

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace gpuprobe::tools {

// Mixes so that the low bits depend on every bit of both, and equal ones do not cancel each other.
inline uint64_t MixBits(uint64_t seed, uint64_t value) {
  seed = (seed * 0xff51afd7ed558ccdu ^ value) * 0x9e3779b97f4a7c15u;
  return seed ^ seed >> 32;
}

// Key: copyable, with == and `uint64_t Hash() const`. Value: default-constructible.
template <typename Key, typename Value>
class FlatMap {
 public:
  // The value of `key`, default-constructed where it is new; valid until the next call.
  std::pair<Value*, bool> FindOrAdd(const Key& key) {
    if ((size_ + 1) * 2 > slots_.size()) Grow();
    Slot& slot = slots_[PositionOf(key)];
    const bool is_new = !slot.used;
    if (is_new) {
      slot = {key, Value(), true};
      ++size_;
    }
    return {&slot.value, is_new};
  }

  // Null: not there.
  const Value* Find(const Key& key) const {
    if (slots_.empty()) return nullptr;
    const Slot& slot = slots_[PositionOf(key)];
    return slot.used ? &slot.value : nullptr;
  }

  size_t size() const { return size_; }

  template <typename F>  // f(key, value), in no order
  void ForEach(F f) const {
    for (const Slot& slot : slots_) {
      if (slot.used) f(slot.key, slot.value);
    }
  }

 private:
  struct Slot {
    Key key;
    Value value;
    bool used = false;
  };

  size_t PositionOf(const Key& key) const {  // of its slot, or the free one for it
    const size_t mask = slots_.size() - 1;
    size_t at = static_cast<size_t>(key.Hash()) & mask;
    while (slots_[at].used && !(slots_[at].key == key)) at = (at + 1) & mask;
    return at;
  }

  void Grow() {
    constexpr size_t kFewest = 64;
    std::vector<Slot> old(slots_.empty() ? kFewest : slots_.size() * 2);
    old.swap(slots_);
    for (Slot& slot : old) {
      if (slot.used) slots_[PositionOf(slot.key)] = std::move(slot);
    }
  }

  std::vector<Slot> slots_;  // a power of two
  size_t size_ = 0;
};

}  // namespace gpuprobe::tools

#endif  // GPUPROBE_TOOLS_TIMELINE_FLAT_MAP_H_
