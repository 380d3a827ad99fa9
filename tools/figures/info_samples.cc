// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "tools/figures/info_samples.h"

#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "tools/format/format_table.h"
#include "tools/format/format_units.h"

namespace gpuprobe::tools {
namespace {

constexpr size_t kChildrenListed = 16;
constexpr double kNsPerSecond = 1e9;

bool WasLookedAt(const SampledView& view) { return view.samples > 0 || view.sampled_ns > 0; }

// Whether the sampler of `recorder` can be the one that looked at `process`: itself, or a
// descendant without a trace of its own.
bool LooksAt(const Timeline& timeline, size_t recorder, size_t process) {
  for (auto at = static_cast<int32_t>(process); at >= 0;) {
    if (static_cast<size_t>(at) == recorder) return true;
    const Process& current = timeline.processes[static_cast<size_t>(at)];
    if (!current.sampled_only) return false;
    at = current.parent;
  }
  return false;
}

struct Totals {
  uint64_t threads = 0, children = 0;
  std::map<std::string, int> pythons;                      // version -> processes
  std::map<std::string, std::vector<uint32_t>> unsampled;  // reason -> pids
};

Totals TotalsOf(const LoadedRun& run, const std::vector<SampledView>& views, size_t recorder) {
  const Timeline& timeline = run.timeline;
  Totals totals;
  for (size_t p = 0; p < views.size(); ++p) {
    if (!LooksAt(timeline, recorder, p)) continue;
    const Process& process = timeline.processes[p];
    totals.children += process.sampled_only && WasLookedAt(views[p]);
    if (p == recorder) totals.threads = views[p].threads;
    if (!process.python_version.empty()) ++totals.pythons[process.python_version];
    for (const std::string& reason : process.unsampled) {
      totals.unsampled[reason].push_back(process.pid);
    }
  }
  return totals;
}

// "98.7 looks a second over 6.41 s, 12 ticks missed; ..."
std::string SamplerText(const SamplerFacts& facts, const SampledView& view, const Totals& totals) {
  std::string text = FormatPlural(facts.looks, "look");
  if (view.sampled_ns > 0) {
    absl::StrAppendFormat(
        &text, " in %s (%.1f a second)", FormatDuration(view.sampled_ns),
        static_cast<double>(facts.looks) * kNsPerSecond / static_cast<double>(view.sampled_ns));
  }
  absl::StrAppend(&text, ", ", FormatPlural(facts.ticks_missed, "tick"), " missed; ",
                  FormatPlural(facts.samples, "sample"), " of ",
                  FormatPlural(totals.threads, "thread"));
  if (totals.children == 1) absl::StrAppend(&text, " and 1 child");
  if (totals.children > 1) {
    absl::StrAppend(&text, " and ", FormatCount(totals.children), " children");
  }
  absl::StrAppend(&text, ", ", FormatCount(facts.samples_dropped), " dropped; ",
                  FormatPlural(facts.stacks_unreadable, "stack"), " unreadable; ",
                  FormatDuration(facts.cpu_ns), " CPU");
  if (view.sampled_ns > 0) {
    absl::StrAppend(
        &text, " (",
        FormatPercent(static_cast<double>(facts.cpu_ns), static_cast<double>(view.sampled_ns)),
        " of a core)");
  }
  return text;
}

std::string UsageText(const Process& process, const UsageFacts& facts) {
  std::string text = absl::StrCat(FormatDuration(process.user_cpu_ns), " user and ",
                                  FormatDuration(process.system_cpu_ns), " system CPU in ",
                                  FormatDuration(process.wall_ns), "; children that ended ",
                                  FormatDuration(process.children_cpu_ns));
  if (facts.peak_rss_bytes > 0) {
    absl::StrAppend(&text, "; at most ", FormatBytes(static_cast<uint64_t>(facts.peak_rss_bytes)),
                    " resident");
  }
  absl::StrAppend(&text, "; context switches ", FormatCount(facts.voluntary_switches),
                  " voluntary, ", FormatCount(facts.involuntary_switches), " not");
  return text;
}

std::string Pids(const std::vector<uint32_t>& pids) {
  constexpr size_t kPidsInWords = 4;
  if (pids.size() > kPidsInWords) return absl::StrCat(FormatCount(pids.size()), " processes");
  return absl::StrCat("pid ", absl::StrJoin(pids, ", "));
}

}  // namespace

std::vector<SampledView> ViewSamples(const Timeline& timeline) {
  std::vector<SampledView> views(timeline.processes.size());
  int32_t thread = -1;
  for (const HostSample& sample : timeline.samples) {  // sorted by thread
    const int32_t process = timeline.threads[static_cast<size_t>(sample.thread)].process;
    SampledView& view = views[static_cast<size_t>(process)];
    view.threads += sample.thread != thread;
    thread = sample.thread;
    ++view.samples;
    view.observed_ns += sample.interval_ns;
    view.cpu_ns += sample.cpu_ns;
    view.runnable_ns += sample.runnable_ns;
  }
  for (const SampledPeriod& period : timeline.sampled) {
    views[static_cast<size_t>(period.process)].sampled_ns += period.end_ns - period.begin_ns;
  }
  return views;
}

std::vector<std::pair<std::string, std::string>> SamplerLines(const LoadedRun& run,
                                                              const std::vector<SampledView>& views,
                                                              size_t index) {
  std::vector<std::pair<std::string, std::string>> lines;
  const Process& process = run.timeline.processes[index];
  const ProcessCapture& capture = run.captures[index];
  if (capture.sampler.known) {
    const Totals totals = TotalsOf(run, views, index);
    lines.emplace_back("sampler", SamplerText(capture.sampler, views[index], totals));
    std::vector<std::string> versions;
    for (const auto& [version, count] : totals.pythons) {
      versions.push_back(count == 1 ? version : absl::StrCat(version, " (", count, " processes)"));
    }
    lines.emplace_back("Python", absl::StrJoin(versions, ", "));
    for (const auto& [reason, pids] : totals.unsampled) {
      lines.emplace_back("not sampled", absl::StrCat(reason, " (", Pids(pids), ")"));
    }
  }
  if (process.wall_ns > 0) lines.emplace_back("usage", UsageText(process, capture.usage));
  return lines;
}

std::string ChildrenBlock(const LoadedRun& run, const std::vector<SampledView>& views) {
  Table table;
  table.columns = {
      {"pid"},       {"parent"}, {"Python"},   {"threads"}, {"samples"},
      {"looked at"}, {"CPU"},    {"CPU wait"}, {"CPUs"},    {"name", Align::kLeft, true}};
  size_t more = 0;
  for (size_t p = 0; p < views.size(); ++p) {
    const Process& process = run.timeline.processes[p];
    if (!process.sampled_only) continue;
    if (table.rows.size() == kChildrenListed) {
      ++more;
      continue;
    }
    const SampledView& view = views[p];
    const auto share = [&view](int64_t part_ns) {
      if (view.sampled_ns == 0) return std::string("-");
      return FormatPercent(static_cast<double>(part_ns), static_cast<double>(view.sampled_ns));
    };
    table.rows.push_back(
        {absl::StrCat(process.pid),
         process.parent < 0
             ? "-"
             : absl::StrCat(run.timeline.processes[static_cast<size_t>(process.parent)].pid),
         process.python_version.empty() ? "-" : process.python_version, FormatCount(view.threads),
         FormatCount(view.samples), FormatDuration(view.sampled_ns), share(view.cpu_ns),
         share(view.runnable_ns),
         process.allowed_cpus == 0 ? "-" : absl::StrCat(process.allowed_cpus),
         process.executable.empty() ? process.command_line : process.executable});
  }
  if (table.rows.empty()) return "";
  std::string out =
      absl::StrCat("\nCHILDREN that the host sampler looked at\n", RenderTable(table, 2));
  if (more > 0) absl::StrAppend(&out, "  ... ", more, " more (--format json has them)\n");
  return out;
}

void WriteSampler(const LoadedRun& run, const std::vector<SampledView>& views, size_t index,
                  JsonWriter* json) {
  const Process& process = run.timeline.processes[index];
  const ProcessCapture& capture = run.captures[index];
  json->Key("sampler");
  if (capture.sampler.known) {
    const SamplerFacts& facts = capture.sampler;
    const Totals totals = TotalsOf(run, views, index);
    json->BeginObject().Field("cpu_ns", facts.cpu_ns).Field("looks", facts.looks);
    json->Field("sampled_ns", views[index].sampled_ns).Field("samples", facts.samples);
    json->Field("threads", totals.threads).Field("children", totals.children);
    json->Field("ticks_missed", facts.ticks_missed);
    json->Field("samples_dropped", facts.samples_dropped);
    json->Field("stacks_unreadable", facts.stacks_unreadable).EndObject();
  } else {
    json->Null();
  }
  json->Key("usage");
  if (process.wall_ns == 0) {
    json->Null();
    return;
  }
  json->BeginObject().Field("wall_ns", process.wall_ns).Field("user_cpu_ns", process.user_cpu_ns);
  json->Field("system_cpu_ns", process.system_cpu_ns);
  json->Field("children_cpu_ns", process.children_cpu_ns);
  json->Field("peak_rss_bytes", capture.usage.peak_rss_bytes);
  json->Field("voluntary_switches", capture.usage.voluntary_switches);
  json->Field("involuntary_switches", capture.usage.involuntary_switches).EndObject();
}

void WriteSampledProcesses(const LoadedRun& run, const std::vector<SampledView>& views,
                           JsonWriter* json) {
  json->Key("sampled_processes").BeginArray();
  for (size_t p = 0; p < views.size(); ++p) {
    const Process& process = run.timeline.processes[p];
    const SampledView& view = views[p];
    if (!process.sampled_only && !WasLookedAt(view)) continue;
    json->BeginObject().Field("pid", process.pid);
    json->Field("parent_pid", run.captures[p].parent_pid).Field("host", process.host);
    json->Field("traced", !process.sampled_only).Field("executable", process.executable);
    json->Field("command_line", process.command_line).Field("ended", process.ended);
    json->Field("python_version", process.python_version);
    json->Field("allowed_cpus", process.allowed_cpus).Field("threads", view.threads);
    json->Field("samples", view.samples).Field("sampled_ns", view.sampled_ns);
    json->Field("observed_ns", view.observed_ns).Field("cpu_ns", view.cpu_ns);
    json->Field("runnable_ns", view.runnable_ns).Key("unsampled").BeginArray();
    for (const std::string& reason : process.unsampled) json->Value(reason);
    json->EndArray().EndObject();
  }
  json->EndArray();
}

}  // namespace gpuprobe::tools
