// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "tests/tools/trace_maker.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>

namespace gpuprobe::tools {
namespace {

constexpr size_t kMemoryBytes = 20u << 20;

[[noreturn]] void Give(const char* what) {
  std::fprintf(stderr, "trace_maker: %s\n", what);
  std::abort();
}

}  // namespace

TraceMaker::TraceMaker(MadeProcess process)
    : process_(std::move(process)), now_ns_(process_.begin_ns) {
  memory_ = std::aligned_alloc(4096, kMemoryBytes);
  std::memset(memory_, 0, kMemoryBytes);
  proto::WriterHooks hooks;
  hooks.user = this;
  hooks.write_frame = [](void* user, const uint8_t* data, size_t size) {
    auto* self = static_cast<TraceMaker*>(user);
    self->frames_.push_back(self->bytes_.size());
    self->bytes_.append(reinterpret_cast<const char*>(data), size);
    return true;
  };
  hooks.read_clocks = [](void* user) {
    auto* self = static_cast<TraceMaker*>(user);
    return proto::ClockReading{self->now_ns_,
                               self->now_ns_ - self->process_.trace_minus_monotonic_ns,
                               self->now_ns_ + 5, self->now_ns_ + 7, 60};
  };
  hooks.read_name = [](void*, const char* name, char* out, size_t capacity) {
    const size_t size = std::min(std::strlen(name), capacity);
    std::memcpy(out, name, size);
    return static_cast<int64_t>(size);
  };
  hooks.api_name = [](void* user, ApiDomain domain, uint32_t cbid, uint32_t* api_class) {
    auto* self = static_cast<TraceMaker*>(user);
    const auto& symbol = self->symbols_.at({domain, cbid});
    *api_class = symbol.second;
    return symbol.first.c_str();
  };
  hooks.add_packets = [](void* user, proto::PacketBuilder* out) {
    static_cast<TraceMaker*>(user)->AddPackets(out);
  };
  proto::WriterOptions options;
  options.memory_bytes = kMemoryBytes;
  options.file_id = process_.file_id;
  if (!writer_.Init(options, hooks, memory_)) Give("the writer refuses its options");
}

TraceMaker::~TraceMaker() { std::free(memory_); }

// Field numbers: gpuprobe.proto.
void TraceMaker::AddPackets(proto::PacketBuilder* out) {
  out->BeginPacket(16);  // ProcessInfo
  out->AddUint(1, process_.pid);
  out->AddUint(2, process_.parent_pid);
  out->AddString(3, process_.host.c_str());
  out->AddString(4, process_.boot_id.c_str());
  out->AddInt(5, process_.begin_ns);
  out->AddString(6, process_.executable.c_str());
  for (const std::string& word : process_.command_line) out->AddString(7, word.c_str());
  out->AddInt(9, process_.rank);
  out->AddInt(10, -1);
  out->AddUint(13, process_.start_ticks);
  out->EndPacket();
  out->BeginPacket(22);  // ThreadInfo
  out->AddUint(1, process_.pid);
  out->AddString(2, "python");
  out->AddUint(3, 1);
  out->EndPacket();
  if (process_.with_capture) {
    out->BeginPacket(17);  // CaptureInfo
    out->AddString(1, "0.1.0");
    out->AddString(2, "preload");
    out->AddString(3, "/usr/local/cuda/lib64/libcupti.so.13");
    out->AddUint(4, 130001);
    out->AddInt(5, 13000);
    const std::pair<const char*, const char*> settings[] = {{"GPUPROBE_FLUSH_MS", "500"},
                                                            {"GPUPROBE_GRAPHS", "node"}};
    for (const auto& [name, value] : settings) {
      out->BeginMessage(6);
      out->AddString(1, name);
      out->AddString(2, value);
      out->AddUint(3, std::strcmp(value, "500") == 0);
      out->EndMessage();
    }
    const std::pair<const char*, int32_t> kinds[] = {
        {"CONCURRENT_KERNEL", process_.kernel_kind_result},
        {"MEMCPY", 0},
        {"RUNTIME", 0},
        {"SYNCHRONIZATION", 0}};
    for (const auto& [name, result] : kinds) {
      out->BeginMessage(7);
      out->AddString(1, name);
      out->AddInt(2, result);
      out->EndMessage();
    }
    out->AddString(9, process_.off_reason.c_str());
    out->EndPacket();
  }
  out->BeginPacket(20);  // Cost
  out->AddUint(1, 3'000'000);
  out->AddUint(2, 100);
  out->AddUint(4, 450);
  out->AddUint(5, 2);
  out->AddUint(7, 2);
  out->AddUint(8, 64u << 20);
  out->AddUint(9, 3);
  out->AddUint(10, 1'500'000);
  out->AddUint(11, 900'000);
  out->EndPacket();
  AddSamplerPackets(out);
}

void TraceMaker::AddSamplerPackets(proto::PacketBuilder* out) {
  for (const std::string& piece : pieces_) {
    if (!out->AddSerializedPacket(23, piece.data(), piece.size())) Give("a piece was refused");
  }
  pieces_.clear();
  if (usage_.wall_ns == 0) return;
  out->BeginPacket(24);
  out->AddInt(1, usage_.wall_ns);
  out->AddInt(2, usage_.user_cpu_ns);
  out->AddInt(3, usage_.system_cpu_ns);
  out->AddInt(4, usage_.children_cpu_ns);
  out->EndPacket();
}

PieceMaker::PieceMaker(int64_t begin_ns) {
  memory_ = std::aligned_alloc(64, proto::SampleEncoder::kMemoryBytes);
  std::memset(memory_, 0, proto::SampleEncoder::kMemoryBytes);
  encoder_.Init(memory_);
  encoder_.Begin(begin_ns);
}

PieceMaker::~PieceMaker() { std::free(memory_); }

void PieceMaker::Process(const proto::SampledProcessFacts& facts) {
  if (!encoder_.AddProcess(facts)) Give("a process was refused");
}

uint32_t PieceMaker::Stack(std::initializer_list<std::string_view> innermost_first) {
  std::vector<uint32_t> frames;
  for (const std::string_view frame : innermost_first) {
    const auto known = locations_.try_emplace(std::string(frame), locations_.size() + 1).first;
    const size_t native = frame.rfind("+0x");
    if (native != std::string_view::npos) {
      const std::string offset(frame.substr(native + 1));
      frames.push_back(encoder_.AddLocation(known->second, 0, Text(frame.substr(0, native)), 0,
                                            std::strtoull(offset.c_str(), nullptr, 16), 1));
      continue;
    }
    const size_t space = frame.find(' '), colon = frame.rfind(':', space);
    const std::string line(frame.substr(colon + 1, space - colon - 1));
    frames.push_back(encoder_.AddLocation(known->second, Text(frame.substr(space + 1)),
                                          Text(frame.substr(0, colon)),
                                          static_cast<uint32_t>(std::atoi(line.c_str())), 0, 0));
  }
  return encoder_.InternStack(frames.data(), frames.size());
}

void PieceMaker::Sample(uint32_t pid, uint32_t tid, const proto::SampleRecord& sample) {
  if (!encoder_.AddSample(pid, tid, sample)) Give("a sample was refused");
}

void PieceMaker::NameThread(uint32_t pid, uint32_t tid, const std::string& name, bool main) {
  encoder_.NameThread(pid, tid, name, main);
}

void PieceMaker::Module(std::string_view path, std::string_view build_id) {
  if (!encoder_.AddModule(Text(path), build_id.data(), build_id.size())) {
    Give("a module was refused");
  }
}

std::string PieceMaker::Seal(int64_t end_ns, const proto::SamplerTotals& totals) {
  std::string out(proto::SampleEncoder::kMaxSealedBytes, '\0');
  const size_t size =
      encoder_.Seal(end_ns, totals, reinterpret_cast<uint8_t*>(out.data()), out.size());
  if (size == 0) Give("a piece does not fit");
  out.resize(size);
  return out;
}

void TraceMaker::Advance(int64_t to_ns) {
  if (!clock_held_) now_ns_ = std::max(now_ns_, to_ns);
}

void TraceMaker::Device(uint32_t device, uint8_t uuid, const std::string& name) {
  DeviceRecord r = {};
  r.device = device;
  std::memset(r.uuid, uuid, sizeof r.uuid);
  r.name = Keep(name);
  r.memory_bytes = uint64_t{141} << 30;
  r.sm_count = 132;
  writer_.OnDevice(r);
  writer_.OnContext({1 + device, device, 7});
}

void TraceMaker::Kernel(const std::string& name, int64_t start_ns, int64_t end_ns,
                        uint32_t correlation, uint32_t device, uint32_t stream, Timing timing) {
  KernelRecord r = {};
  r.start_ns = start_ns;
  r.end_ns = end_ns;
  r.timing = timing;
  r.device = device;
  r.context = 1 + device;
  r.stream = stream;
  r.correlation = correlation;
  r.name = Keep(name);
  r.grid_x = 8;
  r.grid_y = r.grid_z = r.block_y = r.block_z = 1;
  r.block_x = 128;
  r.registers_per_thread = 32;
  Advance(end_ns);
  writer_.OnKernel(r);
}

void TraceMaker::Copy(uint8_t copy_kind, uint8_t src_kind, uint8_t dst_kind, uint64_t bytes,
                      int64_t start_ns, int64_t end_ns, uint32_t correlation) {
  CopyRecord r = {};
  r.start_ns = start_ns;
  r.end_ns = end_ns;
  r.copy_kind = copy_kind;
  r.src_kind = src_kind;
  r.dst_kind = dst_kind;
  r.bytes = bytes;
  r.context = 1;
  r.stream = 7;
  r.correlation = correlation;
  r.src_device = r.src_context = r.dst_device = r.dst_context = kInvalidId;
  Advance(end_ns);
  writer_.OnCopy(r);
}

void TraceMaker::Set(uint64_t bytes, int64_t start_ns, int64_t end_ns, uint32_t correlation) {
  SetRecord r = {};
  r.start_ns = start_ns;
  r.end_ns = end_ns;
  r.memory_kind = 3;
  r.bytes = bytes;
  r.context = 1;
  r.stream = 7;
  r.correlation = correlation;
  Advance(end_ns);
  writer_.OnSet(r);
}

void TraceMaker::Graph(uint32_t graph_id, int64_t start_ns, int64_t end_ns, uint32_t correlation) {
  GraphRecord r = {};
  r.start_ns = start_ns;
  r.end_ns = end_ns;
  r.context = 1;
  r.stream = 7;
  r.correlation = correlation;
  r.graph_id = graph_id;
  r.end_device = kInvalidId;
  Advance(end_ns);
  writer_.OnGraph(r);
}

void TraceMaker::Call(const std::string& name, MadeClass api_class, int64_t start_ns,
                      int64_t end_ns, uint32_t correlation, uint32_t thread, ApiDomain domain,
                      int32_t result) {
  const auto [at, added] =
      cbids_.try_emplace({domain, name}, static_cast<uint32_t>(cbids_.size() + 1));
  if (added) symbols_[{domain, at->second}] = {name, static_cast<uint32_t>(api_class)};
  ApiRecord r = {};
  r.start_ns = start_ns;
  r.end_ns = end_ns;
  r.domain = domain;
  r.cbid = at->second;
  r.process = process_.pid;
  r.thread = thread;
  r.correlation = correlation;
  r.result = result;
  Advance(end_ns);
  writer_.OnApi(r);
}

void TraceMaker::Sync(uint8_t type, int64_t start_ns, int64_t end_ns, uint32_t correlation,
                      uint32_t stream) {
  SyncRecord r = {};
  r.start_ns = start_ns;
  r.end_ns = end_ns;
  r.type = type;
  r.context = 1;
  r.stream = stream;
  r.event = kInvalidId;
  r.correlation = correlation;
  Advance(end_ns);
  writer_.OnSync(r);
}

void TraceMaker::CudaEvent(uint32_t event, uint32_t correlation, uint32_t stream) {
  writer_.OnCudaEvent({1, stream, event, correlation, 17});
}

void TraceMaker::Overhead(uint32_t kind, int64_t start_ns, int64_t end_ns, uint32_t thread) {
  OverheadRecord r = {};
  r.start_ns = start_ns;
  r.end_ns = end_ns;
  r.kind = kind;
  r.object_kind = thread == 0 ? 1 : 2;
  r.process = process_.pid;
  r.thread = thread;
  r.device = r.context = r.stream = kInvalidId;
  Advance(end_ns);
  writer_.OnOverhead(r);
}

void TraceMaker::Marker(uint8_t flags, uint32_t id, int64_t time_ns, uint32_t thread,
                        const std::string& name, const std::string& domain) {
  Advance(time_ns);
  writer_.OnMarker({time_ns, id, flags, thread, name.empty() ? nullptr : Keep(name),
                    domain.empty() ? nullptr : Keep(domain)});
}

void TraceMaker::Loss(LossCause cause, uint64_t count, int64_t begin_ns, int64_t end_ns) {
  writer_.AddLoss(cause, count, begin_ns, end_ns, 0);
}

void TraceMaker::Blind(int64_t begin_ns, int64_t end_ns, const std::string& who,
                       const std::string& reason) {
  writer_.AddBlind(begin_ns, end_ns, who.c_str(), reason.c_str());
}

void TraceMaker::CloseFrame() {
  if (!writer_.CloseFrame()) Give("a frame was refused");
}

void TraceMaker::Finish(uint32_t buffers_outstanding) {
  if (!writer_.Finish("exit", buffers_outstanding)) Give("the last frame was refused");
}

void TraceMaker::Save(const std::string& path) const {
  std::ofstream file(path, std::ios::binary);
  file << bytes_;
  if (!file.good()) Give("cannot save");
}

}  // namespace gpuprobe::tools
