// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// What does a record cost in the trace file: nanoseconds to encode and compress, bytes on disk,
// nanoseconds to read and aggregate? Against one protobuf message a record and against CUPTI's
// structures as they are, each compressed by zstd at level 1; and against what other profilers
// write: SQLite with the tables of an Nsight Systems export, .json.gz in torch.profiler's form.
//
//   bench_format [--smoke] [RECORDINGS_DIR]
//
// Data: the recorded CUPTI buffers (RECORDINGS_DIR, $GPUPROBE_TEST_SHARED/cupti-recordings), each
// replayed until there are 2 M records, in CUPTI's order, with log-normal noise on gaps and
// durations (API 7 %, GPU 2 % in steps of the 32 ns tick) and running correlation ids; and the same
// without the calls that gpuprobe does not record by default. --smoke: 20,000 invented records,
// under a second.
//
// All contenders run interleaved, one thread; processor time, best of the rounds. The last two,
// which are 20 to 100 times slower, take the first 200,000 records, once.
#include <time.h>
#include <unistd.h>

#define ZSTD_STATIC_LINKING_ONLY
#include <zstd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "bench/other_formats.h"
#include "bench/recorded_stream.h"
#include "proto/columns.h"
#include "proto/trace_reader.h"
#include "proto/trace_writer.h"
#include "proto/wire.h"

namespace gpuprobe::proto {
namespace {

using bench::Invented;
using bench::Load;
using bench::Normalise;
using bench::Recording;
using bench::Replicate;
using bench::WithoutChatter;

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
  void OnKernel(const KernelRecord& r) {
    sum += static_cast<uint64_t>(r.end_ns) + r.grid_x + r.registers_per_thread;
  }
  void OnCopy(const CopyRecord& r) { sum += r.bytes; }
  void OnSet(const SetRecord& r) { sum += r.bytes; }
  void OnSync(const SyncRecord& r) { sum += r.type; }
  void OnCudaEvent(const CudaEventRecord& r) { sum += r.event; }
};

// One protobuf message a record, names and launch shapes already replaced by ids. Written by hand,
// so that the contender is as fast as such a format can be; blocks of 1 MiB.
class RowSink {
 public:
  RowSink()
      : block_(1 << 20),
        out_(block_.data(), block_.size()),
        compressed_(ZSTD_compressBound(1 << 20)),
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
    bytes += ZSTD_compressCCtx(context_, compressed_.data(), compressed_.size(), block_.data(),
                               out_.size(), 1);
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

  // `frame_records`: close a frame after as many records, as the flush period would; 0: when it is
  // full.
  uint64_t Encode(const Recording& data, size_t frame_records) {
    output.file.clear();
    WriterHooks hooks;
    hooks.user = &output;
    hooks.write_frame = &Output::Write;
    hooks.read_name = &ReadName;
    hooks.api_name = &ApiName;
    TraceWriter writer;
    // The tables of the round before carry generations of their own: they must not be taken for
    // ours.
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

// Reads the file and aggregates per kernel shape and per API symbol, with the busy time of each
// stream.
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
          if (api.symbol[i] < symbols.size())
            symbols[api.symbol[i]].Add(api.end_ns[i] - api.start_ns[i]);
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

constexpr size_t kSlowRecords = 200000;

// Bytes and seconds of what another profiler would write of the first records.
template <class Sink>
Measurement Elsewhere(const Recording& data, Sink* sink) {
  Measurement m;
  m.Time([&] {
    for (size_t i = 0; i < std::min(data.size(), kSlowRecords); ++i) Normalise(data.at(i), sink);
    return sink->Finish();
  });
  return m;
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
  bench::SqliteSink sqlite_sink(std::string(path) + ".sqlite");
  bench::JsonGzSink json_sink;
  const Measurement sqlite = Elsewhere(data, &sqlite_sink), json = Elsewhere(data, &json_sink);
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
  // As if for all records, for the same line.
  const double share = n / static_cast<double>(std::min(data.size(), kSlowRecords));
  const auto slow = [&](const char* name, Measurement m) {
    m.bytes = static_cast<uint64_t>(static_cast<double>(m.bytes) * share);
    m.best_s *= share;
    line(name, m, normalise.best_s);
  };
  slow("SQLite, tables of an Nsight Systems export", sqlite);
  slow(".json.gz, torch.profiler's form, zlib 6", json);
  std::printf("  %-44s %22.1f ns/record  (taken off the above; parsing CUPTI's structures)\n",
              "normalising", normalise.best_s * 1e9 / n);
  std::printf("  %-44s %22.1f ns/record  %.1f M records/s, busy %.3f s\n",
              "read + decode + aggregate", read.best_s * 1e9 / n, n / read.best_s / 1e6,
              static_cast<double>(busy_ns) / 1e9);
  if (read_records != data.size()) {
    std::printf("  WRONG: %llu records came back\n", static_cast<unsigned long long>(read_records));
    std::exit(1);
  }
}

int Main(int argc, char** argv) {
  bool smoke = false;
  const char* shared = std::getenv("GPUPROBE_TEST_SHARED");
  std::string directory =
      std::string(shared == nullptr ? "../shared" : shared) + "/cupti-recordings";
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
