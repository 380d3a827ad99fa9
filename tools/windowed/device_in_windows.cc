// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "tools/windowed/device_in_windows.h"

#include <algorithm>
#include <map>
#include <utility>

namespace gpuprobe::tools {
namespace {

constexpr int64_t kNever = std::numeric_limits<int64_t>::max();
constexpr int64_t kLongAgo = std::numeric_limits<int64_t>::min();

void AddMoves(const MoveStats& part, MoveStats* total) {
  total->count += part.count;
  total->bytes += part.bytes;
  total->sum_ns += part.sum_ns;
  total->union_ns += part.union_ns;
}

void AddReport(const DeviceReport& part, DeviceReport* total) {
  total->kernels.count += part.kernels.count;
  total->kernels.zero_length += part.kernels.zero_length;
  total->kernels.sum_ns += part.kernels.sum_ns;
  total->kernels.union_ns += part.kernels.union_ns;
  AddMoves(part.copies, &total->copies);
  AddMoves(part.sets, &total->sets);
  AddMoves(part.graphs, &total->graphs);
  total->busy_ns += part.busy_ns;
  total->idle_ns += part.idle_ns;
  total->compute_ns += part.compute_ns;
  total->communication_ns += part.communication_ns;
  total->copy_ns += part.copy_ns;
  total->all_gaps += part.all_gaps;
  total->listed_gaps += part.listed_gaps;
  total->listed_gaps_ns += part.listed_gaps_ns;
  total->ops += part.ops;
  total->ops_with_submission += part.ops_with_submission;
  total->ops_before_submission += part.ops_before_submission;
  total->largest_skew_ns = std::max(total->largest_skew_ns, part.largest_skew_ns);
}

// Operations across the border have been counted in the stretch before.
void ForgetCounted(const Timeline& timeline, const Options& options, const DeviceActivity& activity,
                   int64_t border_ns, DeviceReport* report) {
  if (report->window.start_ns != border_ns || report->window.span() == 0) return;
  if (options.from_ns && *options.from_ns >= border_ns) return;
  for (const int32_t index : activity.ops) {
    const GpuOp& op = timeline.ops[static_cast<size_t>(index)];
    if (op.start_ns >= border_ns) break;
    if (op.end_ns <= border_ns) continue;
    const auto forget = [&](MoveStats& moves) {
      --moves.count;
      moves.bytes -= op.bytes;
    };
    switch (op.kind) {
      case OpKind::kKernel:
        --report->kernels.count;
        break;
      case OpKind::kCopy:
        forget(report->copies);
        break;
      case OpKind::kSet:
        forget(report->sets);
        break;
      case OpKind::kGraph:
        forget(report->graphs);
        break;
    }
    --report->ops;
    if (op.submission < 0) continue;
    --report->ops_with_submission;
    if (timeline.calls[static_cast<size_t>(op.submission)].start_ns > op.start_ns)
      --report->ops_before_submission;
  }
}

// What Analyse() promises holds for each stretch, its causes being its parts.
std::string CheckStretch(DeviceReport* report) {
  std::map<Cause, int64_t> causes;
  for (const GapPart& part : report->parts) causes[part.cause] += part.end_ns - part.begin_ns;
  for (const auto& [cause, ns] : causes) {
    CauseTotal& total = report->causes.emplace_back();
    total.cause = cause;
    total.total_ns = ns;
    total.sites.push_back({"", ns});
  }
  std::string problem = CheckSums(*report);
  report->causes.clear();
  return problem;
}

}  // namespace

// False: there is nothing to measure yet.
bool DeviceInWindows::ChooseStretch(const WindowContext& context, const AttributionInput& input,
                                    Options* options, int64_t* to_ns) {
  const Timeline& t = input.timeline;
  int64_t busy_until_ns = kLongAgo;
  for (const int32_t index : input.activity.ops) {
    const GpuOp& op = t.ops[static_cast<size_t>(index)];
    if (op.start_ns < context.end_ns) busy_until_ns = std::max(busy_until_ns, op.end_ns);
  }
  if (busy_until_ns != kLongAgo) open_ns = std::min(busy_until_ns, context.end_ns);
  const bool nothing_yet = busy_until_ns == kLongAgo && !context.options.from_ns && !began;
  if (!context.last && nothing_yet) return false;
  *to_ns = std::min(busy_until_ns, context.end_ns);
  if (began) {
    *to_ns = std::max(*to_ns, measured_to_ns);
    // Never before the window so far: the user's may end before the first operation.
    options->from_ns =
        std::max(std::min(measured_to_ns, context.options.to_ns.value_or(kNever)),
                 std::max(total.window.end_ns, context.options.from_ns.value_or(kLongAgo)));
  } else if (context.options.from_ns && !context.last) {
    if (context.end_ns <= *context.options.from_ns) return false;
    *to_ns = std::max(*to_ns, *context.options.from_ns);
  }
  if (!context.last) options->to_ns = std::min(*to_ns, context.options.to_ns.value_or(kNever));
  return true;
}

void DeviceInWindows::Measure(const WindowContext& context, const AttributionInput& input) {
  const Timeline& t = input.timeline;
  Options options = context.options;
  int64_t to_ns = 0;
  if (!ChooseStretch(context, input, &options, &to_ns)) return;
  TellPhases(context.phases);
  StreamCounts streams(t);
  DeviceReport report = MeasureDevice(t, options, context.scope, context.communication_names,
                                      input.activity, &streams);
  if (began) ForgetCounted(t, context.options, input.activity, measured_to_ns, &report);
  AttributeWindow(input, context.end_ns, context.sample_of_run, context.places, &carry, &report);
  if (context.internal_error.empty()) context.internal_error = CheckStretch(&report);
  Collect(context, t, report);
  if (!began) total.window.start_ns = report.window.start_ns;
  total.window.end_ns = report.window.end_ns;
  AddReport(report, &total);
  context.start_up.Add(t, report, context.phases.steady().start_ns);
  if (context.idle_samples != nullptr) context.idle_samples->Add(report);
  if (context.phases.has_begun()) AddSteady(context, input, report);
  steps.Add({t, input.host, input.activity, report, total.window.start_ns,
             context.last ? kNever : context.end_ns});
  began = true;
  measured_to_ns = to_ns;
}

void DeviceInWindows::TellPhases(const RunPhases& phases) {
  if (phases_told_ == 0 && phases.has_begun()) {
    carry.BeginPhaseAt(phases.steady().start_ns);
    phases_told_ = 1;
  }
  if (phases_told_ == 1 && phases.is_over()) {
    carry.BeginPhaseAt(phases.steady().end_ns);
    phases_told_ = 2;
  }
}

// Stretches that lie inside are added as they are, others are measured once more as far as they do.
void DeviceInWindows::AddSteady(const WindowContext& context, const AttributionInput& input,
                                const DeviceReport& report) {
  const Window& steady = context.phases.steady();
  const Window inside = {std::max(report.window.start_ns, steady.start_ns),
                         std::min(report.window.end_ns, steady.end_ns)};
  if (inside.start_ns >= inside.end_ns) return;
  if (steady_began_ && inside.start_ns == report.window.start_ns &&
      inside.end_ns == report.window.end_ns) {
    AddReport(report, &steady_);
  } else {
    Options options = context.options;
    options.from_ns = inside.start_ns;
    options.to_ns = inside.end_ns;
    StreamCounts streams(input.timeline);
    DeviceReport part = MeasureDevice(input.timeline, options, context.scope,
                                      context.communication_names, input.activity, &streams);
    if (steady_began_)
      ForgetCounted(input.timeline, context.options, input.activity, inside.start_ns, &part);
    AddReport(part, &steady_);
  }
  if (!steady_began_) steady_.window.start_ns = inside.start_ns;
  steady_.window.end_ns = inside.end_ns;
  steady_began_ = true;
}

void DeviceInWindows::Collect(const WindowContext& context, const Timeline& timeline,
                              const DeviceReport& report) {
  gaps.Add(timeline, report, context.options.min_gap_ns, context.sample_of_run);
  const auto renumber = [&](int32_t call) { return -2 - context.quoted.Add(timeline, call); };
  carry.totals.RenumberCalls(renumber);
  for (CauseTotals& totals : carry.earlier) totals.RenumberCalls(renumber);
  for (const GapPart& part : report.parts) {
    if (IsLoading(timeline, part))
      context.verdict.AddLoading(report.device, part.begin_ns, part.end_ns);
    if (part.sample < 0) continue;
    if (part.cause != Cause::kInputWait && part.cause != Cause::kCpuStarved) continue;
    GapPart of_run = part;
    of_run.sample = context.sample_of_run[static_cast<size_t>(part.sample)];
    if (!helped.empty() && helped.back().end_ns == part.begin_ns &&
        helped.back().cause == part.cause && helped.back().thread == part.thread) {
      helped.back().end_ns = part.end_ns;
    } else {
      helped.push_back(of_run);
    }
  }
}

bool DeviceInWindows::CutGap(const Options& options, const RunPhases& phases, int64_t end_ns,
                             Places& places) {
  TellPhases(phases);
  const int64_t begin_ns = std::max(measured_to_ns, options.from_ns.value_or(kLongAgo));
  const int64_t to_ns = std::min(end_ns, options.to_ns.value_or(kNever));
  measured_to_ns = open_ns = end_ns;
  if (begin_ns >= to_ns) return false;
  total.idle_ns += to_ns - begin_ns;
  total.window.end_ns = to_ns;
  ++total.all_gaps;
  ++total.listed_gaps;
  total.listed_gaps_ns += to_ns - begin_ns;
  const int32_t where = places.OfText("idle for longer than calls are kept");
  const GapPart part{begin_ns, to_ns, -1, -1, -1, where, -1, Cause::kUnknown};
  carry.Add(carry.gaps++, part, -1);
  steps.AddIdle(begin_ns, to_ns, Cause::kUnknown, where);
  if (steady_began_ && begin_ns < phases.steady().end_ns) {
    steady_.window.end_ns = std::min(to_ns, phases.steady().end_ns);
    steady_.idle_ns += steady_.window.end_ns - begin_ns;
  }
  return true;
}

DeviceReport DeviceInWindows::TakeTotal(const Places& places) {
  DeviceReport report = total;
  CauseTotals all = carry.earlier.empty() ? carry.totals : carry.earlier.front();
  for (size_t i = 1; i < carry.earlier.size(); ++i) all.Merge(carry.earlier[i]);
  if (!carry.earlier.empty()) all.Merge(carry.totals);
  report.causes = all.Take(places.texts(), carry.details);
  return report;
}

DeviceReport DeviceInWindows::TakeSteady(const Places& places) const {
  DeviceReport report = steady_;
  CauseTotals none;
  CauseTotals of_steady = carry.earlier.size() == 1  ? carry.totals
                          : carry.earlier.size() > 1 ? carry.earlier[1]
                                                     : none;
  report.causes = of_steady.Take(places.texts(), carry.details);
  return report;
}

}  // namespace gpuprobe::tools
