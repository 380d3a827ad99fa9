// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// What would other columns gain? Kernels and calls of recorded runs, encoded in several ways, every
// one compressed as the writer compresses (zstd 1, blocks ending with the columns) and decoded
// again, value by value, against the source.
//
//   bench_encoding [--smoke] [--frame N] [RECORDINGS_DIR]
//
//   as shipped          times without their low byte, low bytes, ids, correlation deltas
//   one lane for all    kernels of all streams, calls of all threads in the order of arrival, with
//                       a column that names the stream or thread
//   tick grid           GPU times as numbers of ticks of an affine clock fitted for each frame
//                       (32 ns and some parts in a million less), what it misses in a nibble
//   predicted durations less the mean of their kind: launch shape, or call after call
//   predicted starts    kernels: the later of the previous one's end and the submitting call's end,
//                       each with the mean of what usually follows; calls: mean gap of call after
//                       call
//   scaled              predicted, and the residual split at the context's own mean deviation
//                       instead of at 8 bits: what is below goes into a stream of bits
//
// Only kernels and calls with valid times (95 % of the records and more), without dictionaries.
// The recordings are used as they are: replicated with noise, kernels would neither lie on the grid
// nor follow their calls. Times: processor time of one thread, best of the rounds, compression and
// decompression included.
#include <time.h>

#define ZSTD_STATIC_LINKING_ONLY
#include <zstd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "bench/bench_util.h"
#include "bench/encoding/codec.h"
#include "bench/encoding/frames.h"
#include "bench/recorded_stream.h"
#include "proto/arena.h"
#include "proto/format.h"
#include "proto/frame_compressor.h"

namespace gpuprobe::proto {
namespace {

using bench::Recording;

double Seconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

class Compressor {
 public:
  Compressor() : memory_(kBytes) {
    Arena arena(memory_.data() + 64 - reinterpret_cast<uintptr_t>(memory_.data()) % 64,
                kBytes - 64);
    compressor_.TakeContext(&arena, 1);
    compressor_.TakeOutput(&arena, kMaxFrameBytes);
    if (!arena.fits() || !compressor_.Init()) std::exit(1);
  }
  void Compress(const std::vector<uint8_t>& plain, size_t size, std::string* out) {
    const size_t bytes = compressor_.Compress(plain.data(), size);
    out->assign(reinterpret_cast<const char*>(compressor_.output()), bytes);
  }

 private:
  static constexpr size_t kBytes = 24u << 20;
  std::vector<uint8_t> memory_;
  FrameCompressor compressor_;
};

struct Result {
  double call_bytes = 0, kernel_bytes = 0, encode_s = 1e9, decode_s = 1e9;
};

template <Scheme S>
Result Measure(const std::vector<Frame>& frames, int rounds) {
  static Compressor compressor;
  Codec<S> codec;
  Result best;
  std::vector<uint8_t> plain;
  std::vector<std::string> calls(frames.size()), kernels(frames.size());
  std::vector<Record> decoded_calls, decoded_kernels;
  ZSTD_DCtx* context = ZSTD_createDCtx();
  plain.resize(kMaxFrameBytes + 8);  // once: not part of what is measured
  const auto decompress = [&](const std::string& from) {
    return ZSTD_decompressDCtx(context, plain.data(), kMaxFrameBytes, from.data(), from.size());
  };
  for (int round = 0; round < rounds; ++round) {
    double begin = Seconds();
    for (size_t i = 0; i < frames.size(); ++i) {
      const Frame& frame = frames[i];
      size_t size = codec.template Encode<false>(frame.calls, frame.call_lanes, &plain);
      compressor.Compress(plain, size, &calls[i]);
      size = codec.template Encode<true>(frame.kernels, frame.kernel_lanes, &plain);
      compressor.Compress(plain, size, &kernels[i]);
    }
    best.encode_s = std::min(best.encode_s, Seconds() - begin);
    double decode_s = 0;
    for (size_t i = 0; i < frames.size(); ++i) {
      begin = Seconds();
      codec.template Decode<false>(plain, decompress(calls[i]), &decoded_calls);
      codec.template Decode<true>(plain, decompress(kernels[i]), &decoded_kernels);
      decode_s += Seconds() - begin;
      if (round == 0 &&
          (decoded_calls != codec.InLanes(frames[i].calls, frames[i].call_lanes) ||
           decoded_kernels != codec.InLanes(frames[i].kernels, frames[i].kernel_lanes))) {
        std::printf("  WRONG: not what was encoded\n");
        std::exit(1);
      }
    }
    best.decode_s = std::min(best.decode_s, decode_s);
  }
  ZSTD_freeDCtx(context);
  for (size_t i = 0; i < frames.size(); ++i) {
    best.call_bytes += static_cast<double>(calls[i].size());
    best.kernel_bytes += static_cast<double>(kernels[i].size());
  }
  return best;
}

void Run(const std::string& label, const std::vector<Frame>& frames, int rounds) {
  double calls = 0, kernels = 0;
  for (const Frame& frame : frames) {
    calls += static_cast<double>(frame.calls.size());
    kernels += static_cast<double>(frame.kernels.size());
  }
  std::printf("\n%s: %.0f calls, %.0f kernels, %zu frames\n", label.c_str(), calls, kernels,
              frames.size());
  std::printf("  %-40s %8s %8s %8s %8s %10s %10s\n", "bytes and ns a record", "a call", "a kernel",
              "together", "", "encode ns", "decode ns");
  double shipped = 0;
  const auto line = [&](const char* name, const Result& r) {
    const double n = calls + kernels, bytes = (r.call_bytes + r.kernel_bytes) / n;
    if (shipped == 0) shipped = bytes;
    std::printf("  %-40s %8.3f %8.3f %8.3f %+7.1f%% %10.1f %10.1f\n", name,
                calls == 0 ? 0 : r.call_bytes / calls, kernels == 0 ? 0 : r.kernel_bytes / kernels,
                bytes, (bytes / shipped - 1) * 100, r.encode_s * 1e9 / n, r.decode_s * 1e9 / n);
  };
  line("as shipped", Measure<Scheme{}>(frames, rounds));
  line("one lane for all", Measure<Scheme{.one_lane = true}>(frames, rounds));
  line("tick grid", Measure<Scheme{.ticks = true}>(frames, rounds));
  line("predicted durations", Measure<Scheme{.durations = true}>(frames, rounds));
  line("predicted starts", Measure<Scheme{.starts = true}>(frames, rounds));
  line("predicted starts, not by the call",
       Measure<Scheme{.starts = true, .by_call = false}>(frames, rounds));
  line("predicted both", Measure<Scheme{.durations = true, .starts = true}>(frames, rounds));
  line(
      "predicted both, kernels only",
      Measure<Scheme{.durations = true, .starts = true, .calls_predicted = false}>(frames, rounds));
  line("the same, not by the call",
       Measure<Scheme{
           .durations = true, .starts = true, .by_call = false, .calls_predicted = false}>(frames,
                                                                                           rounds));
  line("predicted both, calls scaled",
       Measure<Scheme{.durations = true, .starts = true, .calls_scaled = true}>(frames, rounds));
  line("predicted both, all scaled",
       Measure<Scheme{
           .durations = true, .starts = true, .calls_scaled = true, .kernels_scaled = true}>(
           frames, rounds));
  line("all together: grid, both, calls scaled",
       Measure<Scheme{.ticks = true, .durations = true, .starts = true, .calls_scaled = true}>(
           frames, rounds));
}

std::vector<Frame> FramesOf(const Recording& recording, size_t frame_records) {
  FrameMaker maker(frame_records);
  for (size_t i = 0; i < recording.size(); ++i) bench::Normalise(recording.at(i), &maker);
  return maker.Take();
}

int Main(int argc, char** argv) {
  bool smoke = false;
  size_t frame_records = 0;
  const char* shared = std::getenv("GPUPROBE_TEST_SHARED");
  std::string directory =
      std::string(shared == nullptr ? "../shared" : shared) + "/cupti-recordings";
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument == "--smoke") {
      smoke = true;
    } else if (argument == "--frame" && i + 1 < argc) {
      frame_records = std::strtoull(argv[++i], nullptr, 10);
    } else {
      directory = argument;
    }
  }
  bench::PrintMachine();
  if (smoke) {
    Run("invented", FramesOf(bench::Invented(20000), 0), 1);
    return 0;
  }
  constexpr int kRounds = 9;
  int runs = 0;
  for (const char* name : {"gpt_train", "resnet_dataloader"}) {
    Recording recording;
    if (!bench::Load(directory, name, &recording)) continue;
    for (const Recording& data : {recording, bench::WithoutChatter(recording)}) {
      const std::string label = &data == &recording ? name : data.label;
      Run(label, FramesOf(data, frame_records), kRounds);
    }
    ++runs;
  }
  if (runs == 0) {
    std::printf("no recordings in %s: invented records instead\n", directory.c_str());
    Run("invented", FramesOf(bench::Invented(200000), frame_records), kRounds);
  }
  return 0;
}

}  // namespace
}  // namespace gpuprobe::proto

int main(int argc, char** argv) { return gpuprobe::proto::Main(argc, argv); }
