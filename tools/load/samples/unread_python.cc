// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "tools/load/samples/unread_python.h"

#include <map>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "tools/attribution/call_site.h"
#include "tools/format/format_units.h"

namespace gpuprobe::tools {
namespace {

// What the samples of a process have of Python.
struct Seen {
  bool samples = false, lines = false, interpreter = false;
};

std::vector<Seen> LookThrough(const Timeline& timeline) {
  // By stack node.
  std::vector<Seen> nodes(timeline.stacks.size());
  for (size_t n = 0; n < nodes.size(); ++n) {
    const StackNode& node = timeline.stacks[n];
    if (node.parent >= 0) nodes[n] = nodes[static_cast<size_t>(node.parent)];
    if (node.location < 0) continue;
    const CodeLocation& location = timeline.locations[static_cast<size_t>(node.location)];
    if (!location.native) nodes[n].lines = true;
    if (IsInPythonInterpreter(timeline, location)) nodes[n].interpreter = true;
  }
  std::vector<Seen> processes(timeline.processes.size());
  for (const HostSample& sample : timeline.samples) {
    if (sample.thread < 0) continue;
    const int32_t process = timeline.threads[static_cast<size_t>(sample.thread)].process;
    if (process < 0) continue;
    Seen& seen = processes[static_cast<size_t>(process)];
    seen.samples = true;
    if (sample.stack < 0) continue;
    const Seen& node = nodes[static_cast<size_t>(sample.stack)];
    seen.lines |= node.lines;
    seen.interpreter |= node.interpreter;
  }
  return processes;
}

// "this Python version (3.16.0) is not known"
std::string WithVersion(std::string reason, const std::string& version) {
  // "Python before 3.9 ..." says it itself.
  if (version.empty() || reason.starts_with("Python")) return reason;
  for (const std::string_view word : {"Python version", "Python"}) {
    const size_t at = reason.find(word);
    if (at != reason.npos) return reason.insert(at + word.size(), " (" + version + ")");
  }
  return reason;
}

// "what: why"
std::string ReasonFor(const std::string& what, const Process& process) {
  for (const std::string& reason : process.unsampled) {
    if (reason.starts_with(what + ": ")) return reason.substr(what.size() + 2);
  }
  return "";
}

// Why; empty: it runs no Python as far as is known, or nothing kept the sampler from reading it.
std::string WhyUnread(const Process& process, bool is_python) {
  const std::string python = ReasonFor("Python", process);
  if (!python.empty()) return WithVersion(python, process.python_version);
  const std::string memory = is_python ? ReasonFor("memory", process) : "";
  return memory.empty() ? "" : absl::StrCat("its memory cannot be read (", memory, ")");
}

std::string Pids(const std::vector<uint32_t>& pids) {
  constexpr size_t kPidsInWords = 4;
  if (pids.size() > kPidsInWords) return FormatPlural(pids.size(), "process");
  return absl::StrCat("pid ", absl::StrJoin(pids, ", "));
}

}  // namespace

std::vector<std::string> FindUnreadPython(Timeline* timeline) {
  std::map<std::string, std::vector<uint32_t>> pids_of;
  size_t pythons = 0;
  const std::vector<Seen> seen = LookThrough(*timeline);
  for (size_t p = 0; p < timeline->processes.size(); ++p) {
    Process& process = timeline->processes[p];
    const bool is_python = !process.python_version.empty() || seen[p].lines ||
                           seen[p].interpreter || IsPythonInterpreter(process.executable);
    pythons += is_python;
    // Children that were gone before they could be looked at miss nothing.
    if (seen[p].lines || (process.sampled_only && !seen[p].samples)) continue;
    process.python_unread = WhyUnread(process, is_python);
    if (!process.python_unread.empty()) pids_of[process.python_unread].push_back(process.pid);
  }
  std::vector<std::string> notices;
  for (const auto& [why, pids] : pids_of) {
    notices.push_back(pids.size() >= pythons
                          ? absl::StrCat("no lines of Python: ", why)
                          : absl::StrCat("no lines of Python of ", Pids(pids), ": ", why));
  }
  return notices;
}

}  // namespace gpuprobe::tools
