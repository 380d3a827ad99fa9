// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// The `where` texts of the analyses. A place is named by what it is and up to three numbers, so
// that ten million gap parts cost one hash look-up each and a text is made once. Ids follow the
// order of first use: the same input gives the same ids.
#ifndef GPUPROBE_TOOLS_ATTRIBUTION_PLACES_H_
#define GPUPROBE_TOOLS_ATTRIBUTION_PLACES_H_

#include <cstdint>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "tools/timeline/flat_map.h"
#include "tools/timeline/timeline.h"

namespace gpuprobe::tools {

class Places {
 public:
  enum class Kind : uint8_t {
    kCall,           // a symbol, b thread, c its CopyHow()
    kBlockedCall,    // a symbol, b thread: a submission that did not return as submissions do
    kBetween,        // a thread: between two submissions
    kOutside,        // a thread: outside CUDA
    kOverhead,       // a kind, b thread or -1
    kLoadingInCall,  // a overhead kind, b symbol, c thread
    kGraphNodes,
    kGraphFloor,
    kOneCall,
    kQueued,
    kStreamWait,    // a waiting stream, b stream waited for or -1
    kHostFunction,  // a thread
    kOtherProcess,  // a process
    kStart,
    kEnd,
    kNoLaunch,
    kClocks,
    kUntimed,
  };

  explicit Places(const Timeline& timeline) : timeline_(&timeline) {}
  // Of a run that is read in windows: where the window's records are from now on.
  void ReadFrom(const Timeline& timeline) { timeline_ = &timeline; }

  int32_t Id(Kind kind, int32_t a = -1, int32_t b = -1, int32_t c = -1);
  int32_t OfText(const std::string& text);  // a place that has no other name: who made us blind

  // "thread 4711 python"; with the pid where the timeline has several processes.
  std::string ThreadText(int32_t thread) const;

  const std::vector<std::string>& texts() const { return texts_; }
  std::vector<std::string> TakeTexts() { return std::move(texts_); }

  // How an operation copies, packed for Id(): direction and whether the host side is pageable. -1:
  // `op` is -1 or no copy.
  int32_t CopyHow(int32_t op) const;
  static std::string CopyText(int32_t how);  // "DtoH, pageable"

 private:
  struct Key {
    Kind kind;
    int32_t a, b, c;
    bool operator==(const Key&) const = default;
    uint64_t Hash() const {
      return MixBits(MixBits(static_cast<uint64_t>(static_cast<uint32_t>(a)) << 8 |
                                 static_cast<uint64_t>(kind),
                             static_cast<uint64_t>(static_cast<uint32_t>(b)) << 40),
                     static_cast<uint32_t>(c));
    }
  };

  std::string TextOf(const Key& key) const;
  std::string SymbolText(int32_t symbol) const;
  std::string StreamText(int32_t stream) const;

  const Timeline* timeline_;
  std::vector<std::string> texts_;
  FlatMap<Key, int32_t> by_key_;
  std::unordered_map<std::string, int32_t> by_text_;
};

// "CUPTI buffer flush" for a CUpti_ActivityOverheadKind.
std::string OverheadText(uint32_t kind);

}  // namespace gpuprobe::tools

#endif  // GPUPROBE_TOOLS_ATTRIBUTION_PLACES_H_
