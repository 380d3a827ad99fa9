// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "tests/sim/lib/replay.h"

#include <cupti.h>
#include <time.h>
#include <zlib.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "tests/sim/lib/cupti_buffers.h"
#include "tests/sim/lib/cupti_layout.h"
#include "tests/sim/lib/cupti_state.h"

namespace gpuprobe::sim {
namespace {

int64_t MonotonicNs() {
  timespec ts;
  clock_gettime(CLOCK_MONOTONIC, &ts);
  return ts.tv_sec * int64_t{1'000'000'000} + ts.tv_nsec;
}

bool EndsWith(const std::string& text, const std::string& end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

std::string NamesPath(std::string path) {
  for (const char* suffix : {".gz", ".cuptibuf"}) {
    if (EndsWith(path, suffix)) path.resize(path.size() - strlen(suffix));
  }
  return path + ".names";
}

template <class Value>
Value Read(const uint8_t* at) {
  Value value;
  memcpy(&value, at, sizeof value);
  return value;
}

}  // namespace

Replay& Replay::Get() {
  static Replay* replay = new Replay;  // never destroyed: records point to its strings
  return *replay;
}

Replay::Replay() {
  const char* path = getenv("GPUSIM_REPLAY");
  if (path == nullptr || *path == '\0') return;
  asked_for_ = true;
  if (!Load(path) || !FindFirstTime()) return;
  LoadNames(NamesPath(path));
  loaded_monotonic_ns_ = MonotonicNs();
  usable_ = true;
}

bool Replay::Load(const std::string& path) {
  gzFile file = gzopen(path.c_str(), "rb");  // reads uncompressed files as well
  if (file == nullptr) return false;
  bool complete = true;
  while (true) {
    uint8_t header[8];
    const int got = gzread(file, header, sizeof header);
    if (got == 0) break;
    const uint64_t bytes = Read<uint64_t>(header);
    constexpr uint64_t kMaxBufferBytes = uint64_t{1} << 30;
    if (got != sizeof header || bytes > kMaxBufferBytes) {
      complete = false;
      break;
    }
    std::vector<uint8_t> buffer(bytes);
    if (gzread(file, buffer.data(), static_cast<unsigned>(bytes)) != static_cast<int>(bytes)) {
      complete = false;
      break;
    }
    buffers_.push_back(std::move(buffer));
  }
  gzclose(file);
  return complete && !buffers_.empty();
}

void Replay::LoadNames(const std::string& path) {
  FILE* file = fopen(path.c_str(), "re");
  if (file == nullptr) return;
  char* line = nullptr;
  size_t capacity = 0;
  while (getline(&line, &capacity, file) > 0) {
    char* tab = strchr(line, '\t');
    if (tab == nullptr) continue;
    line[strcspn(line, "\n")] = '\0';
    names_[strtoull(line, nullptr, 16)] = new std::string(tab + 1);
  }
  free(line);
  fclose(file);
}

bool Replay::FindFirstTime() {
  int64_t first = INT64_MAX;
  for (const auto& buffer : buffers_) {
    for (size_t at = 0; at < buffer.size();) {
      const uint32_t kind = Read<uint32_t>(buffer.data() + at);
      const size_t bytes = RecordBytes(kind);
      if (bytes == 0 || at + bytes > buffer.size()) return false;
      const bool is_api = kind == CUPTI_ACTIVITY_KIND_RUNTIME || kind == CUPTI_ACTIVITY_KIND_DRIVER;
      TimeFields times{offsetof(CUpti_ActivityAPI, start), 0, false};
      if (is_api || TimesOf(kind, &times)) {
        const int64_t start = Read<int64_t>(buffer.data() + at + times.start);
        if (start > 0 && start < first) first = start;
      }
      at += bytes;
    }
  }
  first_ns_ = first == INT64_MAX ? 0 : first;
  return true;
}

bool Replay::Now(int64_t* ns) const {
  if (!usable_) return false;
  *ns = first_ns_ + (MonotonicNs() - loaded_monotonic_ns_);
  return true;
}

void Replay::PatchName(uint8_t* record, uint32_t kind) const {
  size_t field;
  if (kind == CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL || kind == CUPTI_ACTIVITY_KIND_KERNEL) {
    field = offsetof(CUpti_ActivityKernel10, name);
  } else if (kind == CUPTI_ACTIVITY_KIND_DEVICE) {
    field = offsetof(CUpti_ActivityDevice5, name);
  } else {
    return;
  }
  const auto it = names_.find(Read<uint64_t>(record + field));
  const char* name = it != names_.end() ? it->second->c_str() : nullptr;
  memcpy(record + field, &name, sizeof name);
}

int Replay::DeliverBuffer(const uint8_t* data, size_t bytes) {
  // A replay is not bound to the pace of a GPU: a client out of buffers gets time to drain, unless
  // the test is about refusal (GPUSIM_REPLAY_DROP=1), where records are dropped as CUPTI does.
  const char* drop = getenv("GPUSIM_REPLAY_DROP");
  const bool may_wait = drop == nullptr || strcmp(drop, "1") != 0;
  constexpr int kMaxWaits = 10'000;  // of 1 ms
  for (size_t at = 0; at < bytes;) {
    ActivityBuffer buffer = Buffers::Get().Request();
    for (int waits = 0; buffer.data == nullptr && may_wait && waits < kMaxWaits; ++waits) {
      timespec ms{0, 1'000'000};
      nanosleep(&ms, nullptr);
      buffer = Buffers::Get().Request();
    }
    if (buffer.data == nullptr && may_wait) return -3;
    buffer.recorded = true;
    while (at < bytes) {
      const uint32_t kind = Read<uint32_t>(data + at);
      const size_t record_bytes = RecordBytes(kind);
      if (buffer.data == nullptr) {
        Buffers::Get().Drop(kind, 1);
      } else {
        const bool full = buffer.max_records != 0 && buffer.records == buffer.max_records;
        if (full || buffer.used + record_bytes > buffer.size) break;
        memcpy(buffer.data + buffer.used, data + at, record_bytes);
        PatchName(buffer.data + buffer.used, kind);
        buffer.used += record_bytes;
        ++buffer.records;
      }
      Count(Tally::kRecordEmitted, kind, 1);
      at += record_bytes;
    }
    if (buffer.data != nullptr) sim::Deliver({buffer}, true);
  }
  return 0;
}

int Replay::Deliver() {
  if (!asked_for_ || !usable_) return -2;
  if (CuptiState::Get().request == nullptr) return -1;
  for (const auto& buffer : buffers_) {
    const int result = DeliverBuffer(buffer.data(), buffer.size());
    if (result != 0) return result;
  }
  return 0;
}

}  // namespace gpuprobe::sim
