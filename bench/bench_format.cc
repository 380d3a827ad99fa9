// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// What does a record cost in the trace file: nanoseconds to encode and compress, bytes on disk,
// nanoseconds to read and aggregate? Against one protobuf message a record and against CUPTI's structures
// as they are, each compressed by zstd at level 1.
//
//   bench_format [--smoke] [RECORDINGS_DIR]
//
// Data: the recorded CUPTI buffers (RECORDINGS_DIR, $GPUPROBE_TEST_SHARED/cupti-recordings), each replayed
// until there are 2 M records, in CUPTI's order, with log-normal noise on gaps and durations (API 7 %, GPU
// 2 % in steps of the 32 ns tick) and running correlation ids; and the same without the calls that
// gpuprobe does not record by default. --smoke: 20,000 invented records, under a second.
//
// All contenders run interleaved, one thread; processor time, best of the rounds.
#include <time.h>
#include <unistd.h>

#define ZSTD_STATIC_LINKING_ONLY
#include <zstd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "proto/columns.h"
#include "proto/trace_reader.h"
#include "proto/trace_writer.h"
#include "proto/wire.h"

namespace gpuprobe::proto {
namespace {

// Kinds and sizes of CUPTI 13.0 records, as the recordings hold them.
constexpr uint32_t kMemcpy = 1, kMemset = 2, kRuntime = 5, kKernel = 10, kCudaEvent = 36, kSync = 38;
const std::map<uint32_t, size_t> kSizes = {{1, 96}, {2, 88}, {5, 40}, {8, 184}, {9, 32},
                                           {10, 216}, {17, 56}, {36, 56}, {37, 24}, {38, 56}};
// cudaGetDevice, cudaGetLastError, cudaPeekAtLastError: not recorded by default.
constexpr uint32_t kChatter[] = {17, 10, 11};

template <class T>
T Get(const uint8_t* raw, size_t offset) {
  T value;
  std::memcpy(&value, raw + offset, sizeof(value));
  return value;
}
template <class T>
void Put(uint8_t* raw, size_t offset, T value) {
  std::memcpy(raw + offset, &value, sizeof(value));
}

struct Offsets {
  size_t start, end, correlation;
};
Offsets OffsetsOf(uint32_t kind) {
  switch (kind) {
    case kKernel: return {16, 24, 92};
    case kMemcpy:
    case kMemset: return {16, 24, 44};
    case kRuntime: return {8, 16, 32};
    case kSync: return {8, 16, 24};
    default: return {0, 0, 4};  // kCudaEvent: no times
  }
}

// Raw structures one behind the other, in CUPTI's order, as in its buffers.
struct Recording {
  std::string label;
  std::vector<uint8_t> bytes;
  std::vector<size_t> offsets;   // of each record, and the end
  std::deque<std::string> names;

  size_t size() const { return offsets.size() - 1; }
  const uint8_t* at(size_t i) const { return bytes.data() + offsets[i]; }
  size_t bytes_of(size_t i) const { return offsets[i + 1] - offsets[i]; }
  uint8_t* Add(const uint8_t* raw, size_t raw_bytes) {
    if (offsets.empty()) offsets.push_back(0);
    bytes.insert(bytes.end(), raw, raw + raw_bytes);
    offsets.push_back(bytes.size());
    return bytes.data() + bytes.size() - raw_bytes;
  }
};

std::string ReadCommand(const std::string& command) {
  std::string out;
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return out;
  std::vector<char> chunk(1 << 16);
  for (size_t got; (got = fread(chunk.data(), 1, chunk.size(), pipe)) > 0;) out.append(chunk.data(), got);
  pclose(pipe);
  return out;
}

bool Load(const std::string& directory, const std::string& name, Recording* out) {
  const std::string data = ReadCommand("gzip -dc '" + directory + "/" + name + ".cuptibuf.gz' 2>/dev/null");
  if (data.empty()) return false;
  std::unordered_map<uint64_t, const char*> names;
  std::ifstream name_file(directory + "/" + name + ".names");
  for (std::string line; std::getline(name_file, line);) {
    const size_t tab = line.find('\t');
    out->names.push_back(line.substr(tab + 1));
    names[std::strtoull(line.c_str(), nullptr, 16)] = out->names.back().c_str();
  }
  out->label = name;
  const auto* bytes = reinterpret_cast<const uint8_t*>(data.data());
  for (size_t at = 0; at + 8 <= data.size();) {
    const size_t end = at + 8 + Get<uint64_t>(bytes, at);
    at += 8;
    while (at < end) {
      const uint32_t kind = Get<uint32_t>(bytes, at);
      const size_t size = kSizes.at(kind);
      if (kind == kMemcpy || kind == kMemset || kind == kRuntime || kind == kKernel || kind == kCudaEvent ||
          kind == kSync) {
        uint8_t* raw = out->Add(bytes + at, size);
        // The recorded process's pointers become ours.
        if (kind == kKernel) Put(raw, 104, names[Get<uint64_t>(raw, 104)]);
      }
      at += size;
    }
  }
  return true;
}

Recording Invented(size_t count) {
  Recording r;
  r.label = "invented";
  for (int i = 0; i < 20; ++i) r.names.push_back("_Z6kernel" + std::string(150, 'x') + std::to_string(i));
  std::mt19937 random(1);
  int64_t now = 1796036664114978722;
  for (size_t i = 0; i < count; ++i) {
    const bool api = i % 4 != 3;
    std::vector<uint8_t> raw(api ? 40 : 216);
    const Offsets o = OffsetsOf(api ? kRuntime : kKernel);
    Put<uint32_t>(raw.data(), 0, api ? kRuntime : kKernel);
    Put<int64_t>(raw.data(), o.start, now);
    Put<int64_t>(raw.data(), o.end, now + static_cast<int64_t>(random() % 3000));
    Put<uint32_t>(raw.data(), o.correlation, static_cast<uint32_t>(i));
    if (api) {
      Put<uint32_t>(raw.data(), 4, 17 + random() % 5);
    } else {
      Put<uint32_t>(raw.data(), 52, random() % 50);
      Put(raw.data(), 104, r.names[random() % 20].c_str());
    }
    now += 3000 + static_cast<int64_t>(random() % 1000);
    r.Add(raw.data(), raw.size());
  }
  return r;
}

Recording WithoutChatter(const Recording& from) {
  Recording out;
  out.label = from.label + ", default calls";
  for (size_t i = 0; i < from.size(); ++i) {
    const uint8_t* raw = from.at(i);
    if (Get<uint32_t>(raw, 0) == kRuntime &&
        std::count(std::begin(kChatter), std::end(kChatter), Get<uint32_t>(raw, 4)) != 0) {
      continue;
    }
    out.Add(raw, from.bytes_of(i));
  }
  return out;
}

// Identity of the lane whose gaps are kept when the times are remade.
uint64_t LaneOf(const uint8_t* raw) {
  switch (Get<uint32_t>(raw, 0)) {
    case kRuntime: return uint64_t{1} << 62 | Get<uint32_t>(raw, 28);
    case kKernel: return Get<uint32_t>(raw, 48);
    case kMemcpy:
    case kMemset: return Get<uint32_t>(raw, 40);
    default: return uint64_t{1} << 63;
  }
}

Recording Replicate(const Recording& from, size_t count) {
  Recording out;
  out.label = from.label;
  std::mt19937_64 random(7);
  std::normal_distribution<double> noise;
  const auto jitter = [&](int64_t ns, bool gpu) {
    const double factor = std::exp(noise(random) * (gpu ? 0.02 : 0.07)) - 1;
    if (!gpu) return ns + static_cast<int64_t>(std::lround(static_cast<double>(ns) * factor));
    return ns + 32 * static_cast<int64_t>(std::lround(static_cast<double>(ns) * factor / 32));
  };
  struct LaneClock {
    int64_t old_end = 0, new_end = 0;
  };
  std::map<uint64_t, LaneClock> lanes;
  uint32_t base_correlation = 0, max_correlation = 0;
  for (size_t made = 0; made < count;) {
    for (auto& [lane, clock] : lanes) clock.old_end = 0;
    for (size_t i = 0; i < from.size() && made < count; ++i, ++made) {
      uint8_t* raw = out.Add(from.at(i), from.bytes_of(i));
      const uint32_t kind = Get<uint32_t>(raw, 0);
      const Offsets o = OffsetsOf(kind);
      const uint32_t correlation = Get<uint32_t>(raw, o.correlation);
      max_correlation = std::max(max_correlation, correlation);
      Put(raw, o.correlation, base_correlation + correlation);
      if (o.start != 0) {
        const uint64_t lane = LaneOf(raw);
        const bool gpu = lane >> 62 == 0;
        const int64_t start = Get<int64_t>(raw, o.start), end = Get<int64_t>(raw, o.end);
        LaneClock& clock = lanes[lane];
        int64_t new_start = start;
        if (clock.old_end != 0) {
          new_start = clock.new_end + jitter(start - clock.old_end, gpu);
        } else if (clock.new_end != 0) {
          new_start = clock.new_end + 5000;  // next pass
        }
        clock.old_end = end;
        clock.new_end = new_start + std::max<int64_t>(0, jitter(end - start, gpu));
        Put(raw, o.start, new_start);
        Put(raw, o.end, clock.new_end);
      }
    }
    base_correlation += max_correlation + 1;
  }
  return out;
}

// Hands the normalised form of a raw record to the sink, as the drain thread's decoder does.
template <class Sink>
void Normalise(const uint8_t* raw, Sink* sink) {
  const uint32_t kind = Get<uint32_t>(raw, 0);
  const Offsets o = OffsetsOf(kind);
  const int64_t start = Get<int64_t>(raw, o.start), end = Get<int64_t>(raw, o.end);
  const uint32_t correlation = Get<uint32_t>(raw, o.correlation);
  switch (kind) {
    case kRuntime: {
      ApiRecord r = {start, end, ApiDomain::kRuntime, Get<uint32_t>(raw, 4), 0, Get<uint32_t>(raw, 28), correlation,
                     Get<int32_t>(raw, 36)};
      sink->OnApi(r);
      break;
    }
    case kKernel: {
      KernelRecord r;
      r.start_ns = start;
      r.end_ns = end;
      r.timing = Timing::kValid;
      r.launch_type = raw[136];
      r.device_launched = false;
      r.device = Get<uint32_t>(raw, 40);
      r.context = Get<uint32_t>(raw, 44);
      r.stream = Get<uint32_t>(raw, 48);
      r.correlation = correlation;
      r.graph_id = Get<uint32_t>(raw, 156);
      r.graph_node_id = Get<uint64_t>(raw, 144);
      r.grid_id = 0;
      r.name = Get<const char*>(raw, 104);
      std::memcpy(&r.grid_x, raw + 52, 6 * sizeof(uint32_t));
      std::memcpy(&r.cluster_x, raw + 176, 3 * sizeof(uint32_t));
      r.static_shared_bytes = Get<uint32_t>(raw, 76);
      r.dynamic_shared_bytes = Get<uint32_t>(raw, 80);
      r.shared_executed_bytes = Get<uint32_t>(raw, 140);
      r.local_bytes_per_thread = Get<uint32_t>(raw, 84);
      r.registers_per_thread = Get<uint16_t>(raw, 6);
      r.queued_ns = r.submitted_ns = 0;
      sink->OnKernel(r);
      break;
    }
    case kMemcpy: {
      CopyRecord r = {};
      r.start_ns = start;
      r.end_ns = end;
      r.copy_kind = raw[4];
      r.src_kind = raw[5];
      r.dst_kind = raw[6];
      r.flags = raw[7];
      r.bytes = Get<uint64_t>(raw, 8);
      r.device = Get<uint32_t>(raw, 32);
      r.context = Get<uint32_t>(raw, 36);
      r.stream = Get<uint32_t>(raw, 40);
      r.correlation = correlation;
      sink->OnCopy(r);
      break;
    }
    case kMemset: {
      SetRecord r = {};
      r.start_ns = start;
      r.end_ns = end;
      r.value = Get<uint32_t>(raw, 4);
      r.bytes = Get<uint64_t>(raw, 8);
      r.device = Get<uint32_t>(raw, 32);
      r.context = Get<uint32_t>(raw, 36);
      r.stream = Get<uint32_t>(raw, 40);
      r.correlation = correlation;
      r.flags = raw[48];
      r.memory_kind = raw[50];
      sink->OnSet(r);
      break;
    }
    case kSync: {
      SyncRecord r = {start, end, raw[4], Get<uint32_t>(raw, 28), Get<uint32_t>(raw, 32), Get<uint32_t>(raw, 36),
                      correlation, Get<uint64_t>(raw, 40), Get<int32_t>(raw, 48)};
      sink->OnSync(r);
      break;
    }
    default:
      sink->OnCudaEvent({Get<uint32_t>(raw, 8), Get<uint32_t>(raw, 12), Get<uint32_t>(raw, 16), correlation,
                         Get<uint64_t>(raw, 48)});
  }
}

// Processor time of this thread: what the drain thread costs, also on a machine with other work.
double Seconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

// Cost of Normalise itself, which is not the format's.
struct NullSink {
  uint64_t sum = 0;
  void OnApi(const ApiRecord& r) { sum += static_cast<uint64_t>(r.end_ns) + r.cbid; }
  void OnKernel(const KernelRecord& r) { sum += static_cast<uint64_t>(r.end_ns) + r.grid_x + r.registers_per_thread; }
  void OnCopy(const CopyRecord& r) { sum += r.bytes; }
  void OnSet(const SetRecord& r) { sum += r.bytes; }
  void OnSync(const SyncRecord& r) { sum += r.type; }
  void OnCudaEvent(const CudaEventRecord& r) { sum += r.event; }
};

// One protobuf message a record, names and launch shapes already replaced by ids. Written by hand, so that
// the contender is as fast as such a format can be; blocks of 1 MiB.
class RowSink {
 public:
  RowSink() : block_(1 << 20), out_(block_.data(), block_.size()), compressed_(ZSTD_compressBound(1 << 20)),
              context_(ZSTD_createCCtx()) {}
  ~RowSink() { ZSTD_freeCCtx(context_); }

  void OnApi(const ApiRecord& r) {
    Begin();
    out_.Uint(1, static_cast<uint64_t>(r.start_ns));
    out_.Uint(2, static_cast<uint64_t>(r.end_ns - r.start_ns));
    out_.Uint(3, r.correlation);
    out_.Uint(4, r.cbid);
    out_.Uint(5, r.thread);
    End();
  }
  void OnKernel(const KernelRecord& r) {
    Begin();
    Gpu(r);
    out_.Uint(8, IdOf(reinterpret_cast<uint64_t>(r.name)));
    out_.Uint(9, r.grid_x);
    out_.Uint(10, r.grid_y);
    out_.Uint(11, r.grid_z);
    out_.Uint(12, r.block_x);
    out_.Uint(13, r.block_y);
    out_.Uint(14, r.block_z);
    out_.Uint(15, r.registers_per_thread);
    out_.Uint(16, r.dynamic_shared_bytes);
    out_.Uint(17, r.static_shared_bytes);
    End();
  }
  void OnCopy(const CopyRecord& r) {
    Begin();
    Gpu(r);
    out_.Uint(18, r.bytes);
    out_.Uint(19, r.copy_kind);
    out_.Uint(20, r.src_kind);
    out_.Uint(21, r.dst_kind);
    End();
  }
  void OnSet(const SetRecord& r) {
    Begin();
    Gpu(r);
    out_.Uint(18, r.bytes);
    out_.Uint(22, r.value);
    End();
  }
  void OnSync(const SyncRecord& r) {
    Begin();
    out_.Uint(1, static_cast<uint64_t>(r.start_ns));
    out_.Uint(2, static_cast<uint64_t>(r.end_ns - r.start_ns));
    out_.Uint(3, r.correlation);
    out_.Uint(23, r.type);
    out_.Uint(6, r.context);
    out_.Uint(7, r.stream);
    End();
  }
  void OnCudaEvent(const CudaEventRecord& r) {
    Begin();
    out_.Uint(3, r.correlation);
    out_.Uint(24, r.event);
    out_.Uint(7, r.stream);
    End();
  }
  void Flush() {
    bytes += ZSTD_compressCCtx(context_, compressed_.data(), compressed_.size(), block_.data(), out_.size(), 1);
    out_.CutTo(0);
  }
  uint64_t bytes = 0;

 private:
  void Begin() {
    if (out_.room() < 256) Flush();
    mark_ = out_.Open(1, 50);
  }
  void End() { out_.Close(mark_); }
  template <class R>
  void Gpu(const R& r) {
    out_.Uint(1, static_cast<uint64_t>(r.start_ns));
    out_.Uint(2, static_cast<uint64_t>(r.end_ns - r.start_ns));
    out_.Uint(3, r.correlation);
    out_.Uint(5, r.device);
    out_.Uint(6, r.context);
    out_.Uint(7, r.stream);
  }
  uint64_t IdOf(uint64_t pointer) {
    const auto [it, fresh] = ids_.try_emplace(pointer, ids_.size() + 1);
    return it->second;
  }
  std::vector<uint8_t> block_;
  WireWriter out_;
  WireWriter::Mark mark_ = {};
  std::vector<char> compressed_;
  ZSTD_CCtx* context_;
  std::unordered_map<uint64_t, uint64_t> ids_;
};

struct Measurement {
  double best_s = 1e9;
  uint64_t bytes = 0;
  void Time(const std::function<uint64_t()>& run) {
    const double begin = Seconds();
    bytes = run();
    best_s = std::min(best_s, Seconds() - begin);
  }
};

struct Output {
  std::string file;
  static bool Write(void* user, const uint8_t* data, size_t size) {
    static_cast<Output*>(user)->file.append(reinterpret_cast<const char*>(data), size);
    return true;
  }
};

int64_t ReadName(void*, const char* name, char* out, size_t capacity) {
  const size_t size = strnlen(name, capacity);
  std::memcpy(out, name, size);
  return static_cast<int64_t>(size);
}

const char* ApiName(void*, ApiDomain, uint32_t, uint32_t* api_class) {
  *api_class = 1;
  return "cudaLaunchKernel";
}

class Columnar {
 public:
  Columnar() : memory_(static_cast<uint8_t*>(std::aligned_alloc(4096, options_.memory_bytes))) {}
  ~Columnar() { std::free(memory_); }

  // `frame_records`: close a frame after as many records, as the flush period would; 0: when it is full.
  uint64_t Encode(const Recording& data, size_t frame_records) {
    output.file.clear();
    WriterHooks hooks;
    hooks.user = &output;
    hooks.write_frame = &Output::Write;
    hooks.read_name = &ReadName;
    hooks.api_name = &ApiName;
    TraceWriter writer;
    // The tables of the round before carry generations of their own: they must not be taken for ours.
    std::memset(memory_, 0, options_.memory_bytes);
    const double begin = Seconds();
    if (!writer.Init(options_, hooks, memory_)) std::exit(1);
    size_t in_frame = 0;
    size_t in_buffer = 0;
    for (size_t i = 0; i < data.size(); ++i) {
      Normalise(data.at(i), &writer);
      if (++in_buffer == 50000) {  // a CUPTI buffer of 4 MiB
        writer.BeginBuffer();
        in_buffer = 0;
      }
      if (frame_records != 0 && ++in_frame == frame_records) {
        writer.CloseFrame();
        in_frame = 0;
      }
    }
    writer.Finish("exit", 0);
    seconds = Seconds() - begin;
    return output.file.size();
  }
  Output output;
  double seconds = 0;

 private:
  WriterOptions options_;
  uint8_t* memory_;
};

uint64_t EncodeRaw(const Recording& data, ZSTD_CCtx* context) {
  std::vector<uint8_t> block;
  block.reserve(1 << 20);
  std::vector<char> out(ZSTD_compressBound(1 << 20));
  uint64_t bytes = 0;
  for (size_t i = 0; i < data.size(); ++i) {
    if (block.size() + data.bytes_of(i) > (1 << 20)) {
      bytes += ZSTD_compressCCtx(context, out.data(), out.size(), block.data(), block.size(), 1);
      block.clear();
    }
    block.insert(block.end(), data.at(i), data.at(i) + data.bytes_of(i));
  }
  return bytes + ZSTD_compressCCtx(context, out.data(), out.size(), block.data(), block.size(), 1);
}

struct Totals {
  uint64_t count = 0;
  int64_t total_ns = 0, min_ns = INT64_MAX, max_ns = 0;
  void Add(int64_t ns) {
    ++count;
    total_ns += ns;
    min_ns = std::min(min_ns, ns);
    max_ns = std::max(max_ns, ns);
  }
};

// Reads the file and aggregates per kernel shape and per API symbol, with the busy time of each stream.
uint64_t Aggregate(const std::string& path, int64_t* busy_ns) {
  auto reader = TraceReader::Open(path);
  if (!reader.ok()) std::exit(1);
  Frame frame;
  KernelColumns kernels;
  ApiColumns api;
  CopyColumns copies;
  SetColumns sets;
  SyncColumns syncs;
  CudaEventColumns events;
  std::unordered_map<std::string, Totals> by_name;
  uint64_t records = 0;
  std::vector<Totals> shapes, symbols;
  while ((*reader)->Next(&frame)) {
    const Dictionary* dictionary = nullptr;
    for (const Packet& packet : frame.trace.packet()) {
      if (packet.has_dictionary()) {
        dictionary = &packet.dictionary();
        shapes.assign(static_cast<size_t>(dictionary->shapes_size()), {});
        symbols.assign(static_cast<size_t>(dictionary->api_symbols_size()), {});
      } else if (packet.has_kernels()) {
        Decode(packet.kernels(), frame.header(), &kernels);
        records += kernels.count;
        int64_t latest = INT64_MIN;
        for (size_t i = 0; i < kernels.count; ++i) {
          if (kernels.shape[i] < shapes.size()) {
            shapes[kernels.shape[i]].Add(kernels.end_ns[i] - kernels.start_ns[i]);
          }
          const int64_t from = std::max(latest, kernels.start_ns[i]);
          *busy_ns += std::max<int64_t>(0, kernels.end_ns[i] - from);
          latest = std::max(latest, kernels.end_ns[i]);
        }
      } else if (packet.has_api()) {
        Decode(packet.api(), frame.header(), &api);
        records += api.count;
        for (size_t i = 0; i < api.count; ++i) {
          if (api.symbol[i] < symbols.size()) symbols[api.symbol[i]].Add(api.end_ns[i] - api.start_ns[i]);
        }
      } else if (packet.has_copies()) {
        Decode(packet.copies(), frame.header(), &copies);
        records += copies.count;
      } else if (packet.has_sets()) {
        Decode(packet.sets(), frame.header(), &sets);
        records += sets.count;
      } else if (packet.has_syncs()) {
        Decode(packet.syncs(), frame.header(), &syncs);
        records += syncs.count;
      } else if (packet.has_cuda_events()) {
        Decode(packet.cuda_events(), frame.header(), &events);
        records += events.count;
      }
    }
    for (size_t i = 0; i < shapes.size(); ++i) {
      const uint32_t name = dictionary->shapes(static_cast<int>(i)).name();
      if (name == 0 || name > static_cast<uint32_t>(dictionary->names_size())) continue;
      Totals& totals = by_name[dictionary->names(static_cast<int>(name) - 1)];
      totals.count += shapes[i].count;
      totals.total_ns += shapes[i].total_ns;
    }
  }
  return records;
}

void PrintMachine() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);) {
    if (line.rfind("model name", 0) == 0) {
      std::printf("machine: %s, %ld cores, zstd %s, %s\n", line.substr(line.find(':') + 2).c_str(),
                  sysconf(_SC_NPROCESSORS_ONLN), ZSTD_versionString(),
#ifdef NDEBUG
                  "optimised"
#else
                  "with assertions"
#endif
      );
      return;
    }
  }
}

void Run(const Recording& data, int rounds) {
  const double n = static_cast<double>(data.size());
  std::printf("\n%s: %.0f records, %.1f raw bytes a record\n", data.label.c_str(), n,
              static_cast<double>(data.bytes.size()) / n);
  Columnar columnar;
  ZSTD_CCtx* context = ZSTD_createCCtx();
  Measurement normalise, full, periodic, rows, raw, read;
  char path[] = "/tmp/bench_format_XXXXXX";
  const int fd = mkstemp(path);
  if (fd < 0) std::exit(1);
  close(fd);
  uint64_t read_records = 0;
  int64_t busy_ns = 0;
  for (int round = 0; round < rounds; ++round) {
    normalise.Time([&] {
      NullSink sink;
      for (size_t i = 0; i < data.size(); ++i) Normalise(data.at(i), &sink);
      return sink.sum;
    });
    periodic.bytes = columnar.Encode(data, 16384);
    periodic.best_s = std::min(periodic.best_s, columnar.seconds);
    full.bytes = columnar.Encode(data, 0);
    full.best_s = std::min(full.best_s, columnar.seconds);
    std::ofstream(path, std::ios::binary | std::ios::trunc) << columnar.output.file;
    read.Time([&] {
      busy_ns = 0;
      return read_records = Aggregate(path, &busy_ns);
    });
    rows.Time([&] {
      RowSink sink;
      for (size_t i = 0; i < data.size(); ++i) Normalise(data.at(i), &sink);
      sink.Flush();
      return sink.bytes;
    });
    raw.Time([&] { return EncodeRaw(data, context); });
  }
  unlink(path);
  ZSTD_freeCCtx(context);
  const auto line = [&](const char* name, const Measurement& m, double less_s) {
    std::printf("  %-44s %6.2f B/record  %6.1f ns/record  %5.2fx size  %5.2fx time\n", name,
                static_cast<double>(m.bytes) / n, (m.best_s - less_s) * 1e9 / n,
                static_cast<double>(m.bytes) / static_cast<double>(full.bytes),
                (m.best_s - less_s) / (full.best_s - normalise.best_s));
  };
  line("columns, full frames (this format)", full, normalise.best_s);
  line("columns, frames of 16384 records", periodic, normalise.best_s);
  line("a protobuf message a record, zstd 1", rows, normalise.best_s);
  line("CUPTI structures, zstd 1", raw, 0);
  std::printf("  %-44s %22.1f ns/record  (taken off the above; parsing CUPTI's structures)\n", "normalising",
              normalise.best_s * 1e9 / n);
  std::printf("  %-44s %22.1f ns/record  %.1f M records/s, busy %.3f s\n", "read + decode + aggregate",
              read.best_s * 1e9 / n, n / read.best_s / 1e6, static_cast<double>(busy_ns) / 1e9);
  if (read_records != data.size()) {
    std::printf("  WRONG: %llu records came back\n", static_cast<unsigned long long>(read_records));
    std::exit(1);
  }
}

int Main(int argc, char** argv) {
  bool smoke = false;
  const char* shared = std::getenv("GPUPROBE_TEST_SHARED");
  std::string directory = std::string(shared == nullptr ? "../shared" : shared) + "/cupti-recordings";
  for (int i = 1; i < argc; ++i) {
    if (std::string_view(argv[i]) == "--smoke") {
      smoke = true;
    } else {
      directory = argv[i];
    }
  }
  PrintMachine();
  if (smoke) {
    Run(Invented(20000), 1);
    return 0;
  }
  constexpr size_t kRecords = 2000000;
  constexpr int kRounds = 3;
  int runs = 0;
  for (const char* name : {"gpt_train", "resnet_dataloader"}) {
    Recording recording;
    if (!Load(directory, name, &recording)) continue;
    Run(Replicate(recording, kRecords), kRounds);
    Run(Replicate(WithoutChatter(recording), kRecords), kRounds);
    ++runs;
  }
  if (runs == 0) {
    std::printf("no recordings in %s: invented records instead\n", directory.c_str());
    Run(Invented(kRecords), kRounds);
  }
  return 0;
}

}  // namespace
}  // namespace gpuprobe::proto

int main(int argc, char** argv) { return gpuprobe::proto::Main(argc, argv); }
