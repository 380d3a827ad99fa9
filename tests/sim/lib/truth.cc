// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "tests/sim/lib/truth.h"

#include <inttypes.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <utility>

#include "tests/sim/lib/clock.h"
#include "tests/sim/lib/settings.h"

namespace gpuprobe::sim {
namespace {

// A client that polls (cuptiGetTimestamp twice a second, flushes) may run for hours: the list keeps
// the beginning, the counts keep everything.
constexpr size_t kMaxCuptiCalls = 8192;
constexpr size_t kMaxViolations = 1000;

const char* KindName(OpKind kind) {
  switch (kind) {
    case OpKind::kKernel:
      return "kernel";
    case OpKind::kCopy:
      return "copy";
    case OpKind::kPeerCopy:
      return "peer_copy";
    case OpKind::kSet:
      return "set";
    case OpKind::kGraph:
      return "graph";
    case OpKind::kHostFunction:
      return "host_function";
  }
  return "?";
}

std::string Quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    const unsigned char u = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') out += '\\';
    if (u >= 0x20 && u < 0x7f) {
      out += c;
    } else {  // also non-UTF-8 names: the JSON stays valid
      char escape[8];
      snprintf(escape, sizeof escape, "\\u%04x", u);
      out += escape;
    }
  }
  return out + '"';
}

std::string ExpandPid(const char* pattern) {
  std::string path = pattern;
  const size_t at = path.find("%p");
  if (at != std::string::npos) path.replace(at, 2, std::to_string(getpid()));
  return path;
}

int64_t SignedId(uint32_t id) { return id == kNoId ? -1 : static_cast<int64_t>(id); }

}  // namespace

uint32_t ThreadId() {
  static thread_local uint32_t tid = static_cast<uint32_t>(gettid());
  return tid;
}

Truth& Truth::Get() {
  static Truth* truth = new Truth;  // never destroyed: CUDA calls come from static destructors too
  return *truth;
}

Truth::Truth() {
  const char* path = getenv("GPUSIM_TRUTH");
  if (path != nullptr && *path != '\0') path_ = path;
  detailed_ = !path_.empty() || getenv("GPUSIM_TRUTH_DETAIL") != nullptr;
}

void Truth::Own() { owner_ = getpid(); }

void Truth::Op(const GpuOp& op) {
  ops_[static_cast<size_t>(op.kind)].fetch_add(1, std::memory_order_relaxed);
  if (!detailed_) return;
  std::lock_guard<std::mutex> lock(mu_);
  op_list_.push_back(op);
}

void Truth::Api(const ApiCall& call, uint32_t thread) {
  api_calls_.fetch_add(1, std::memory_order_relaxed);
  if (!detailed_) return;
  std::lock_guard<std::mutex> lock(mu_);
  api_list_.emplace_back(call, thread);
}

void Truth::Wait(const WaitTruth& wait) {
  if (!detailed_) return;
  std::lock_guard<std::mutex> lock(mu_);
  wait_list_.push_back(wait);
}

void Truth::Violation(std::string text) {
  violation_count_.fetch_add(1, std::memory_order_relaxed);
  std::lock_guard<std::mutex> lock(mu_);
  if (violation_list_.size() < kMaxViolations) {
    violation_list_.push_back(
        new std::string(std::move(text)));  // violation() hands out its characters
  }
}

void Truth::CuptiCall(const char* name, int64_t argument, int result) {
  std::lock_guard<std::mutex> lock(mu_);
  ++cupti_counts_[name];
  if (cupti_list_.size() < kMaxCuptiCalls) {
    cupti_list_.push_back({name, argument, result, Clock::Get().Now(), ThreadId()});
  }
}

void Truth::Records(Tally tally, uint32_t kind, uint64_t n) {
  const int64_t add = static_cast<int64_t>(n);
  tallies_[static_cast<size_t>(tally)].fetch_add(add, std::memory_order_relaxed);
  const uint32_t slot = kind < kMaxRecordKind ? kind : kMaxRecordKind - 1;
  if (tally == Tally::kRecordEmitted) emitted_[slot].fetch_add(add, std::memory_order_relaxed);
  if (tally == Tally::kRecordDropped) dropped_[slot].fetch_add(add, std::memory_order_relaxed);
  if (tally == Tally::kRecordDelivered) delivered_[slot].fetch_add(add, std::memory_order_relaxed);
  // A client that flushes in its destructor may do so after ours: the file then has to be brought
  // up to date.
  if (tally == Tally::kBufferCompleted && exiting_) WriteAtExit();
}

const char* Truth::violation(int64_t i) const {
  std::lock_guard<std::mutex> lock(mu_);
  return i >= 0 && i < static_cast<int64_t>(violation_list_.size()) ? violation_list_[i]->c_str()
                                                                    : nullptr;
}

int64_t Truth::Count(std::string_view what) const {
  const auto op = [this](OpKind kind) { return ops_[static_cast<size_t>(kind)].load(); };
  const auto tally = [this](Tally t) { return tallies_[static_cast<size_t>(t)].load(); };
  if (what == "kernels") return op(OpKind::kKernel);
  if (what == "copies") return op(OpKind::kCopy) + op(OpKind::kPeerCopy);
  if (what == "sets") return op(OpKind::kSet);
  if (what == "graphs") return op(OpKind::kGraph);
  if (what == "api_calls") return api_calls_;
  if (what == "violations") return violation_count_;
  if (what == "records_emitted") return tally(Tally::kRecordEmitted);
  if (what == "records_delivered") return tally(Tally::kRecordDelivered);
  if (what == "records_dropped") return tally(Tally::kRecordDropped);
  if (what == "records_unfinished") return tally(Tally::kRecordUnfinished);
  if (what == "buffers_requested") return tally(Tally::kBufferRequested);
  if (what == "buffers_refused") return tally(Tally::kBufferRefused);
  if (what == "buffers_completed") return tally(Tally::kBufferCompleted);
  if (!what.starts_with("cupti")) return -1;
  std::lock_guard<std::mutex> lock(mu_);
  const auto it = cupti_counts_.find(what);
  return it == cupti_counts_.end() ? 0 : it->second;
}

int Truth::Write(const char* path) {
  if (path == nullptr && path_.empty()) return -1;
  const std::string target = ExpandPid(path != nullptr ? path : path_.c_str());
  const std::string temporary = target + ".tmp";  // readers never see half a file
  FILE* out = fopen(temporary.c_str(), "we");
  if (out == nullptr) return -1;
  {
    std::lock_guard<std::mutex> lock(mu_);
    WriteJson(out);
  }
  const bool failed = ferror(out) != 0;
  if (fclose(out) != 0 || failed) return -1;
  return rename(temporary.c_str(), target.c_str()) == 0 ? 0 : -1;
}

void Truth::WriteAtExit() {
  if (owner_ != getpid() || path_.empty()) return;
  exiting_ = true;
  Write(nullptr);
}

void Truth::WriteJson(FILE* out) const {
  fprintf(out,
          "{\"schema\":\"gpusim.truth/1\",\"pid\":%d,\"clock\":\"%s\",\"time_ns\":%" PRId64 ",\n",
          getpid(), Clock::Get().is_virtual() ? "virtual" : "real", Clock::Get().Now());
  fprintf(out, "\"ops\":[");
  const char* comma = "\n";
  for (const GpuOp& op : op_list_) {
    fprintf(out,
            "%s{\"kind\":\"%s\",\"device\":%u,\"context\":%u,\"stream\":%u,\"correlation\":%u,"
            "\"thread\":%u,\"queued\":%" PRId64 ",\"submitted\":%" PRId64 ",\"start\":%" PRId64
            ",\"end\":%" PRId64 ",\"bytes\":%" PRIu64
            ",\"name\":%s,\"copy_kind\":%u,\"src_kind\":%u,"
            "\"dst_kind\":%u,\"async\":%s,\"graph\":%u,\"graph_node\":%" PRIu64
            ",\"src_device\":%" PRId64 ",\"dst_device\":%" PRId64 "}",
            comma, KindName(op.kind), op.device, op.context, op.stream, op.correlation, op.thread,
            op.queued_ns, op.submitted_ns, op.start_ns, op.end_ns, op.bytes,
            op.name != nullptr ? Quoted(op.name).c_str() : "null", op.copy_kind, op.src_kind,
            op.dst_kind, op.asynchronous ? "true" : "false", op.graph_id, op.graph_node_id,
            SignedId(op.src_device), SignedId(op.dst_device));
    comma = ",\n";
  }
  fprintf(out, "],\n\"api\":[");
  comma = "\n";
  for (const auto& [call, thread] : api_list_) {
    fprintf(out,
            "%s{\"domain\":\"%s\",\"name\":%s,\"cbid\":%u,\"thread\":%u,\"start\":%" PRId64
            ",\"end\":%" PRId64 ",\"correlation\":%u,\"result\":%d,\"nested\":%s}",
            comma, call.domain == Domain::kRuntime ? "runtime" : "driver",
            Quoted(WithoutVersion(call.name)).c_str(), call.cbid, thread, call.start_ns,
            call.end_ns, call.correlation, call.result, call.outer != nullptr ? "true" : "false");
    comma = ",\n";
  }
  fprintf(out, "],\n\"waits\":[");
  comma = "\n";
  for (const WaitTruth& w : wait_list_) {
    fprintf(out,
            "%s{\"type\":\"%s\",\"context\":%u,\"stream\":%" PRId64 ",\"event\":%" PRId64
            ",\"thread\":%u,\"correlation\":%u,\"start\":%" PRId64 ",\"end\":%" PRId64 "}",
            comma, w.type, w.context, SignedId(w.stream), SignedId(w.event), w.thread,
            w.correlation, w.start_ns, w.end_ns);
    comma = ",\n";
  }
  fprintf(out, "],\n\"cupti_calls\":[");
  comma = "\n";
  for (const CuptiCallTruth& c : cupti_list_) {
    fprintf(out,
            "%s{\"name\":%s,\"argument\":%" PRId64 ",\"result\":%d,\"time\":%" PRId64
            ",\"thread\":%u}",
            comma, Quoted(c.name).c_str(), c.argument, c.result, c.time_ns, c.thread);
    comma = ",\n";
  }
  fprintf(out, "],\n\"violations\":[");
  comma = "\n";
  for (const std::string* v : violation_list_) {
    fprintf(out, "%s%s", comma, Quoted(*v).c_str());
    comma = ",\n";
  }
  fprintf(out, "],\n");
  WriteCounts(out);
  fprintf(out, "}\n");
}

void Truth::WriteCounts(FILE* out) const {
  const auto tally = [this](Tally t) { return tallies_[static_cast<size_t>(t)].load(); };
  fprintf(out,
          "\"counts\":{\"kernels\":%" PRId64 ",\"copies\":%" PRId64 ",\"peer_copies\":%" PRId64
          ",\"sets\":%" PRId64 ",\"graphs\":%" PRId64 ",\"host_functions\":%" PRId64
          ",\"api_calls\":%" PRId64 ",\"violations\":%" PRId64 ",\n",
          ops_[0].load(), ops_[1].load(), ops_[2].load(), ops_[3].load(), ops_[4].load(),
          ops_[5].load(), api_calls_.load(), violation_count_.load());
  fprintf(out,
          "\"records_emitted\":%" PRId64 ",\"records_delivered\":%" PRId64
          ",\"records_dropped\":%" PRId64 ",\"records_unfinished\":%" PRId64
          ",\"buffers_requested\":%" PRId64 ",\"buffers_refused\":%" PRId64
          ",\"buffers_completed\":%" PRId64 "},\n\"records_by_kind\":{",
          tally(Tally::kRecordEmitted), tally(Tally::kRecordDelivered),
          tally(Tally::kRecordDropped), tally(Tally::kRecordUnfinished),
          tally(Tally::kBufferRequested), tally(Tally::kBufferRefused),
          tally(Tally::kBufferCompleted));
  const char* comma = "";
  for (uint32_t kind = 0; kind < kMaxRecordKind; ++kind) {
    if (emitted_[kind] + delivered_[kind] + dropped_[kind] == 0) continue;
    fprintf(out,
            "%s\"%u\":{\"emitted\":%" PRId64 ",\"delivered\":%" PRId64 ",\"dropped\":%" PRId64 "}",
            comma, kind, emitted_[kind].load(), delivered_[kind].load(), dropped_[kind].load());
    comma = ",";
  }
  fprintf(out, "},\n\"cupti_call_counts\":{");
  comma = "";
  for (const auto& [name, n] : cupti_counts_) {
    fprintf(out, "%s%s:%" PRId64, comma, Quoted(name).c_str(), n);
    comma = ",";
  }
  fprintf(out, "}");
}

}  // namespace gpuprobe::sim
