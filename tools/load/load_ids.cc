// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// What records name by a number of their frame or their process: names, symbols and shapes,
// devices, streams and threads, and the numbers that the Timeline has for them.
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "tools/analysis/analysis.h"
#include "tools/load/file_loader.h"

namespace gpuprobe::tools {
namespace {

constexpr uint32_t kInvalidId = 0xffffffffu;  // CUPTI: no such stream or event

// "GPU-xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx", as nvidia-smi prints it; empty if it is not 16 bytes.
std::string UuidText(const std::string& bytes) {
  if (bytes.size() != 16 || bytes == std::string(16, '\0')) return "";
  const std::string hex = absl::BytesToHexString(bytes);
  return absl::StrCat("GPU-", hex.substr(0, 8), "-", hex.substr(8, 4), "-", hex.substr(12, 4), "-",
                      hex.substr(16, 4), "-", hex.substr(20));
}

template <typename T>
int32_t Last(const std::vector<T>& items) {
  return static_cast<int32_t>(items.size()) - 1;
}

// Id of the frame's dictionary -> id of the Timeline; -1 for what the frame does not define.
int32_t Lookup(const std::vector<int32_t>& ids, uint32_t id) {
  return id < ids.size() ? ids[id] : -1;
}

}  // namespace

int32_t FileLoader::InternName(const std::string& name) {
  const auto [at, added] =
      names_.try_emplace(name, static_cast<int32_t>(run_->timeline.names.size()));
  if (added) {
    run_->timeline.names.push_back(name);
    communicates_.push_back(IsCommunicationKernel(name));
  }
  return at->second;
}

int32_t FileLoader::InternSymbol(const std::string& name, const ::gpuprobe::ApiSymbol& symbol) {
  const bool driver = symbol.domain() == SymbolDomain::DRIVER;
  const auto api_class = static_cast<uint32_t>(symbol.api_class());
  const auto [at, added] = symbols_.try_emplace(
      std::tuple(name, api_class, driver), static_cast<int32_t>(run_->timeline.symbols.size()));
  if (added) {
    // Classes of a newer writer read as "other".
    const bool known = api_class <= static_cast<uint32_t>(CallClass::kHostFunc);
    run_->timeline.symbols.push_back(
        {name, known ? static_cast<CallClass>(api_class) : CallClass::kOther, driver});
  }
  return at->second;
}

int32_t FileLoader::DeviceOf(uint32_t ordinal, FileState* file) {
  const auto at = file->devices.find(ordinal);
  if (at != file->devices.end()) return at->second;
  // A batch on a device that no dictionary describes: a device of this process alone.
  Device device = {};
  device.ordinal = static_cast<int32_t>(ordinal);
  run_->timeline.devices.push_back(device);
  return file->devices[ordinal] = Last(run_->timeline.devices);
}

void FileLoader::DescribeDevice(const DeviceInfo& info, FileState* file) {
  const std::string uuid = UuidText(info.uuid());
  const Device described = {uuid, info.name(), static_cast<int32_t>(info.device()),
                            info.memory_bytes(), info.sm_count()};
  const auto known = uuid.empty() ? device_by_uuid_.end() : device_by_uuid_.find(uuid);
  const auto placed = file->devices.find(info.device());
  if (placed == file->devices.end()) {
    if (known == device_by_uuid_.end()) {
      run_->timeline.devices.push_back(described);
      if (!uuid.empty()) device_by_uuid_[uuid] = Last(run_->timeline.devices);
    }
    file->devices[info.device()] =
        known != device_by_uuid_.end() ? known->second : Last(run_->timeline.devices);
    return;
  }
  // CUPTI tells of a device in one of its buffers, and other threads' work can reach the trace
  // before it: what was a device without a name turns out to be this one.
  const int32_t nameless = placed->second;
  Device& device = run_->timeline.devices[static_cast<size_t>(nameless)];
  if (!device.uuid.empty() || !device.name.empty()) return;
  if (known == device_by_uuid_.end() || known->second == nameless) {
    device = described;
    if (!uuid.empty()) device_by_uuid_[uuid] = nameless;
    return;
  }
  placed->second = known->second;
  same_device_[nameless] = known->second;
  const auto streams = file->streams;
  for (const auto& [key, stream] : streams) {
    const auto& [of_device, context, id] = key;
    if (of_device != nameless) continue;
    file->streams[{known->second, context, id}] = stream;
    run_->timeline.streams[static_cast<size_t>(stream)].device = known->second;
  }
}

// Leaves out the devices that turned out to be others, and renumbers the rest.
void FileLoader::MergeDevices() {
  if (same_device_.empty()) return;
  Timeline& timeline = run_->timeline;
  std::vector<Device> kept;
  std::vector<int32_t> renumbered(timeline.devices.size());
  for (size_t i = 0; i < timeline.devices.size(); ++i) {
    if (same_device_.contains(static_cast<int32_t>(i))) continue;
    renumbered[i] = static_cast<int32_t>(kept.size());
    kept.push_back(std::move(timeline.devices[i]));
  }
  for (const auto& [nameless, known] : same_device_) {
    renumbered[static_cast<size_t>(nameless)] = renumbered[static_cast<size_t>(known)];
  }
  timeline.devices = std::move(kept);
  const auto renumber = [&renumbered](auto* items) {
    for (auto& item : *items) {
      if (item.device >= 0) item.device = renumbered[static_cast<size_t>(item.device)];
    }
  };
  renumber(&timeline.ops);
  renumber(&timeline.untimed);
  renumber(&timeline.syncs);
  renumber(&timeline.streams);
  const auto renumber_one = [&renumbered](int32_t* device) {
    if (*device >= 0) *device = renumbered[static_cast<size_t>(*device)];
  };
  for (OpenedFile& opened : opened_) {
    for (FrameOutline& frame : opened.frames) {
      for (int32_t& device : frame.devices) renumber_one(&device);
    }
    for (auto& [id, file] : opened.states) {
      for (auto& [ordinal, device] : file.devices) renumber_one(&device);
      std::map<std::tuple<int32_t, uint32_t, uint32_t>, int32_t> streams;
      for (const auto& [key, stream] : file.streams) {
        auto [device, context, number] = key;
        renumber_one(&device);
        streams.emplace(std::tuple(device, context, number), stream);
      }
      file.streams = std::move(streams);
    }
  }
  std::set<std::pair<int32_t, int32_t>> process_devices;
  for (auto [process, device] : process_devices_) {
    renumber_one(&device);
    process_devices.insert({process, device});
  }
  process_devices_ = std::move(process_devices);
  std::map<std::pair<int32_t, int32_t>, uint64_t> operations;
  for (const auto& [process_device, count] : operations_) {
    auto [process, device] = process_device;
    renumber_one(&device);
    operations[{process, device}] += count;
  }
  operations_ = std::move(operations);
}

int32_t FileLoader::StreamOf(int32_t device, uint32_t context, uint32_t stream, FileState* file) {
  if (stream == kInvalidId) return -1;
  const auto [at, added] = file->streams.try_emplace(
      {device, context, stream}, static_cast<int32_t>(run_->timeline.streams.size()));
  if (added) {
    const auto null_stream = file->context_null_stream.find(context);
    const bool is_null =
        null_stream != file->context_null_stream.end() && null_stream->second == stream;
    run_->timeline.streams.push_back({file->process, device, context, stream, is_null});
  }
  return at->second;
}

int32_t FileLoader::ThreadOf(uint32_t tid, FileState* file) {
  const auto [at, added] =
      file->threads.try_emplace(tid, static_cast<int32_t>(run_->timeline.threads.size()));
  if (added) {
    const uint32_t pid = run_->timeline.processes[static_cast<size_t>(file->process)].pid;
    run_->timeline.threads.push_back({file->process, tid, "", tid == pid});
  }
  return at->second;
}

void FileLoader::LoadDictionary(const Dictionary& dictionary, FileState* file) {
  FrameIds& ids = file->ids;
  for (const std::string& name : dictionary.names()) ids.names.push_back(InternName(name));
  for (const std::string& name : dictionary.marker_names()) ids.marker_names.push_back(&name);
  for (const auto& s : dictionary.shapes()) {
    const auto [at, added] = shapes_.try_emplace(
        std::array<uint32_t, 13>{s.grid_x(), s.grid_y(), s.grid_z(), s.block_x(), s.block_y(),
                                 s.block_z(), s.cluster_x(), s.cluster_y(), s.cluster_z(),
                                 s.static_shared_bytes(), s.dynamic_shared_bytes(),
                                 s.registers_per_thread(), s.local_bytes_per_thread()},
        static_cast<int32_t>(run_->timeline.shapes.size()));
    if (added) {
      run_->timeline.shapes.push_back({{s.grid_x(), s.grid_y(), s.grid_z()},
                                       {s.block_x(), s.block_y(), s.block_z()},
                                       {s.cluster_x(), s.cluster_y(), s.cluster_z()},
                                       s.static_shared_bytes(),
                                       s.dynamic_shared_bytes(),
                                       s.registers_per_thread(),
                                       s.local_bytes_per_thread()});
    }
    const int32_t name = Lookup(ids.names, s.name() - 1);
    const bool communicates = name >= 0 && communicates_[static_cast<size_t>(name)];
    ids.shapes.push_back(
        {name, at->second, communicates ? OpClass::kCommunication : OpClass::kCompute});
  }
  for (const auto& symbol : dictionary.api_symbols()) {
    const int32_t name = Lookup(ids.names, symbol.name() - 1);
    ids.symbols.push_back(InternSymbol(
        name >= 0 ? run_->timeline.names[static_cast<size_t>(name)]
                  : absl::StrCat(symbol.domain() == SymbolDomain::DRIVER ? "driver" : "runtime",
                                 " call ", symbol.cbid()),
        symbol));
  }
  for (const auto& s : dictionary.copy_shapes()) {
    const auto [at, added] = copy_shapes_.try_emplace(
        std::array<uint32_t, 5>{s.copy_kind(), s.src_kind(), s.dst_kind(), s.flags(), s.peer()},
        static_cast<int32_t>(run_->timeline.copy_shapes.size()));
    if (added) {
      run_->timeline.copy_shapes.push_back(
          {static_cast<uint8_t>(s.copy_kind()), static_cast<uint8_t>(s.src_kind()),
           static_cast<uint8_t>(s.dst_kind()), static_cast<uint8_t>(s.flags()), s.peer()});
    }
    ids.copy_shapes.push_back({-1, at->second, OpClass::kCopy});
  }
  for (const DeviceInfo& info : dictionary.devices()) DescribeDevice(info, file);
  for (const ContextInfo& context : dictionary.contexts()) {
    file->context_device[context.context()] = context.device();
    file->context_null_stream[context.context()] = context.null_stream();
  }
}

}  // namespace gpuprobe::tools
