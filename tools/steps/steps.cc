// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "tools/steps/steps.h"

#include <algorithm>
#include <span>
#include <unordered_map>
#include <utility>

#include "tools/steps/marker_steps.h"
#include "tools/steps/step_figures.h"
#include "tools/steps/step_sequence.h"
#include "tools/timeline/interval_set.h"

namespace gpuprobe::tools {

bool IsOneStream(const StreamCounts& streams) {
  return static_cast<double>(streams.Busiest().count) >=
         kLeadShare * static_cast<double>(streams.total());
}

namespace {

// The operations of the busiest stream (where none has most of them: of its process), in the order
// in which they were handed to the device.
StepItems Collect(const Timeline& timeline, const DeviceActivity& activity,
                  const StreamCounts& streams, const DeviceReport& report) {
  const auto op_at = [&](int32_t op) -> const GpuOp& {
    return timeline.ops[static_cast<size_t>(op)];
  };
  const auto& ops = activity.ops;
  const std::span<const int32_t> all(
      ops.begin() + static_cast<ptrdiff_t>(activity.FirstReaching(timeline, report.window)),
      std::partition_point(ops.begin(), ops.end(),
                           [&](int32_t op) { return op_at(op).start_ns < report.window.end_ns; }));
  const StreamCounts::Lead lead = streams.Busiest();
  const bool one_stream = IsOneStream(streams);
  StepItems result;
  result.items.reserve(one_stream ? lead.count : streams.total());
  auto gap = report.gaps.begin();
  for (const int32_t index : all) {
    const GpuOp& op = op_at(index);
    if (op.process != lead.process || (one_stream && op.stream != lead.stream)) continue;
    if (op.end_ns <= report.window.start_ns) continue;
    while (gap != report.gaps.end() && gap->end_ns < op.start_ns) ++gap;
    const bool paused = gap != report.gaps.end() && gap->end_ns == op.start_ns;
    const bool has_call = op.submission >= 0;
    const int64_t submitted_ns =
        has_call ? timeline.calls[static_cast<size_t>(op.submission)].start_ns : op.start_ns;
    result.items.push_back({submitted_ns, paused ? gap->length_ns() : 0, op.end_ns - op.start_ns,
                            index, op.correlation, op.graph_id, result.KindOf(timeline, op),
                            has_call});
  }
  return result;
}

std::vector<StepSync> SyncsOf(const Timeline& timeline, const HostView& host, int32_t process) {
  std::vector<StepSync> syncs;
  for (const int32_t call : host.SyncsOf(process)) {
    const HostCall& c = timeline.calls[static_cast<size_t>(call)];
    syncs.push_back({c.start_ns, c.symbol});
  }
  return syncs;
}

// Boundaries in time: the start of the first operation at or after each begin, and the end.
std::vector<int64_t> Boundaries(const Timeline& timeline, const StepItems& items,
                                const FoundSteps& found, const DeviceReport& report,
                                int32_t* first_op) {
  std::vector<int64_t> times;
  const auto add = [&](int64_t ns) {
    ns = std::clamp(ns, report.window.start_ns, report.window.end_ns);
    if (times.empty() || ns > times.back()) times.push_back(ns);
  };
  const size_t count = found.sequence.tokens.size();
  const auto op_of = [&](size_t token) { return items.items[found.sequence.items[token]].op; };
  const auto op_at = [&](size_t token) -> const GpuOp& {
    return timeline.ops[static_cast<size_t>(op_of(token))];
  };
  for (const size_t begin : found.pattern.begins) add(op_at(begin).start_ns);
  *first_op = op_of(found.pattern.begins.front());
  if (found.pattern.end < count) {
    add(op_at(found.pattern.end).start_ns);
  } else {
    int64_t last_ns = 0;
    for (size_t i = found.pattern.begins.back(); i < count; ++i)
      last_ns = std::max(last_ns, op_at(i).end_ns);
    add(last_ns);
  }
  return times;
}

void MeasureSteps(const Timeline& timeline, const DeviceActivity& activity,
                  const DeviceReport& report, const std::vector<int64_t>& times,
                  DeviceSteps* result) {
  auto part = report.parts.begin();
  size_t op = 0;
  const auto first_from = [&](int64_t ns) {
    return PartitionNear(activity.ops, op, [&](int32_t index) {
      return timeline.ops[static_cast<size_t>(index)].start_ns < ns;
    });
  };
  op = first_from(times.front());
  for (size_t i = 0; i + 1 < times.size(); ++i) {
    Step step{times[i], times[i + 1]};
    const size_t next = first_from(step.end_ns);
    step.ops = next - op;
    op = next;
    while (part != report.parts.end() && part->end_ns <= step.begin_ns) ++part;
    for (auto p = part; p != report.parts.end() && p->begin_ns < step.end_ns; ++p) {
      const int64_t ns = std::min(p->end_ns, step.end_ns) - std::max(p->begin_ns, step.begin_ns);
      step.cause_ns[static_cast<size_t>(p->cause)] += ns;
      step.idle_ns += ns;
    }
    step.busy_ns = step.duration_ns() - step.idle_ns;
    step.index = i;
    CountStep(step, result);
    result->steps.push_back(step);
  }
}

// The place that holds most of a cause's time in slow steps.
std::string SlowPlace(const DeviceReport& report, const std::vector<std::string>& places,
                      const std::vector<Step>& steps, Cause cause) {
  std::unordered_map<int32_t, int64_t> by_place;
  auto part = report.parts.begin();
  for (const Step& step : steps) {
    if (!step.slow) continue;
    while (part != report.parts.end() && part->end_ns <= step.begin_ns) ++part;
    for (auto p = part; p != report.parts.end() && p->begin_ns < step.end_ns; ++p) {
      if (p->cause == cause)
        by_place[p->where] +=
            std::min(p->end_ns, step.end_ns) - std::max(p->begin_ns, step.begin_ns);
    }
  }
  std::pair<int64_t, int32_t> best = {0, -1};
  for (const auto& [place, ns] : by_place) {
    if (ns > best.first || (ns == best.first && place < best.second)) best = {ns, place};
  }
  return best.second < 0 ? "" : places[static_cast<size_t>(best.second)];
}

void MeasureFigures(const DeviceReport& report, const std::vector<std::string>& places,
                    DeviceSteps* result) {
  const auto slow_place = [&](Cause cause) {
    return SlowPlace(report, places, result->steps, cause);
  };
  MeasureStepFigures(slow_place, result);
}

bool StepsByMarkers(const Timeline& timeline, const DeviceActivity& activity,
                    const DeviceReport& report, const std::vector<std::string>& places,
                    DeviceSteps* result) {
  MarkedSteps marked = FindMarkedSteps(timeline, activity, report.window);
  if (marked.times_ns.size() <= kFewestMarkedSteps) return false;
  result->source = marked.source;
  result->marker = std::move(marked.marker);
  result->confidence = marked.share;
  result->first_op = marked.first_op;
  MeasureSteps(timeline, activity, report, marked.times_ns, result);
  MeasureFigures(report, places, result);
  return true;
}

}  // namespace

std::string TooFewStepsText() {
  return "fewer than " + std::to_string(kFewestSteps) + " repetitions";
}

std::string NoPatternText(size_t operations) {
  return "nothing repeats as a loop's steps do in " + std::to_string(operations) + " operations";
}

DeviceSteps FindSteps(const Timeline& timeline, const HostView& host,
                      const DeviceActivity& activity, const StreamCounts& streams,
                      const DeviceReport& report, const std::vector<std::string>& places) {
  DeviceSteps result;
  result.device = report.device;
  if (StepsByMarkers(timeline, activity, report, places, &result)) return result;
  StepItems items = Collect(timeline, activity, streams, report);
  const size_t operations = items.items.size();
  items.Arrange(IsOneStream(streams));
  const FoundSteps found = items.Find(SyncsOf(timeline, host, streams.Busiest().process));
  if (found.pattern.begins.empty()) {
    result.why_none = NoPatternText(operations);
    return result;
  }
  const std::vector<int64_t> times = Boundaries(timeline, items, found, report, &result.first_op);
  MeasureSteps(timeline, activity, report, times, &result);
  if (result.steps.size() < kFewestSteps) {
    DeviceSteps none;
    none.device = report.device;
    none.why_none = TooFewStepsText();
    return none;
  }
  result.confidence = found.pattern.confidence;
  MeasureFigures(report, places, &result);
  return result;
}

}  // namespace gpuprobe::tools
