// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// What does a record cost the drain thread, from CUPTI's buffer to the compressed frame? The parts
// as the drain thread runs them: BufferDecoder over buffers of 4 MiB into a TraceWriter with a
// trace clock, frames closed when they are full or every so many records.
//
//   bench_drain [--smoke] [--records N] [--rounds N] [--frame N] [RECORDINGS_DIR]
//
//   decode    the decoder alone, into a sink that only looks at the fields
//   stage     what the writer adds to that until a frame is closed
//   columns   closing frames without zstd
//   zstd      compressing what the frames hold once more, with the writer's compressor
//
// Data: as in bench_format. Processor time of the thread, best of the rounds. --records, --rounds:
// for a profiler. --frame: records a frame (0: until it is full).
#include <time.h>

#define ZSTD_STATIC_LINKING_ONLY
#include <zstd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "bench/bench_util.h"
#include "bench/null_sink.h"
#include "bench/recorded_stream.h"
#include "cupti/clock.h"
#include "cupti/record_decode_inl.h"
#include "proto/format.h"
#include "proto/frame_compressor.h"
#include "proto/trace_writer_inl.h"

namespace gpuprobe {
namespace {

using bench::Recording;

constexpr uint32_t kCuptiVersion = 130001;
constexpr size_t kBufferBytes = 4 << 20;

double Seconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

// Whole records, in pieces of a CUPTI buffer's size.
template <class Use>
void ForEachBuffer(Recording* data, Use use) {
  for (size_t from = 0; from < data->size();) {
    size_t to = from;
    while (to < data->size() && data->offsets[to + 1] - data->offsets[from] <= kBufferBytes) ++to;
    use(data->bytes.data() + data->offsets[from], data->offsets[to] - data->offsets[from]);
    from = to;
  }
}

struct Session {
  cupti::TraceClock clock;
  std::string file;
  double frame_began = 0, closing = 0;
};

proto::WriterHooks Hooks(Session* session) {
  proto::WriterHooks hooks;
  hooks.user = session;
  hooks.read_clocks = [](void* user) {
    static_cast<Session*>(user)->frame_began = Seconds();
    return proto::ClockReading{};
  };
  hooks.write_frame = [](void* user, const uint8_t* data, size_t size) {
    Session& s = *static_cast<Session*>(user);
    s.closing += Seconds() - s.frame_began;
    s.file.append(reinterpret_cast<const char*>(data), size);
    return true;
  };
  hooks.to_trace_ns = [](void* user, int64_t ns) {
    return static_cast<Session*>(user)->clock.ToTrace(ns);
  };
  hooks.constant_offset = [](void* user) {
    const bool all = static_cast<Session*>(user)->clock.TimesAreTraceTimes();
    return proto::ConstantOffset{1, all ? INT64_MAX : 0, 0};
  };
  hooks.read_name = [](void*, const char* name, char* out, size_t capacity) {
    const size_t size = strnlen(name, capacity);
    std::memcpy(out, name, size);
    return static_cast<int64_t>(size);
  };
  hooks.api_name = [](void*, ApiDomain, uint32_t, uint32_t* api_class) {
    *api_class = 1;
    return "cudaLaunchKernel";
  };
  return hooks;
}

struct Cost {
  double decode = 1e9, total = 1e9, closing = 1e9, zstd = 1e9;
  size_t bytes = 0, raw_bytes = 0;
};

// Closes a frame after as many records as the flush period would see.
struct FrameSink {
  proto::TraceWriter* writer;
  size_t frame_records, in_frame = 0;
  void Count() {
    if (frame_records != 0 && ++in_frame == frame_records) {
      writer->CloseFrame();
      in_frame = 0;
    }
  }
  bool Counted(bool taken) {
    if (taken) Count();
    return taken;
  }
  bool TakeKnownKernel(const cupti::KernelInBuffer& k) {
    return Counted(writer->TakeKnownKernel(k));
  }
  bool TakeKnownCall(const ApiRecord& r) { return Counted(writer->TakeKnownCall(r)); }
  void OnKernel(const KernelRecord& r) { writer->OnKernel(r), Count(); }
  void OnCopy(const CopyRecord& r) { writer->OnCopy(r), Count(); }
  void OnSet(const SetRecord& r) { writer->OnSet(r), Count(); }
  void OnGraph(const GraphRecord& r) { writer->OnGraph(r), Count(); }
  void OnApi(const ApiRecord& r) { writer->OnApi(r), Count(); }
  void OnSync(const SyncRecord& r) { writer->OnSync(r), Count(); }
  void OnCudaEvent(const CudaEventRecord& r) { writer->OnCudaEvent(r), Count(); }
  void OnOverhead(const OverheadRecord& r) { writer->OnOverhead(r), Count(); }
  void OnDevice(const DeviceRecord& r) { writer->OnDevice(r); }
  void OnContext(const ContextRecord& r) { writer->OnContext(r); }
  void OnStream(const StreamRecord& r) { writer->OnStream(r); }
};

// Not inlined, so that a profiler can be told to look at nothing else.
[[gnu::noinline]] void Drain(Recording* data, size_t frame_records, proto::TraceWriter* writer) {
  cupti::BufferDecoder decoder;
  cupti::DecodeStats stats = {};
  if (!decoder.Init(nullptr, kCuptiVersion)) std::exit(1);
  FrameSink sink = {writer, frame_records};
  ForEachBuffer(data, [&](uint8_t* buffer, size_t bytes) {
    writer->BeginBuffer();
    decoder.Decode(buffer, bytes, &sink, &stats);
  });
  writer->Finish("exit", 0);
}

void RunOnce(Recording* data, size_t frame_records, void* memory, Session* session, Cost* cost) {
  const proto::WriterOptions options;
  cupti::BufferDecoder decoder;
  cupti::DecodeStats stats = {};
  if (!decoder.Init(nullptr, kCuptiVersion)) std::exit(1);
  bench::NullKnowingSink looking;
  double begin = Seconds();
  ForEachBuffer(data, [&](uint8_t* buffer, size_t bytes) {
    decoder.Decode(buffer, bytes, &looking, &stats);
  });
  cost->decode = std::min(cost->decode, Seconds() - begin);

  // The tables of the round before carry generations of their own.
  std::memset(memory, 0, options.memory_bytes);
  session->file.clear();
  session->closing = 0;
  proto::TraceWriter writer;
  if (!writer.Init(options, Hooks(session), memory)) std::exit(1);
  begin = Seconds();
  Drain(data, frame_records, &writer);
  cost->total = std::min(cost->total, Seconds() - begin);
  cost->closing = std::min(cost->closing, session->closing);
  cost->bytes = session->file.size();
  if (writer.stats().records != data->size()) {
    std::printf("  WRONG: %llu records written\n",
                static_cast<unsigned long long>(writer.stats().records));
    std::exit(1);
  }
}

double CompressAgain(const std::string& file, std::vector<uint8_t>* memory, Cost* cost) {
  std::vector<uint8_t> raw(proto::kMaxFrameBytes);
  proto::Arena arena(memory->data() + 64 - reinterpret_cast<uintptr_t>(memory->data()) % 64,
                     memory->size() - 64);
  proto::FrameCompressor compressor;
  compressor.TakeContext(&arena, proto::WriterOptions().zstd_level);
  compressor.TakeOutput(&arena, raw.size());
  if (!arena.fits() || !compressor.Init()) std::exit(1);
  double seconds = 0;
  cost->raw_bytes = 0;
  for (size_t at = 0; at < file.size();) {
    const size_t frame = ZSTD_findFrameCompressedSize(file.data() + at, file.size() - at);
    const size_t size = ZSTD_decompress(raw.data(), raw.size(), file.data() + at, frame);
    if (ZSTD_isError(size)) std::exit(1);
    const double begin = Seconds();
    if (compressor.Compress(raw.data(), size) == 0) std::exit(1);
    seconds += Seconds() - begin;
    cost->raw_bytes += size;
    at += frame;
  }
  return seconds;
}

void Run(Recording data, size_t frame_records, int rounds) {
  const double n = static_cast<double>(data.size());
  void* memory = std::aligned_alloc(4096, proto::WriterOptions().memory_bytes);
  std::vector<uint8_t> compressor_memory(40 << 20);
  Session session;
  Cost cost;
  for (int round = 0; round < rounds; ++round) {
    RunOnce(&data, frame_records, memory, &session, &cost);
    cost.zstd = std::min(cost.zstd, CompressAgain(session.file, &compressor_memory, &cost));
  }
  std::free(memory);
  std::printf("%-30s %6.2f %6.2f %8.1f %8.1f %8.1f %8.1f %8.1f\n", data.label.c_str(),
              static_cast<double>(cost.bytes) / n, static_cast<double>(cost.raw_bytes) / n,
              cost.total * 1e9 / n, cost.decode * 1e9 / n,
              (cost.total - cost.closing - cost.decode) * 1e9 / n,
              (cost.closing - cost.zstd) * 1e9 / n, cost.zstd * 1e9 / n);
}

int Main(int argc, char** argv) {
  bool smoke = false;
  size_t records = 1000000, frame_records = 0;
  int rounds = 5;
  const char* shared = std::getenv("GPUPROBE_TEST_SHARED");
  std::string directory =
      std::string(shared == nullptr ? "../shared" : shared) + "/cupti-recordings";
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    const bool has_value = i + 1 < argc;
    if (argument == "--smoke") {
      smoke = true;
    } else if (argument == "--records" && has_value) {
      records = std::strtoull(argv[++i], nullptr, 10);
    } else if (argument == "--rounds" && has_value) {
      rounds = std::atoi(argv[++i]);
    } else if (argument == "--frame" && has_value) {
      frame_records = std::strtoull(argv[++i], nullptr, 10);
    } else {
      directory = argument;
    }
  }
  bench::PrintMachine();
  std::printf("%-30s %6s %6s %8s %8s %8s %8s %8s\n", "bytes and ns a record", "file", "plain",
              "total", "decode", "stage", "columns", "zstd");
  if (smoke) {
    Run(bench::Invented(20000), 0, 1);
    return 0;
  }
  int runs = 0;
  for (const char* name : {"gpt_train", "resnet_dataloader"}) {
    Recording recording;
    if (!bench::Load(directory, name, &recording)) continue;
    Run(bench::Replicate(recording, records), frame_records, rounds);
    Run(bench::Replicate(bench::WithoutChatter(recording), records), frame_records, rounds);
    ++runs;
  }
  if (runs == 0) {
    std::printf("no recordings in %s: invented records instead\n", directory.c_str());
    Run(bench::Invented(records), frame_records, rounds);
  }
  return 0;
}

}  // namespace
}  // namespace gpuprobe

int main(int argc, char** argv) { return gpuprobe::Main(argc, argv); }
