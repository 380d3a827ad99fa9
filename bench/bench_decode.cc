// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// What does it cost to turn an activity buffer into normalised records? Nanoseconds a record, by
// kind and on the mix of recorded PyTorch runs, into a sink that only counts.
//
//   own walk     by our table of sizes
//   cupti walk   by a stand-in for cuptiActivityGetNextRecord (a call through a pointer a record;
//   the
//                real one does more)
//   both         own walk while every buffer is verified against the stand-in (first buffers of a
//   run)
//
// usage: bench_decode [--smoke] [RECORDING.cuptibuf.gz ...]
#include <time.h>
#include <zlib.h>

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "bench/null_sink.h"
#include "cupti/api_calls.h"
#include "cupti/record_decode_inl.h"

namespace gpuprobe::cupti {
namespace {

constexpr uint32_t kVersion = 130001;
constexpr size_t kBufferBytes = 1 << 20;

RecordLayout g_layout;    // what the stand-in walks by
uint16_t g_wrong_by = 0;  // ... and by how much it is wrong about every size

Result WalkBySizes(uint8_t* buffer, size_t valid_bytes, void** record) {
  uint8_t* next = buffer;
  if (*record != nullptr) {
    uint8_t* const current = static_cast<uint8_t*>(*record);
    next = current + g_layout.size_bytes[LoadU32(current) % kKindLimit] + g_wrong_by;
  }
  if (static_cast<size_t>(buffer + valid_bytes - next) < kRecordAlignment_bytes) {
    return decode_internal::kMaxLimitReached;
  }
  *record = next;
  return kSuccess;
}

using Buffers = std::vector<std::vector<uint8_t>>;

// CPU time, so that other users of the machine do not count.
double ThreadCpuNs() {
  timespec time;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) * 1e9 + static_cast<double>(time.tv_nsec);
}

enum class Walk { kOwn, kCupti, kBoth };

double NsPerRecord(Buffers* buffers, Walk walk, bool recorded_only, double seconds) {
  CuptiApi api;
  api.ActivityGetNextRecord = &WalkBySizes;
  bench::NullSink sink;
  DecodeStats stats = {};
  uint64_t seen = 0;
  const double begin_ns = ThreadCpuNs();
  double elapsed_ns = 0;
  do {
    BufferDecoder decoder;
    // Sizes that are wrong at Init and right afterwards make the decoder fall back at its first
    // buffer.
    g_wrong_by = walk == Walk::kCupti ? 8 : 0;
    if (!decoder.Init(walk == Walk::kOwn ? nullptr : &api, kVersion)) return 0;
    g_wrong_by = 0;
    decoder.RecordedCallsOnly(recorded_only);
    for (std::vector<uint8_t>& buffer : *buffers) {
      decoder.Decode(buffer.data(), buffer.size(), &sink, &stats);
    }
    elapsed_ns = ThreadCpuNs() - begin_ns;
    seen = stats.records + stats.folded_driver_calls + stats.chatter_calls + stats.unknown_kind;
  } while (elapsed_ns < seconds * 1e9);
  return seen == 0 ? 0 : elapsed_ns / static_cast<double>(seen);
}

constexpr int64_t kStart = 1'796'036'664'114'978'722;

// Where a kind has what every timed record has.
struct TimedKind {
  const char* name;
  Kind kind;
  size_t start, end, correlation;
};
constexpr TimedKind kTimedKinds[] = {
    {"kernel", Kind::kConcurrentKernel, offset::Kernel::start, offset::Kernel::end,
     offset::Kernel::correlation},
    {"memcpy", Kind::kMemcpy, offset::Memcpy::start, offset::Memcpy::end,
     offset::Memcpy::correlation},
    {"peer copy", Kind::kMemcpy2, offset::MemcpyPtoP::start, offset::MemcpyPtoP::end,
     offset::MemcpyPtoP::correlation},
    {"memset", Kind::kMemset, offset::Memset::start, offset::Memset::end,
     offset::Memset::correlation},
    {"graph", Kind::kGraphTrace, offset::GraphTrace::start, offset::GraphTrace::end,
     offset::GraphTrace::correlation},
    {"synchronization", Kind::kSynchronization, offset::Synchronization::start,
     offset::Synchronization::end, offset::Synchronization::correlation},
    {"overhead", Kind::kOverhead, offset::Overhead::start, offset::Overhead::end,
     offset::Overhead::correlation},
    {"runtime call", Kind::kRuntime, offset::Api::start, offset::Api::end,
     offset::Api::correlation},
    {"driver call, direct", Kind::kDriver, offset::Api::start, offset::Api::end,
     offset::Api::correlation},
};

template <class T>
void Put(uint8_t* at, T value) {
  memcpy(at, &value, sizeof(value));
}

Buffers MakeBuffers(const TimedKind& of) {
  const uint32_t kind = static_cast<uint32_t>(of.kind);
  const size_t size = g_layout.size_bytes[kind];
  std::vector<uint8_t> buffer(kBufferBytes / size * size);
  for (uint32_t i = 0; i < buffer.size() / size; ++i) {
    uint8_t* record = &buffer[i * size];
    Put(record, kind);
    Put(record + of.start, kStart + int64_t{i} * 1000);
    Put(record + of.end, kStart + int64_t{i} * 1000 + 500);
    Put(record + of.correlation, i);
  }
  return {buffer};
}

uint32_t CbidOf(ApiDomain domain, const char* name) {
  size_t count = 0;
  const ApiCall* calls = ApiCalls(domain, &count);
  for (size_t i = 0; i < count; ++i) {
    if (strcmp(calls[i].name, name) == 0) return calls[i].cbid;
  }
  return 0;
}

// Every launch twice: the driver's record, then the runtime's around it.
Buffers MakeNestedCalls() {
  const size_t size = g_layout.size_bytes[static_cast<uint32_t>(Kind::kRuntime)];
  const uint32_t cbids[2] = {CbidOf(ApiDomain::kDriver, "cuLaunchKernel"),
                             CbidOf(ApiDomain::kRuntime, "cudaLaunchKernel")};
  std::vector<uint8_t> buffer(kBufferBytes / size / 2 * 2 * size);
  for (uint32_t i = 0; i < buffer.size() / size; ++i) {
    const bool runtime = i % 2 == 1;
    const int64_t start = kStart + int64_t{i / 2} * 1000;
    uint8_t* record = &buffer[i * size];
    Put(record, static_cast<uint32_t>(runtime ? Kind::kRuntime : Kind::kDriver));
    Put(record + offset::Api::cbid, cbids[runtime]);
    Put(record + offset::Api::start, start + (runtime ? 0 : 1));
    Put(record + offset::Api::end, start + (runtime ? 9 : 8));
    Put(record + offset::Api::thread, 100u);
    Put(record + offset::Api::correlation, i / 2);
  }
  return {buffer};
}

Buffers ReadRecording(const std::string& path) {
  Buffers buffers;
  gzFile file = gzopen(path.c_str(), "rb");
  if (file == nullptr) return buffers;
  uint64_t length = 0;
  while (gzread(file, &length, sizeof(length)) == sizeof(length) && length < (1ull << 30)) {
    std::vector<uint8_t> buffer(length);
    if (gzread(file, buffer.data(), static_cast<unsigned>(length)) != static_cast<int>(length))
      break;
    buffers.push_back(std::move(buffer));
  }
  gzclose(file);
  return buffers;
}

void PrintMachine() {
  char line[256], model[256] = "unknown processor\n";
  if (FILE* info = fopen("/proc/cpuinfo", "r")) {
    while (fgets(line, sizeof(line), info) != nullptr) {
      if (strncmp(line, "model name", 10) != 0) continue;
      snprintf(model, sizeof(model), "%s", strchr(line, ':') + 2);
      break;
    }
    fclose(info);
  }
  printf("machine: %s", model);
  printf("compiler: %s, layout of CUPTI %u\n\n", __VERSION__, kVersion);
}

void Report(const char* name, Buffers buffers, double seconds) {
  size_t bytes = 0;
  for (const auto& buffer : buffers) bytes += buffer.size();
  printf("%-34s %8.2f %10.2f %8.2f   %6.1f MB\n", name,
         NsPerRecord(&buffers, Walk::kOwn, false, seconds),
         NsPerRecord(&buffers, Walk::kCupti, false, seconds),
         NsPerRecord(&buffers, Walk::kBoth, false, seconds), static_cast<double>(bytes) / 1e6);
}

int Main(int argc, char** argv) {
  double seconds = 0.3;
  std::vector<std::string> recordings;
  for (int i = 1; i < argc; ++i) {
    if (strcmp(argv[i], "--smoke") == 0) {
      seconds = 0.002;
    } else {
      recordings.push_back(argv[i]);
    }
  }
  if (!KnownLayout(kVersion, &g_layout)) return 1;
  PrintMachine();
  printf("%-34s %8s %10s %8s   buffers\n", "ns a record", "own walk", "cupti walk", "both");
  for (const TimedKind& kind : kTimedKinds) Report(kind.name, MakeBuffers(kind), seconds);
  Report("driver call folded, and its runtime", MakeNestedCalls(), seconds);
  for (const std::string& path : recordings) {
    Buffers buffers = ReadRecording(path);
    if (buffers.empty()) {
      fprintf(stderr, "%s: not a recording\n", path.c_str());
      return 1;
    }
    const std::string name = path.substr(path.rfind('/') + 1);
    Report(name.c_str(), buffers, seconds);
    printf("%-34s %8.2f\n", "  recorded calls only",
           NsPerRecord(&buffers, Walk::kOwn, true, seconds));
  }
  return 0;
}

}  // namespace
}  // namespace gpuprobe::cupti

int main(int argc, char** argv) { return gpuprobe::cupti::Main(argc, argv); }
