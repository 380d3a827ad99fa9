// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "tools/windowed/sums/device_in_windows.h"

#include <algorithm>
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

void AddGaps(const DeviceReport& part, DeviceReport* total) {
  total->all_gaps += part.all_gaps;
  total->listed_gaps += part.listed_gaps;
  total->listed_gaps_ns += part.listed_gaps_ns;
}

void AddToTotal(const DeviceReport& part, DeviceReport* total) {
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

}  // namespace

void AddSums(const WindowContext& context, const Timeline& timeline, const DeviceActivity& activity,
             DeviceWindow* stretch) {
  stretch->sums = MeasureDevice(timeline, stretch->options, context.scope,
                                context.communication_names, activity, nullptr, Measured::kSums);
  if (stretch->began)
    ForgetCounted(timeline, context.options, activity, stretch->border_ns, &stretch->sums);
}

// What Analyse() promises holds for each stretch, its causes being its parts: that these fill the
// gaps is looked at, so that they are all idle time if none of them is of no gap.
std::string CheckStretch(const DeviceWindow& stretch) {
  size_t of_gaps = 0;
  for (const Gap& gap : stretch.report.gaps) of_gaps += gap.part_count;
  if (of_gaps != stretch.report.parts.size()) return "parts of idle time are of no gap";
  DeviceReport sums = stretch.sums;
  CauseTotal& all = sums.causes.emplace_back();
  all.total_ns = sums.idle_ns;
  all.sites.push_back({"", sums.idle_ns});
  return CheckSums(sums, stretch.report);
}

// Returns the last end of what starts before the window's end. What was busy before the window, the
// device knows.
int64_t DeviceInWindows::SetBusy(const WindowContext& context, const Timeline& timeline,
                                 DeviceActivity* activity) {
  activity->busy = std::move(busy);
  activity->coarse = true;
  const auto& ops = activity->ops;
  int64_t until_ns = kLongAgo;
  size_t i = 0;
  const auto op_at = [&] { return timeline.ops.data() + ops[i]; };
  for (; i < ops.size() && op_at()->start_ns < context.end_ns; ++i) {
    const GpuOp& op = *op_at();
    until_ns = std::max(until_ns, op.end_ns);
    if (op.start_ns >= context.previous_ns) activity->busy.Add(op.start_ns, op.end_ns);
  }
  busy_before_end_ = activity->busy.mark();
  for (; i < ops.size(); ++i) {
    if (op_at()->start_ns >= context.previous_ns)
      activity->busy.Add(op_at()->start_ns, op_at()->end_ns);
  }
  return until_ns;
}

// False: there is nothing to measure yet.
bool DeviceInWindows::ChooseStretch(const WindowContext& context, int64_t busy_until_ns,
                                    Options* options, int64_t* to_ns) {
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

std::optional<DeviceWindow> DeviceInWindows::FindGaps(const WindowContext& context,
                                                      const Timeline& timeline,
                                                      DeviceActivity* activity) {
  const int64_t busy_until_ns = SetBusy(context, timeline, activity);
  Options options = context.options;
  int64_t to_ns = 0;
  if (!ChooseStretch(context, busy_until_ns, &options, &to_ns)) return std::nullopt;
  DeviceWindow stretch{options, began, measured_to_ns, {}, {}};
  stretch.report = MeasureDevice(timeline, options, context.scope, context.communication_names,
                                 *activity, nullptr, Measured::kGaps);
  if (!began) total.window.start_ns = stretch.report.window.start_ns;
  total.window.end_ns = stretch.report.window.end_ns;
  began = true;
  measured_to_ns = to_ns;
  return stretch;
}

void DeviceInWindows::Attribute(const WindowContext& context, const AttributionInput& input,
                                DeviceReport* report) {
  TellPhases(context.phases);
  AttributeWindow(input, context.end_ns, context.sample_of_run, context.places, &carry, report);
}

void DeviceInWindows::ReadSteps(const WindowContext& context, const Timeline& timeline,
                                const HostView& host, const DeviceActivity& activity,
                                const DeviceWindow& stretch) {
  steps.Read({timeline, host, activity, stretch.report, total.window.start_ns,
              context.last ? kNever : context.end_ns});
}

void DeviceInWindows::AddUp(const WindowContext& context, const Timeline& timeline,
                            const DeviceActivity& activity, const DeviceWindow& stretch) {
  const DeviceReport& report = stretch.report;
  Collect(context, timeline, report);
  AddToTotal(stretch.sums, &total);
  AddGaps(report, &total);
  context.start_up.Add(timeline, report, context.phases.steady().start_ns);
  if (context.idle_samples != nullptr) context.idle_samples->Add(report);
  if (context.phases.has_begun()) AddSteady(context, timeline, activity, stretch);
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
void DeviceInWindows::AddSteady(const WindowContext& context, const Timeline& timeline,
                                const DeviceActivity& activity, const DeviceWindow& stretch) {
  const Window& steady = context.phases.steady();
  const Window& window = stretch.report.window;
  const Window inside = {std::max(window.start_ns, steady.start_ns),
                         std::min(window.end_ns, steady.end_ns)};
  if (inside.start_ns >= inside.end_ns) return;
  if (steady_began_ && inside.start_ns == window.start_ns && inside.end_ns == window.end_ns) {
    AddToTotal(stretch.sums, &steady_);
  } else {
    Options options = context.options;
    options.from_ns = inside.start_ns;
    options.to_ns = inside.end_ns;
    DeviceReport part = MeasureDevice(timeline, options, context.scope, context.communication_names,
                                      activity, nullptr, Measured::kSums);
    if (steady_began_) ForgetCounted(timeline, context.options, activity, inside.start_ns, &part);
    AddToTotal(part, &steady_);
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
    if (part.cause == Cause::kBlockingApi && IsLoading(timeline, part))
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
  carry.Add(carry.gaps++, part, -1, -1);
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
