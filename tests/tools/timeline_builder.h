// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Timelines by hand. Things are added in any order; Build() sorts them and links operations and
// synchronisations to calls by correlation id, which is what a Submit/Call returns.
#ifndef GPUPROBE_TESTS_TOOLS_TIMELINE_BUILDER_H_
#define GPUPROBE_TESTS_TOOLS_TIMELINE_BUILDER_H_

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "tools/analysis/analysis.h"
#include "tools/timeline/timeline.h"

namespace gpuprobe::tools {

class TimelineBuilder {
 public:
  // One process (pid 100) with one device, one stream and one thread, all of index 0.
  TimelineBuilder() {
    AddProcess(100, "/usr/bin/python3");
    AddDevice();
    AddStream();
    AddThread(11, "main");
  }

  Timeline t;

  int32_t AddProcess(uint32_t pid, std::string executable) {
    Process process;
    process.pid = pid;
    process.executable = std::move(executable);
    process.rank = -1;
    process.has_runtime_api = process.has_driver_api = process.has_sync_records = true;
    t.processes.push_back(process);
    return Last(t.processes);
  }
  int32_t AddDevice() {
    t.devices.push_back({"GPU-" + std::to_string(t.devices.size()), "H200",
                         static_cast<int32_t>(t.devices.size()), 0, 132});
    return Last(t.devices);
  }
  int32_t AddStream(int32_t device = 0, uint32_t id = 7, int32_t process = 0) {
    t.streams.push_back({process, device, 1, id, false});
    return Last(t.streams);
  }
  int32_t AddThread(uint32_t tid, std::string name, int32_t process = 0) {
    t.threads.push_back({process, tid, std::move(name), false});
    return Last(t.threads);
  }

  // --- calls: return the correlation id ---------------------------------------------------------

  uint32_t Call(const std::string& api, CallClass call_class, int64_t start, int64_t end,
                int32_t thread = 0) {
    t.calls.push_back({start, end, ++correlation_, t.threads[thread].process, thread,
                       Symbol(api, call_class), 0});
    return correlation_;
  }
  uint32_t Launch(int64_t start, int64_t end, int32_t thread = 0) {
    return Call("cudaLaunchKernel", CallClass::kLaunch, start, end, thread);
  }
  uint32_t Sync(int64_t start, int64_t end, int32_t thread = 0) {
    return Call("cudaStreamSynchronize", CallClass::kSync, start, end, thread);
  }

  // --- operations -------------------------------------------------------------------------------

  GpuOp& Kernel(int64_t start, int64_t end, uint32_t correlation = 0, int32_t stream = 0,
                const std::string& name = "gemm") {
    GpuOp& op = Op(OpKind::kKernel, OpClass::kCompute, start, end, correlation, stream);
    op.name = Name(name);
    return op;
  }
  GpuOp& Copy(int64_t start, int64_t end, uint32_t correlation = 0, bool pageable = false,
              uint8_t copy_kind = 1, uint64_t bytes = 64, int32_t stream = 0) {
    GpuOp& op = Op(OpKind::kCopy, OpClass::kCopy, start, end, correlation, stream);
    const uint8_t host = pageable ? 1 : 2;
    t.copy_shapes.push_back({copy_kind, copy_kind == 1 ? host : uint8_t{3},
                             copy_kind == 2 ? host : uint8_t{3}, 0, false});
    op.shape = Last(t.copy_shapes);
    op.bytes = bytes;
    return op;
  }
  GpuOp& Set(int64_t start, int64_t end, uint32_t correlation = 0, uint64_t bytes = 64) {
    GpuOp& op = Op(OpKind::kSet, OpClass::kCopy, start, end, correlation, 0);
    op.bytes = bytes;
    return op;
  }
  GpuOp& Graph(int64_t start, int64_t end, uint32_t correlation = 0) {
    return Op(OpKind::kGraph, OpClass::kCompute, start, end, correlation, 0);
  }
  UntimedOp& Untimed(uint8_t timing, uint32_t correlation, int32_t stream = 0, int64_t start = 0) {
    t.untimed.push_back({OpKind::kKernel, timing, t.streams[stream].device, stream,
                         t.streams[stream].process, Name("gemm"), correlation, start});
    return t.untimed.back();
  }

  // --- evidence ---------------------------------------------------------------------------------

  void SyncRecord(uint32_t correlation, uint8_t type, int32_t stream, int32_t device = -1,
                  uint32_t event = 0, int32_t process = 0) {
    SyncOp sync{};
    sync.type = type;
    sync.process = process;
    sync.stream = stream;
    sync.device = device;
    sync.event = event;
    sync.correlation = correlation;
    t.syncs.push_back(sync);
  }
  // Records an event on `stream`, by a call of the given time.
  void EventRecord(uint32_t event, int32_t stream, int64_t start, int64_t end, int32_t thread = 0) {
    const uint32_t correlation =
        Call("cudaEventRecord", CallClass::kEventRecord, start, end, thread);
    t.events.push_back({t.threads[thread].process, stream, event, correlation, 0});
  }
  uint32_t StreamWait(uint32_t event, int32_t stream, int64_t start, int64_t end,
                      int32_t thread = 0) {
    const uint32_t correlation =
        Call("cudaStreamWaitEvent", CallClass::kStreamWait, start, end, thread);
    SyncRecord(correlation, 2, stream, -1, event, t.threads[thread].process);
    return correlation;
  }
  void Overhead(int64_t start, int64_t end, uint32_t kind, bool profiler, int32_t thread = 0,
                int32_t process = 0) {
    t.overheads.push_back({start, end, kind, process, thread, profiler});
  }
  void BlindTime(int64_t begin, int64_t end, Blind::Why why, std::string who, int32_t process = 0) {
    t.blinds.push_back({begin, end, process, why, std::move(who)});
  }

  // --- host samples -----------------------------------------------------------------------------

  // A child that has no trace of its own. Its main thread is added with AddThread.
  int32_t AddSampledChild(uint32_t pid, int32_t parent = 0,
                          std::string executable = "/usr/bin/python3") {
    const int32_t process = AddProcess(pid, std::move(executable));
    t.processes[process].parent = parent;
    t.processes[process].sampled_only = true;
    t.processes[process].has_runtime_api = t.processes[process].has_driver_api = false;
    t.processes[process].has_sync_records = false;
    return process;
  }

  // The innermost node. Frames: "train.py:27 next" (Python), "libc.so.6+0x1234" or
  // "libjpeg.so+0x10 decode" (native, without or with a name). Empty: -1.
  int32_t Stack(std::initializer_list<std::string_view> innermost_first) {
    int32_t node = -1;
    for (auto frame = std::rbegin(innermost_first); frame != std::rend(innermost_first); ++frame) {
      node = Node(node, Location(*frame));
    }
    return node;
  }

  struct Counters {
    int64_t cpu_ns = 0, runnable_ns = 0;
  };
  // For what else it has (syscall, wait_target, gil_holder, flags) write to the result.
  HostSample& AddSample(int32_t thread, int64_t time_ns, int64_t interval_ns, Counters of_interval,
                        HostState state, int32_t stack = -1) {
    HostSample sample{};
    sample.time_ns = time_ns;
    sample.interval_ns = interval_ns;
    sample.cpu_ns = of_interval.cpu_ns;
    sample.runnable_ns = of_interval.runnable_ns;
    sample.thread = thread;
    sample.stack = stack;
    sample.state = state;
    t.samples.push_back(sample);
    return t.samples.back();
  }
  // Samples every `interval_ns` in (begin, end], all alike: on a CPU all along, or not at all.
  void AddSamples(int32_t thread, int64_t begin_ns, int64_t end_ns, int64_t interval_ns,
                  HostState state, int32_t stack = -1) {
    for (int64_t time = begin_ns + interval_ns; time <= end_ns; time += interval_ns) {
      const int64_t cpu_ns = state == HostState::kRunning ? interval_ns : 0;
      AddSample(thread, time, interval_ns, {cpu_ns, 0}, state, stack);
    }
  }
  void SampledTime(int64_t begin_ns, int64_t end_ns, int32_t process = 0) {
    t.sampled.push_back({begin_ns, end_ns, process});
  }
  int32_t String(std::string_view text) {
    const auto found = std::find(t.strings.begin(), t.strings.end(), text);
    if (found != t.strings.end()) return static_cast<int32_t>(found - t.strings.begin());
    t.strings.emplace_back(text);
    return Last(t.strings);
  }

  uint32_t NextCorrelation() { return ++correlation_; }

  Timeline Build() {
    Timeline built = t;
    const auto by_time = [](const auto& a, const auto& b) {
      return std::tie(a.start_ns, a.end_ns) < std::tie(b.start_ns, b.end_ns);
    };
    std::stable_sort(built.ops.begin(), built.ops.end(), by_time);
    std::stable_sort(built.calls.begin(), built.calls.end(), by_time);
    std::stable_sort(built.overheads.begin(), built.overheads.end(), by_time);
    std::stable_sort(built.blinds.begin(), built.blinds.end(),
                     [](const Blind& a, const Blind& b) { return a.begin_ns < b.begin_ns; });
    std::stable_sort(built.samples.begin(), built.samples.end(),
                     [](const HostSample& a, const HostSample& b) {
                       return std::tie(a.thread, a.time_ns) < std::tie(b.thread, b.time_ns);
                     });
    std::stable_sort(
        built.sampled.begin(), built.sampled.end(),
        [](const SampledPeriod& a, const SampledPeriod& b) { return a.begin_ns < b.begin_ns; });
    std::map<std::pair<int32_t, uint32_t>, int32_t> call_of;
    for (size_t i = 0; i < built.calls.size(); ++i) {
      call_of[{built.calls[i].process, built.calls[i].correlation}] = static_cast<int32_t>(i);
    }
    const auto find = [&](int32_t process, uint32_t correlation) {
      const auto found = call_of.find({process, correlation});
      return found == call_of.end() ? -1 : found->second;
    };
    for (GpuOp& op : built.ops) op.submission = find(op.process, op.correlation);
    for (SyncOp& sync : built.syncs) {
      sync.call = find(sync.process, sync.correlation);
      if (sync.call < 0) continue;
      sync.start_ns = built.calls[sync.call].start_ns;
      sync.end_ns = built.calls[sync.call].end_ns;
    }
    std::stable_sort(built.syncs.begin(), built.syncs.end(),
                     [](const SyncOp& a, const SyncOp& b) { return a.start_ns < b.start_ns; });
    return built;
  }

 private:
  template <typename T>
  static int32_t Last(const std::vector<T>& items) {
    return static_cast<int32_t>(items.size()) - 1;
  }

  GpuOp& Op(OpKind kind, OpClass op_class, int64_t start, int64_t end, uint32_t correlation,
            int32_t stream) {
    GpuOp op{};
    op.start_ns = start;
    op.end_ns = end;
    op.correlation = correlation;
    op.device = t.streams[stream].device;
    op.process = t.streams[stream].process;
    op.stream = stream;
    op.name = op.shape = -1;
    op.kind = kind;
    op.op_class = op_class;
    t.ops.push_back(op);
    return t.ops.back();
  }
  int32_t Location(std::string_view frame) {
    CodeLocation location;
    const size_t space = frame.find(' ');
    const std::string_view place = frame.substr(0, space);
    if (space != std::string_view::npos) location.function = String(frame.substr(space + 1));
    const size_t plus = place.rfind("+0x");
    const size_t colon = place.rfind(':');
    location.native = plus != std::string_view::npos;
    location.file = String(place.substr(0, location.native ? plus : colon));
    if (location.native) {
      location.offset = std::strtoull(std::string(place.substr(plus + 1)).c_str(), nullptr, 16);
    } else if (colon != std::string_view::npos) {
      location.line = std::atoi(std::string(place.substr(colon + 1)).c_str());
    }
    for (size_t i = 0; i < t.locations.size(); ++i) {
      const CodeLocation& known = t.locations[i];
      if (std::tie(known.function, known.file, known.line, known.offset, known.native) ==
          std::tie(location.function, location.file, location.line, location.offset,
                   location.native)) {
        return static_cast<int32_t>(i);
      }
    }
    t.locations.push_back(location);
    return Last(t.locations);
  }
  int32_t Node(int32_t parent, int32_t location) {
    for (size_t i = 0; i < t.stacks.size(); ++i) {
      if (t.stacks[i].parent == parent && t.stacks[i].location == location) {
        return static_cast<int32_t>(i);
      }
    }
    t.stacks.push_back({parent, location});
    return Last(t.stacks);
  }
  int32_t Symbol(const std::string& name, CallClass call_class) {
    for (size_t i = 0; i < t.symbols.size(); ++i) {
      if (t.symbols[i].name == name) return static_cast<int32_t>(i);
    }
    t.symbols.push_back({name, call_class, false});
    return Last(t.symbols);
  }
  int32_t Name(const std::string& name) {
    const auto found = std::find(t.names.begin(), t.names.end(), name);
    if (found != t.names.end()) return static_cast<int32_t>(found - t.names.begin());
    t.names.push_back(name);
    return Last(t.names);
  }

  uint32_t correlation_ = 0;
};

// The parts of a device's gaps, one line each: "10-20 host: outside CUDA (thread 11 main)".
inline std::vector<std::string> PartsText(const Analysis& analysis, size_t device = 0) {
  std::vector<std::string> lines;
  for (const GapPart& part : analysis.devices[device].parts) {
    lines.push_back(std::to_string(part.begin_ns) + "-" + std::to_string(part.end_ns) + " " +
                    CauseKey(part.cause) + ": " + analysis.places[part.where]);
  }
  return lines;
}

inline int64_t CauseNs(const DeviceReport& report, Cause cause) {
  for (const CauseTotal& total : report.causes) {
    if (total.cause == cause) return total.total_ns;
  }
  return 0;
}

}  // namespace gpuprobe::tools

#endif  // GPUPROBE_TESTS_TOOLS_TIMELINE_BUILDER_H_
