// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// A TraceWriter with memory, hooks and a sink that collects the frames; random records; and the
// text form of records, by lane, in which what was written is compared with what is read.
#ifndef GPUPROBE_TESTS_PROTO_WRITER_HARNESS_H_
#define GPUPROBE_TESTS_PROTO_WRITER_HARNESS_H_

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <random>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "proto/packet_builder.h"
#include "proto/trace_writer.h"

namespace gpuprobe::proto {

inline constexpr int64_t kTestStartNs = 1796036664114978722;  // beyond the exact range of a double

class WriterHarness {
 public:
  explicit WriterHarness(WriterOptions options = DefaultOptions()) : options_(options) {
    memory_ = static_cast<uint8_t*>(
        std::aligned_alloc(4096, (options.memory_bytes + 4095) / 4096 * 4096));
    std::memset(memory_, 0, options.memory_bytes);
    hooks.user = this;
    hooks.write_frame = [](void* user, const uint8_t* data, size_t size) {
      return static_cast<WriterHarness*>(user)->Write(data, size);
    };
    hooks.read_clocks = [](void* user) { return static_cast<WriterHarness*>(user)->clock; };
    hooks.read_name = [](void* user, const char* name, char* out, size_t capacity) -> int64_t {
      auto* self = static_cast<WriterHarness*>(user);
      ++self->names_read;
      if (self->unreadable.count(name) != 0) return -1;
      const size_t size = std::min(std::strlen(name), capacity);
      std::memcpy(out, name, size);
      return static_cast<int64_t>(size);
    };
    hooks.api_name = [](void*, ApiDomain domain, uint32_t cbid,
                        uint32_t* api_class) -> const char* {
      *api_class = cbid % 14;
      if (cbid == 0) return nullptr;
      static std::map<uint64_t, std::string> names;
      std::string& name = names[uint64_t{cbid} * 2 + (domain == ApiDomain::kDriver)];
      name = (domain == ApiDomain::kDriver ? "cuCall" : "cudaCall") + std::to_string(cbid);
      return name.c_str();
    };
    hooks.add_packets = [](void* user, PacketBuilder* out) {
      auto* self = static_cast<WriterHarness*>(user);
      if (self->add_packets) self->add_packets(out);
    };
  }
  ~WriterHarness() { std::free(memory_); }
  WriterHarness(const WriterHarness&) = delete;
  WriterHarness& operator=(const WriterHarness&) = delete;

  static WriterOptions DefaultOptions() {
    WriterOptions options;
    options.file_id = 0x1122334455667788;
    return options;
  }

  bool Init() { return writer.Init(options_, hooks, memory_); }
  // A string that lives as long as the harness.
  const char* Name(const std::string& text) {
    names_.push_back(text);
    return names_.back().c_str();
  }
  std::string File() const {
    std::string file;
    for (const std::string& frame : frames) file += frame;
    return file;
  }

  TraceWriter writer;
  WriterHooks hooks;
  ClockReading clock = {kTestStartNs, 1000, kTestStartNs + 5, kTestStartNs + 1, 40};
  std::function<void(PacketBuilder*)> add_packets;
  std::set<const char*> unreadable;
  bool refuse_frames = false;
  int names_read = 0;
  std::vector<std::string> frames;

 private:
  bool Write(const uint8_t* data, size_t size) {
    if (refuse_frames) {
      errno = ENOSPC;
      return false;
    }
    frames.emplace_back(reinterpret_cast<const char*>(data), size);
    return true;
  }
  WriterOptions options_;
  uint8_t* memory_;
  std::deque<std::string> names_;
};

// Lane -> records in order, each as text.
using RecordLog = std::map<std::string, std::vector<std::string>>;

template <class... Args>
std::string Text(const Args&... args) {
  std::ostringstream out;
  ((out << +args << ' '), ...);
  return out.str();
}
inline std::string Named(const std::string& name) { return '\'' + name + "' "; }

// Random records of all kinds, written and logged at once.
class RandomRecords {
 public:
  RandomRecords(WriterHarness* harness, RecordLog* log, uint32_t seed)
      : h_(harness), log_(log), random_(seed) {
    for (int i = 0; i < 40; ++i) {
      names_.push_back(
          h_->Name("_Z" + std::string(static_cast<size_t>(Below(200)), 'k') + std::to_string(i)));
    }
  }

  void Any() {
    const uint64_t kind = Below(100);
    if (kind < 45) {
      Api();
    } else if (kind < 80) {
      Kernel();
    } else if (kind < 85) {
      Copy();
    } else if (kind < 89) {
      Set();
    } else if (kind < 91) {
      Graph();
    } else if (kind < 95) {
      Sync();
    } else if (kind < 98) {
      CudaEvent();
    } else {
      Overhead();
    }
    now_ += static_cast<int64_t>(Below(5000));
  }

  void Kernel() {
    KernelRecord r = {};
    FillGpu(&r);
    r.name = names_[Below(names_.size())];
    r.grid_x = Id();
    r.grid_y = static_cast<uint32_t>(Below(3));
    r.grid_z = 1;
    r.block_x = static_cast<uint32_t>(Below(1024));
    r.block_y = r.block_z = 1;
    r.cluster_x = static_cast<uint32_t>(Below(2));
    r.static_shared_bytes = static_cast<uint32_t>(Below(2)) * 4096;
    r.dynamic_shared_bytes = static_cast<uint32_t>(Below(2)) * 65536;
    r.shared_executed_bytes = static_cast<uint32_t>(Below(3)) * 1024;
    r.local_bytes_per_thread = static_cast<uint32_t>(Below(2)) * 8;
    r.registers_per_thread = static_cast<uint32_t>(Below(255));
    r.launch_type = static_cast<uint8_t>(Below(4));
    r.device_launched = Below(10) == 0;
    if (r.timing == Timing::kValid && Below(20) == 0) {
      r.queued_ns = r.start_ns - static_cast<int64_t>(Below(1000000));
      if (Below(2) == 0) r.submitted_ns = r.start_ns - static_cast<int64_t>(Below(1000));
    }
    h_->writer.OnKernel(r);
    const int64_t queued = r.queued_ns == 0 ? 0 : r.start_ns - r.queued_ns;
    const int64_t submitted = r.submitted_ns == 0 ? 0 : r.start_ns - r.submitted_ns;
    (*log_)[GpuLane("kernel", r)].push_back(
        GpuText(r) + Named(r.name) +
        Text(r.grid_x, r.grid_y, r.grid_z, r.block_x, r.block_y, r.block_z, r.cluster_x,
             r.cluster_y, r.cluster_z, r.static_shared_bytes, r.dynamic_shared_bytes,
             r.shared_executed_bytes, r.local_bytes_per_thread, r.registers_per_thread,
             r.launch_type, r.device_launched, r.graph_id, r.graph_node_id, queued, submitted));
  }

  void Copy() {
    CopyRecord r = {};
    FillGpu(&r);
    r.copy_kind = static_cast<uint8_t>(Below(11));
    r.src_kind = static_cast<uint8_t>(Below(6));
    r.dst_kind = static_cast<uint8_t>(Below(6));
    r.flags = static_cast<uint8_t>(Below(2));
    r.bytes = Magnitude();
    r.peer = Below(4) == 0;
    r.device_launched = Below(20) == 0;
    r.src_device = r.dst_device = r.src_context = r.dst_context = kInvalidId;
    if (r.peer) {
      r.src_device = static_cast<uint32_t>(Below(8));
      r.dst_device = static_cast<uint32_t>(Below(8));
    }
    h_->writer.OnCopy(r);
    (*log_)[GpuLane("copy", r)].push_back(GpuText(r) + Text(r.copy_kind, r.src_kind, r.dst_kind,
                                                            r.flags, r.peer, r.device_launched,
                                                            r.src_device + 1, r.dst_device + 1,
                                                            r.bytes, r.graph_id, r.graph_node_id));
  }

  void Set() {
    SetRecord r = {};
    FillGpu(&r);
    r.memory_kind = static_cast<uint8_t>(Below(6));
    r.flags = static_cast<uint8_t>(Below(2));
    r.bytes = Magnitude();
    r.value = Id();
    h_->writer.OnSet(r);
    (*log_)[GpuLane("set", r)].push_back(
        GpuText(r) + Text(r.memory_kind, r.flags, r.bytes, r.value, r.graph_id, r.graph_node_id));
  }

  void Graph() {
    GraphRecord r = {};
    FillTimes(&r);
    r.graph_id = Id();
    r.end_device = kInvalidId;
    h_->writer.OnGraph(r);
    (*log_)[GpuLane("graph", r)].push_back(GpuText(r) + Text(r.graph_id));
  }

  void Api() {
    ApiRecord r = {};
    r.start_ns = now_;
    r.end_ns = now_ + static_cast<int64_t>(Magnitude() % 10000000);
    r.domain = Below(5) == 0 ? ApiDomain::kDriver : ApiDomain::kRuntime;
    r.cbid = static_cast<uint32_t>(Below(60));
    r.process = 17;
    r.thread = 1000 + static_cast<uint32_t>(Below(5));
    r.correlation = Id();
    r.result = Below(10) == 0 ? static_cast<int32_t>(Below(2000)) - 1000 : 0;
    h_->writer.OnApi(r);
    uint32_t api_class;
    const char* name = h_->hooks.api_name(h_, r.domain, r.cbid, &api_class);
    (*log_)["api " + Text(r.thread)].push_back(
        Text(r.start_ns, r.end_ns, r.correlation) + Named(name == nullptr ? "" : name) +
        Text(static_cast<uint32_t>(r.domain), r.cbid, api_class, r.result));
  }

  void Sync() {
    SyncRecord r = {};
    r.start_ns = now_;
    r.end_ns = now_ + static_cast<int64_t>(Magnitude() % 10000000);
    r.type = static_cast<uint8_t>(1 + Below(4));
    r.context = Below(8) == 0 ? kInvalidId : 1;
    r.stream = Below(3) == 0 ? kInvalidId : Id();
    r.event = Below(3) == 0 ? kInvalidId : Id();
    r.correlation = Id();
    r.event_sync_id = Below(2) == 0 ? 0 : Magnitude();
    r.result = Below(10) == 0 ? 600 : 0;
    h_->writer.OnSync(r);
    (*log_)["sync"].push_back(Text(r.start_ns, r.end_ns, r.correlation, r.type, r.context + 1,
                                   r.stream + 1, r.event + 1, r.event_sync_id, r.result));
  }

  void CudaEvent() {
    CudaEventRecord r = {1, Below(4) == 0 ? kInvalidId : Id(), Id(), Id(),
                         Below(2) == 0 ? 0 : Magnitude()};
    h_->writer.OnCudaEvent(r);
    (*log_)["event"].push_back(
        Text(r.correlation, r.context, r.stream + 1, r.event, r.event_sync_id));
  }

  void Overhead() {
    OverheadRecord r = {};
    r.start_ns = now_;
    r.end_ns = now_ + static_cast<int64_t>(Magnitude() % 10000000);
    r.kind = 1u << (16 + Below(3));
    r.object_kind = static_cast<uint8_t>(1 + Below(5));
    r.device = r.context = r.stream = kInvalidId;
    if (r.object_kind >= 3) {
      r.device = static_cast<uint32_t>(Below(2));
      r.context = 1;
      r.stream = Id();
    } else {
      r.thread = Id();
    }
    r.correlation = Id();
    h_->writer.OnOverhead(r);
    (*log_)["overhead"].push_back(Text(r.start_ns, r.end_ns, r.correlation, r.kind, r.object_kind,
                                       r.thread, r.device + 1, r.context + 1, r.stream + 1));
  }

  uint64_t Below(uint64_t n) { return random_() % n; }

 private:
  // Mostly small, sometimes any 32-bit value but kInvalidId.
  uint32_t Id() { return static_cast<uint32_t>(Below(8) == 0 ? Below(kInvalidId) : Below(300)); }
  uint64_t Magnitude() { return random_() >> Below(64); }

  template <class R>
  void FillTimes(R* r) {
    r->start_ns = now_ + static_cast<int64_t>(Below(1000));
    r->end_ns = r->start_ns + static_cast<int64_t>(Magnitude() % 100000000);
    const uint64_t timing = Below(30);
    if (timing == 0) {
      r->timing = Timing::kMissing;
      r->start_ns = r->end_ns = 0;
    } else if (timing == 1) {
      r->timing = Timing::kUnfinished;
      r->end_ns = 0;
    } else if (timing == 2) {
      r->timing = Timing::kInvalid;
      r->start_ns = INT64_MIN;
      r->end_ns = -1;
    }
    r->device = static_cast<uint32_t>(Below(2));
    r->context = 1 + r->device;
    r->stream = 7 + static_cast<uint32_t>(Below(4));
    r->correlation = Id();
  }
  template <class R>
  void FillGpu(R* r) {
    FillTimes(r);
    if (Below(15) == 0) {
      r->graph_id = Id();
      r->graph_node_id = Magnitude();
    }
  }
  template <class R>
  static std::string GpuLane(const char* kind, const R& r) {
    return kind + (' ' + Text(r.device, r.context, r.stream, static_cast<int>(r.timing)));
  }
  template <class R>
  static std::string GpuText(const R& r) {
    switch (r.timing) {
      case Timing::kValid:
        return Text(r.start_ns, r.end_ns, r.correlation);
      case Timing::kUnfinished:
        return Text(r.start_ns, r.start_ns, r.correlation);
      default:
        return Text(0, 0, r.correlation);
    }
  }

  WriterHarness* h_;
  RecordLog* log_;
  std::mt19937_64 random_;
  std::vector<const char*> names_;
  int64_t now_ = kTestStartNs;
};

}  // namespace gpuprobe::proto

#endif  // GPUPROBE_TESTS_PROTO_WRITER_HARNESS_H_
