// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// The part of FrameDumper that shows host samples.
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tools/dump/dump_records.h"
#include "tools/format/syscall_names.h"

namespace gpuprobe::tools {
namespace {

std::string StringOf(const HostSamples& piece, uint32_t id) {
  return id == 0 ? "" : piece.strings(static_cast<int>(id - 1));
}

std::string LocationText(const HostSamples& piece, const proto::SampleTables::Location& location) {
  const std::string file = StringOf(piece, location.file);
  if (location.native) return absl::StrCat(file, "+0x", absl::Hex(location.offset));
  return absl::StrCat(file, ":", location.line, " ", StringOf(piece, location.function));
}

// Innermost first.
std::vector<std::string> StackText(const HostSamples& piece, const proto::SampleTables& tables,
                                   uint32_t node) {
  std::vector<std::string> frames;
  while (node != 0) {
    const proto::SampleTables::Node& at = tables.nodes[node - 1];
    frames.push_back(at.location == 0 ? "?"
                                      : LocationText(piece, tables.locations[at.location - 1]));
    node = at.parent;
  }
  return frames;
}

std::string StateKey(uint32_t state) {
  static const char* const kKeys[] = {"unknown", "running", "blocked", "blocked_io", "stopped"};
  return state < std::size(kKeys) ? kKeys[state] : absl::StrCat(state);
}

std::string FlagsText(uint32_t flags) {
  static const char* const kKeys[] = {"in_c_function", "waits_for_gil", "holds_gil",
                                      "unchanged",     "stack_cut",     "exact"};
  std::vector<std::string> set;
  for (size_t bit = 0; bit < std::size(kKeys); ++bit) {
    if ((flags >> bit & 1) != 0) set.push_back(kKeys[bit]);
  }
  return absl::StrJoin(set, " ");
}

}  // namespace

bool FrameDumper::DumpSamples(const HostSamples& piece) {
  proto::Decode(piece, &tables_);
  DumpRecord record = {"sampler", true, piece.begin_ns(), piece.end_ns()};
  record.Number("cpu_ns", piece.sampler_cpu_ns()).Number("looks", piece.looks());
  record.Number("ticks_missed", piece.ticks_missed());
  record.Number("samples_dropped", piece.samples_dropped());
  record.Number("stacks_unreadable", piece.stacks_unreadable());
  if (!sink_(record.NumberIf("invalid_ids", tables_.invalid_ids))) return false;
  for (const SampledProcess& info : piece.processes()) {
    if (!DumpSampledProcess(info)) return false;
  }
  for (const ThreadSamples& thread : piece.threads()) {
    if (!DumpThreadSamples(thread, piece)) return false;
  }
  return true;
}

bool FrameDumper::DumpSampledProcess(const SampledProcess& info) {
  DumpRecord record = {"sampled_process"};
  record.name = info.name();
  record.Number("pid", info.pid()).Number("parent_pid", info.parent_pid());
  record.Number("start_ticks", info.start_ticks()).TextIf("python", info.python_version());
  record.NumberIf("allowed_cpus", info.allowed_cpus()).NumberIf("ended", info.ended());
  record.TextIf("unreadable", absl::StrJoin(info.unreadable(), "; "));
  return sink_(record.TextIf("command_line", info.command_line()));
}

bool FrameDumper::DumpThreadSamples(const ThreadSamples& thread, const HostSamples& piece) {
  proto::SampleColumns columns;
  proto::Decode(thread, piece, tables_, &columns);
  DumpRecord about = {"sampled_thread"};
  about.name = thread.name();
  about.Number("pid", thread.pid()).Number("thread", thread.tid());
  about.NumberIf("main", thread.main()).Number("samples", columns.count);
  if (!sink_(about)) return false;
  for (size_t i = 0; i < columns.count; ++i) {
    // The counters are of the interval, the rest is of its end.
    const auto begin_ns = static_cast<int64_t>(static_cast<uint64_t>(columns.time_ns[i]) -
                                               static_cast<uint64_t>(columns.interval_ns[i]));
    DumpRecord record = {"sample", true, begin_ns, columns.time_ns[i]};
    record.Number("pid", thread.pid()).Number("thread", thread.tid());
    record.Text("state", StateKey(columns.state[i])).Signed("cpu_ns", columns.cpu_ns[i]);
    record.Signed("runnable_ns", columns.runnable_ns[i]);
    record.TextIf("syscall", SyscallName(columns.syscall[i]));
    record.TextIf("target", StringOf(piece, columns.wait_target[i]));
    record.NumberIf("gil_holder", columns.gil_holder[i]);
    record.TextIf("flags", FlagsText(columns.flags[i]));
    if (columns.stack[i] != 0) record.List("stack", StackText(piece, tables_, columns.stack[i]));
    if (!sink_(record)) return false;
  }
  return true;
}

bool FrameDumper::DumpUsage(const ProcessUsage& usage) {
  DumpRecord record = {"usage"};
  record.Signed("wall_ns", usage.wall_ns()).Signed("user_cpu_ns", usage.user_cpu_ns());
  record.Signed("system_cpu_ns", usage.system_cpu_ns());
  record.Signed("children_cpu_ns", usage.children_cpu_ns());
  record.Signed("peak_rss_bytes", usage.peak_rss_bytes());
  record.Number("voluntary_switches", usage.voluntary_switches());
  return sink_(record.Number("involuntary_switches", usage.involuntary_switches()));
}

}  // namespace gpuprobe::tools
