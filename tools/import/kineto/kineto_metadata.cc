// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// What a document says of itself: the members around its rows, its metadata rows, who it is of.
#include <algorithm>
#include <limits>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tools/format/format_text.h"
#include "tools/import/kineto/kineto_loader.h"
#include "tools/import/text/exact_time.h"

namespace gpuprobe::tools {
namespace {

using namespace std::string_view_literals;

std::string LaneKey(std::string_view pid, std::string_view tid) {
  std::string key(pid);
  key.push_back('\0');
  return key.append(tid);
}

// "thread 4711 (pt_main_thread)" -> "pt_main_thread": the number stands beside it anyway.
std::string ThreadName(const std::string& label, std::string_view tid) {
  const std::string prefix = absl::StrCat("thread ", std::string(tid), " (");
  if (!label.starts_with(prefix) || !label.ends_with(")")) return label;
  return label.substr(prefix.size(), label.size() - prefix.size() - 1);
}

// 12040 -> "12.4", as CUDA writes its versions.
std::string CudaVersion(std::string_view value) {
  const auto version = IntegerOf(value);
  if (!version || *version < 1000) return std::string(value);
  return absl::StrCat(*version / 1000, ".", *version % 1000 / 10);
}

}  // namespace

void KinetoLoader::AddMetadata(const Row& row) {
  const std::string pid(row.pid.raw);
  if (row.name.raw == "thread_name"sv) {
    document_.thread_names[LaneKey(pid, row.tid.raw)] =
        ThreadName(ToValidUtf8(Unescape(row.label)), row.tid.raw);
  } else if (row.name.raw == "process_name"sv) {
    document_.process_names[pid] = ToValidUtf8(Unescape(row.label));
  } else if (row.name.raw == "process_labels"sv) {
    document_.process_labels[pid] = ToValidUtf8(Unescape(row.labels));
  }
}

void KinetoLoader::AddDistributedInfo(std::string_view value) {
  if (!value.starts_with('{')) return;
  JsonCursor cursor(value.data(), value.data() + value.size());
  // A member that is no JSON ends it: what stood before counts.
  cursor.Object([&](std::string_view key) {
    JsonText text;
    const Scan scan = cursor.Value(&text);
    const int64_t number = IntegerOf(text.raw).value_or(-1);
    const bool fits = number >= 0 && number <= std::numeric_limits<int32_t>::max();
    if (key == "rank"sv && fits) document_.member.rank = static_cast<int32_t>(number);
    if (key == "world_size"sv && fits) document_.member.world_size = static_cast<int32_t>(number);
    if (key == "backend"sv) document_.member.backend = ToValidUtf8(Unescape(text));
    return scan;
  });
}

void KinetoLoader::AddDeviceProperties(std::string_view value) {
  if (!value.starts_with('[')) return;
  JsonCursor cursor(value.data(), value.data() + value.size());
  cursor.Array([&] {
    if (cursor.Peek() != '{') return cursor.Skip();
    Device device = {};
    int64_t id = -1;
    const Scan scan = cursor.Object([&](std::string_view key) {
      JsonText text;
      const Scan value_scan = cursor.Value(&text);
      const int64_t number = IntegerOf(text.raw).value_or(-1);
      if (key == "id"sv) id = number;
      if (key == "name"sv) device.name = ToValidUtf8(Unescape(text));
      if (key == "uuid"sv) device.uuid = ToValidUtf8(Unescape(text));
      if (key == "totalGlobalMem"sv && number > 0) {
        device.memory_bytes = static_cast<uint64_t>(number);
      }
      if (key == "numSms"sv && number > 0) device.sm_count = static_cast<uint32_t>(number);
      return value_scan;
    });
    if (id >= 0) document_.properties[id] = std::move(device);
    return scan;
  });
}

void KinetoLoader::AddMember(std::string_view key, std::string_view value) {
  const auto version = [&](const char* what, const std::string& text) {
    document_.versions.push_back(absl::StrCat(what, " ", ToPrintable(text)));
  };
  if (key == "distributedInfo"sv) {
    AddDistributedInfo(value);
  } else if (key == "deviceProperties"sv) {
    AddDeviceProperties(value);
  } else if (key == "baseTimeNanoseconds"sv) {
    document_.base_ns = std::clamp<int64_t>(IntegerOf(value).value_or(0), 0, kLatestRowNs / 2);
  } else if (key == "schemaVersion"sv) {
    version("schema", std::string(value));
  } else if (key == "cupti_version"sv) {
    version("CUPTI", std::string(value));
  } else if (key == "cuda_runtime_version"sv) {
    version("CUDA runtime", CudaVersion(value));
  } else if (key == "cuda_driver_version"sv) {
    version("driver for CUDA", CudaVersion(value));
  } else if (key == "roctracer_version"sv) {
    version("roctracer", std::string(value));
  }
}

void KinetoLoader::NameThreadsAndProcess() {
  Timeline& timeline = run_->timeline;
  Process& process = timeline.processes[static_cast<size_t>(document_.process)];
  std::string pid = document_.call_pid;
  for (const auto& [of, label] : document_.process_labels) {
    if (pid.empty() && label == "CPU") pid = of;
  }
  if (pid.empty()) pid = document_.span_pid;
  process.pid = static_cast<uint32_t>(std::max<int64_t>(IntegerOf(pid).value_or(0), 0));
  const auto name = document_.process_names.find(pid);
  if (name != document_.process_names.end()) process.executable = name->second;
  for (const auto& [key, index] : document_.threads) {
    Thread& thread = timeline.threads[static_cast<size_t>(index)];
    thread.main = thread.tid != 0 && thread.tid == process.pid;
    const auto known = document_.thread_names.find(key);
    if (known != document_.thread_names.end() && thread.tid != 0) thread.name = known->second;
  }
  for (const auto& [text, index] : document_.devices) {
    Device& device = timeline.devices[static_cast<size_t>(index)];
    const auto known = document_.properties.find(device.ordinal);
    if (known == document_.properties.end()) continue;
    const int32_t ordinal = device.ordinal;
    device = known->second;
    device.ordinal = ordinal;
  }
}

void KinetoLoader::DescribeSource(Process* process, ProcessCapture* capture) {
  process->has_runtime_api = document_.runtime_calls > 0;
  process->has_driver_api = document_.driver_calls > 0;
  process->has_sync_records = !document_.sync_lanes.empty();
  process->ended = true;
  process->rank = document_.member.rank;
  capture->world_size = document_.member.world_size;
  capture->recorder =
      absl::StrCat("PyTorch profiler (Kineto)", document_.versions.empty() ? "" : ", ",
                   absl::StrJoin(document_.versions, ", "));
  capture->absent = {"how much the profiler lost", "what was queued when"};
  if (document_.runtime_calls + document_.driver_calls == 0) {
    capture->absent.push_back("host calls");
  }
  if (document_.sync_lanes.empty()) capture->absent.push_back("stream waits");
  capture->absent.push_back(document_.python_rows > 0 ? "whether threads ran or were blocked"
                                                      : "what threads did outside CUDA");
}

}  // namespace gpuprobe::tools
