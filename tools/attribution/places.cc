// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "tools/attribution/places.h"

#include <iterator>

#include "tools/timeline/device_number.h"
#include "tools/timeline/host_view.h"

namespace gpuprobe::tools {

int32_t Places::Id(Kind kind, int32_t a, int32_t b, int32_t c) {
  const Key key{kind, a, b, c};
  const auto [id, is_new] = by_key_.FindOrAdd(key);
  if (is_new) *id = OfText(TextOf(key));
  return *id;
}

int32_t Places::OfText(const std::string& text) {
  const auto [entry, is_new] = by_text_.emplace(text, static_cast<int32_t>(texts_.size()));
  if (is_new) texts_.push_back(text);
  return entry->second;
}

std::string Places::SymbolText(int32_t symbol) const {
  return symbol < 0 ? "unknown call" : timeline_->symbols[symbol].name;
}

std::string Places::ThreadText(int32_t thread) const {
  if (thread < 0) return "unknown thread";
  const Thread& t = timeline_->threads[thread];
  std::string text;
  if (t.process >= 0 &&
      (timeline_->processes[t.process].sampled_only || TracedProcesses(*timeline_) > 1)) {
    text = "pid " + std::to_string(timeline_->processes[t.process].pid) + ", ";
  }
  text += "thread " + std::to_string(t.tid);
  if (!t.name.empty()) text += " " + t.name;
  return text;
}

std::string Places::StreamText(int32_t stream) const {
  const Stream& s = timeline_->streams[stream];
  std::string text = s.null_stream ? "the default stream" : "stream " + std::to_string(s.stream);
  if (timeline_->devices.size() > 1 && s.device >= 0) {
    text += " of GPU " + std::to_string(DeviceNumber(*timeline_, s.device));
  }
  return text;
}

int32_t Places::CopyHow(int32_t op) const {
  if (op < 0 || timeline_->ops[op].kind != OpKind::kCopy) return -1;
  const GpuOp& copy = timeline_->ops[op];
  const int32_t direction = copy.shape < 0 ? 0 : timeline_->copy_shapes[copy.shape].copy_kind;
  return direction * 2 + (IsPageableCopy(*timeline_, copy) ? 1 : 0);
}

std::string Places::CopyText(int32_t how) {
  // CUpti_ActivityMemcpyKind, from 1 on.
  static constexpr const char* kDirections[] = {"",     "HtoD", "DtoH", "HtoA", "AtoH", "AtoA",
                                                "AtoD", "DtoA", "DtoD", "HtoH", "PtoP"};
  const uint32_t kind = static_cast<uint32_t>(how) / 2;
  std::string text = kind < std::size(kDirections) ? kDirections[kind] : "";
  if (how % 2 == 0) return text;
  return text.empty() ? "pageable" : text + ", pageable";
}

std::string OverheadText(uint32_t kind) {
  switch (kind) {
    case 0:
      return "overhead of the profiler";
    case 1:
      return "driver compiler (JIT)";
    case 1u << 16:
      return "CUPTI buffer flush";
    case 2u << 16:
      return "CUPTI instrumentation";
    case 3u << 16:
      return "CUPTI resource creation";
    case 4u << 16:
      return "module loading";
    case 5u << 16:
      return "lazy function loading";
    case 6u << 16:
      return "command buffer full";
    case 7u << 16:
      return "CUPTI buffer request";
    case 8u << 16:
      return "CUPTI unified memory set-up";
    default:
      return "CUPTI overhead of kind " + std::to_string(kind);
  }
}

std::string Places::TextOf(const Key& key) const {
  const auto by_thread = [&](const std::string& what, int32_t thread) {
    return what + " (" + ThreadText(thread) + ")";
  };
  switch (key.kind) {
    case Kind::kCall: {
      const std::string how = key.c < 0 ? "" : CopyText(key.c);
      return by_thread(SymbolText(key.a) + (how.empty() ? "" : " " + how), key.b);
    }
    case Kind::kBlockedCall:
      return by_thread(SymbolText(key.a) + ", blocked", key.b);
    case Kind::kBetween:
      return by_thread("between submissions", key.a);
    case Kind::kOutside:
      return by_thread("outside CUDA", key.a);
    case Kind::kOverhead: {
      const std::string what = OverheadText(static_cast<uint32_t>(key.a));
      return key.b < 0 ? what : by_thread(what, key.b);
    }
    case Kind::kLoadingInCall: {
      const std::string what = OverheadText(static_cast<uint32_t>(key.a));
      return by_thread(key.b < 0 ? what : what + " in " + SymbolText(key.b), key.c);
    }
    case Kind::kGraphNodes:
      return "between nodes of one graph launch";
    case Kind::kGraphFloor:
      return "node-level graph tracing (no longer than what it adds)";
    case Kind::kOneCall:
      return "between operations of one call";
    case Kind::kQueued:
      return "queued, nothing to wait for";
    case Kind::kStreamWait:
      return StreamText(key.a) + " waited for " + (key.b < 0 ? "an event" : StreamText(key.b));
    case Kind::kHostFunction:
      return by_thread("host function on the stream", key.a);
    case Kind::kOtherProcess: {
      const Process& process = timeline_->processes[key.a];
      const size_t slash = process.executable.rfind('/');
      const std::string name =
          slash == std::string::npos ? process.executable : process.executable.substr(slash + 1);
      return "pid " + std::to_string(process.pid) + (name.empty() ? "" : " " + name);
    }
    case Kind::kStart:
      return "before the first GPU operation";
    case Kind::kEnd:
      return "after the last GPU operation";
    case Kind::kNoLaunch:
      return "launch call not recorded";
    case Kind::kClocks:
      return "launch call recorded after its operation (clocks disagree)";
    case Kind::kUntimed:
      return "GPU work whose times could not be collected";
  }
  return "";
}

}  // namespace gpuprobe::tools
