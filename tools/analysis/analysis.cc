// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "tools/analysis/analysis.h"

#include "tools/analysis/rank_waits.h"
#include "tools/analysis/verdict.h"
#include "tools/attribution/attribution.h"
#include "tools/attribution/host_split.h"
#include "tools/attribution/places.h"
#include "tools/attribution/unseen.h"
#include "tools/attribution/waits.h"
#include "tools/steps/steady_part.h"
#include "tools/steps/steps.h"
#include "tools/timeline/device_activity.h"
#include "tools/timeline/host_view.h"
#include "tools/timeline/stream_order.h"

namespace gpuprobe::tools {
namespace {

struct CauseWords {
  const char* key;
  const char* label;
};

// In the order of Cause; the keys are those of the JSON reports.
constexpr CauseWords kCauseWords[kCauseCount] = {
    {"synchronisation", "synchronisation"},
    {"blocking_api", "blocking API"},
    {"launch_bound", "launch-bound"},
    {"pageable_copy", "pageable copy"},
    {"dependency", "dependency"},
    {"launch_latency", "launch latency"},
    {"profiler", "profiler"},
    {"other_process", "other process"},
    {"start", "start"},
    {"end", "end"},
    {"host", "host"},
    {"unknown", "unknown"},
    {"input_wait", "input wait"},
    {"request_wait", "request wait"},
    {"host_python", "host Python"},
    {"host_native", "host native"},
    {"gil_wait", "GIL wait"},
    {"cpu_starved", "CPU starved"},
};

std::string Differs(const char* what, int64_t is, int64_t should_be) {
  return std::string(what) + " add up to " + std::to_string(is) + " ns instead of " +
         std::to_string(should_be) + " ns";
}

// Of a gap that its parts do not fill.
std::string WrongParts(const DeviceReport& report, const Gap& gap) {
  int64_t at = gap.begin_ns;
  for (const GapPart& part : report.PartsOf(gap)) {
    if (part.begin_ns != at || part.end_ns <= part.begin_ns) {
      return "the parts of the gap at " + std::to_string(gap.begin_ns) +
             " ns leave a hole or overlap";
    }
    at = part.end_ns;
  }
  return Differs("the parts of a gap", at - gap.begin_ns, gap.length_ns());
}

bool PartsFillGap(const DeviceReport& report, const Gap& gap) {
  int64_t at = gap.begin_ns;
  for (const GapPart& part : report.PartsOf(gap)) {
    if (part.begin_ns != at || part.end_ns <= part.begin_ns) return false;
    at = part.end_ns;
  }
  return at == gap.end_ns;
}

}  // namespace

const char* CauseKey(Cause c) { return kCauseWords[static_cast<size_t>(c)].key; }
const char* CauseLabel(Cause c) { return kCauseWords[static_cast<size_t>(c)].label; }

std::string CheckSums(const DeviceReport& report) { return CheckSums(report, report); }

std::string CheckSums(const DeviceReport& report, const DeviceReport& gaps) {
  int64_t gaps_ns = 0;
  for (const Gap& gap : gaps.gaps) {
    if (!PartsFillGap(gaps, gap)) return WrongParts(gaps, gap);
    gaps_ns += gap.length_ns();
  }
  if (gaps_ns != report.idle_ns) return Differs("gaps", gaps_ns, report.idle_ns);
  int64_t causes_ns = 0;
  for (const CauseTotal& cause : report.causes) {
    int64_t sites_ns = 0;
    for (const SiteTotal& site : cause.sites) sites_ns += site.total_ns;
    if (sites_ns != cause.total_ns)
      return Differs("the sites of a cause", sites_ns, cause.total_ns);
    causes_ns += cause.total_ns;
  }
  if (causes_ns != report.idle_ns) return Differs("causes", causes_ns, report.idle_ns);
  const int64_t window_ns = report.busy_ns + report.idle_ns;
  if (window_ns != report.window.span()) {
    return Differs("busy and idle time", window_ns, report.window.span());
  }
  const int64_t breakdown_ns =
      report.compute_ns + report.communication_ns + report.copy_ns + report.idle_ns;
  if (breakdown_ns != report.window.span()) {
    return Differs("compute, communication, copy and idle time", breakdown_ns,
                   report.window.span());
  }
  return "";
}

namespace {

// What does not depend on the window.
struct Views {
  Views(const Timeline& timeline, const Options& options)
      : host(timeline),
        evidence(timeline, host),
        order(timeline, StreamsOfUntimed(timeline)),
        stream_waits(timeline, host),
        communication_names(CommunicationNames(timeline)),
        scope(timeline, options),
        activities(CollectActivity(timeline, options, scope)) {}
  HostView host;
  HostEvidence evidence;
  StreamOrder order;
  StreamWaits stream_waits;
  std::vector<bool> communication_names;
  Scope scope;
  std::vector<DeviceActivity> activities;
};

Analysis AnalyseWindow(const Timeline& timeline, const Options& options, const Views& views) {
  Analysis analysis;
  Places places(timeline);
  std::vector<StreamCounts> streams;
  for (const DeviceActivity& activity : views.activities) {
    streams.emplace_back(timeline);
    DeviceReport& report = analysis.devices.emplace_back(MeasureDevice(
        timeline, options, views.scope, views.communication_names, activity, &streams.back()));
    const Lane unseen = UnseenTimes(timeline, views.scope, activity, views.order, places);
    AttributeGaps({timeline, views.host, views.evidence, views.stream_waits, activity, unseen},
                  places, &report);
  }
  analysis.waits = MeasureWaits(timeline, options, views.scope, views.host, views.evidence,
                                views.activities, analysis.devices, places);
  analysis.places = places.TakeTexts();
  for (size_t d = 0; d < views.activities.size(); ++d) {
    analysis.steps.push_back(FindSteps(timeline, views.host, views.activities[d], streams[d],
                                       analysis.devices[d], analysis.places));
  }
  return analysis;
}

}  // namespace

Analysis Analyse(const Timeline& timeline, const Options& options) {
  const Views views(timeline, options);
  Analysis analysis = AnalyseWindow(timeline, options, views);
  analysis.ranks = MeasureRankWaits(timeline, analysis);
  analysis.blind_ns = BlindNs(timeline, views.activities, analysis.devices);
  for (const DeviceReport& report : analysis.devices) {
    if (analysis.internal_error.empty()) analysis.internal_error = CheckSums(report);
  }
  const std::optional<Window> steady = SteadyPart(timeline, options, views.activities, analysis);
  if (!steady) {
    analysis.verdict = Judge(timeline, analysis);
    return analysis;
  }
  Options narrowed = options;
  narrowed.from_ns = steady->start_ns;
  narrowed.to_ns = steady->end_ns;
  Analysis later = AnalyseWindow(timeline, narrowed, views);
  later.ranks = MeasureRankWaits(timeline, later);
  const StartUp start_up = MeasureStartUp(timeline, analysis, steady->start_ns);
  if (const auto warm_up = JudgeWarmUp(analysis, later, start_up)) {
    analysis.verdict = *warm_up;
    return analysis;
  }
  analysis.verdict = Judge(timeline, later, JudgedPart::kSteady);
  analysis.verdict.steady = steady;
  analysis.verdict.left_out = LeftOutText(analysis, *steady, start_up.gaps_ns);
  return analysis;
}

}  // namespace gpuprobe::tools
