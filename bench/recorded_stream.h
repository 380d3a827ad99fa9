// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Recorded CUPTI 13.0 activity buffers for benchmarks: a parser that knows just the recorded
// layouts (the real one is cupti/), replication with noise, and invented records where there are no
// recordings.
#ifndef GPUPROBE_BENCH_RECORDED_STREAM_H_
#define GPUPROBE_BENCH_RECORDED_STREAM_H_

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <fstream>
#include <map>
#include <random>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "ringbuf/records.h"

namespace gpuprobe::bench {

// Kinds and sizes of CUPTI 13.0 records, as the recordings hold them.
inline constexpr uint32_t kMemcpy = 1, kMemset = 2, kRuntime = 5, kKernel = 10, kCudaEvent = 36,
                          kSync = 38;
inline const std::map<uint32_t, size_t> kSizes = {{1, 96},  {2, 88},   {5, 40},  {8, 184},
                                                  {9, 32},  {10, 216}, {17, 56}, {36, 56},
                                                  {37, 24}, {38, 56}};
// cudaGetDevice, cudaGetLastError, cudaPeekAtLastError: not recorded by default.
inline constexpr uint32_t kChatter[] = {17, 10, 11};

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
inline Offsets OffsetsOf(uint32_t kind) {
  switch (kind) {
    case kKernel:
      return {16, 24, 92};
    case kMemcpy:
    case kMemset:
      return {16, 24, 44};
    case kRuntime:
      return {8, 16, 32};
    case kSync:
      return {8, 16, 24};
    default:
      return {0, 0, 4};  // kCudaEvent: no times
  }
}

// Raw structures one behind the other, in CUPTI's order, as in its buffers.
struct Recording {
  std::string label;
  std::vector<uint8_t> bytes;
  std::vector<size_t> offsets;  // of each record, and the end
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

inline std::string ReadCommand(const std::string& command) {
  std::string out;
  FILE* pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return out;
  std::vector<char> chunk(1 << 16);
  for (size_t got; (got = fread(chunk.data(), 1, chunk.size(), pipe)) > 0;)
    out.append(chunk.data(), got);
  pclose(pipe);
  return out;
}

inline bool Load(const std::string& directory, const std::string& name, Recording* out) {
  const std::string data =
      ReadCommand("gzip -dc '" + directory + "/" + name + ".cuptibuf.gz' 2>/dev/null");
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
      if (kind == kMemcpy || kind == kMemset || kind == kRuntime || kind == kKernel ||
          kind == kCudaEvent || kind == kSync) {
        uint8_t* raw = out->Add(bytes + at, size);
        // The recorded process's pointers become ours.
        if (kind == kKernel) Put(raw, 104, names[Get<uint64_t>(raw, 104)]);
      }
      at += size;
    }
  }
  return true;
}

inline Recording Invented(size_t count) {
  Recording r;
  r.label = "invented";
  for (int i = 0; i < 20; ++i)
    r.names.push_back("_Z6kernel" + std::string(150, 'x') + std::to_string(i));
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

inline Recording WithoutChatter(const Recording& from) {
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
inline uint64_t LaneOf(const uint8_t* raw) {
  switch (Get<uint32_t>(raw, 0)) {
    case kRuntime:
      return uint64_t{1} << 62 | Get<uint32_t>(raw, 28);
    case kKernel:
      return Get<uint32_t>(raw, 48);
    case kMemcpy:
    case kMemset:
      return Get<uint32_t>(raw, 40);
    default:
      return uint64_t{1} << 63;
  }
}

inline Recording Replicate(const Recording& from, size_t count) {
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
      ApiRecord r = {start,
                     end,
                     ApiDomain::kRuntime,
                     Get<uint32_t>(raw, 4),
                     0,
                     Get<uint32_t>(raw, 28),
                     correlation,
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
      SyncRecord r = {start,
                      end,
                      raw[4],
                      Get<uint32_t>(raw, 28),
                      Get<uint32_t>(raw, 32),
                      Get<uint32_t>(raw, 36),
                      correlation,
                      Get<uint64_t>(raw, 40),
                      Get<int32_t>(raw, 48)};
      sink->OnSync(r);
      break;
    }
    default:
      sink->OnCudaEvent({Get<uint32_t>(raw, 8), Get<uint32_t>(raw, 12), Get<uint32_t>(raw, 16),
                         correlation, Get<uint64_t>(raw, 48)});
  }
}

}  // namespace gpuprobe::bench

#endif  // GPUPROBE_BENCH_RECORDED_STREAM_H_
