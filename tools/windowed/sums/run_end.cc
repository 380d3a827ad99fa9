// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "tools/windowed/sums/run_end.h"

#include <algorithm>
#include <utility>

#include "tools/analysis/verdict.h"
#include "tools/attribution/host_split.h"
#include "tools/attribution/meanwhile.h"
#include "tools/attribution/unseen.h"
#include "tools/steps/steady_part.h"
#include "tools/timeline/device_activity.h"
#include "tools/timeline/host_view.h"

namespace gpuprobe::tools {

void RunEnd::FinishDevices(Analysis* analysis) {
  Timeline& t = run_.timeline;
  const Scope scope(t, run_.wanted.options());
  std::vector<DeviceActivity> activities;
  for (size_t d = 0; d < run_.devices.size(); ++d) {
    DeviceInWindows& device = run_.devices[d];
    const bool asked =
        run_.wanted.options().device && static_cast<size_t>(*run_.wanted.options().device) == d;
    if (run_.wanted.options().device && !asked) continue;
    if (!device.began && !run_.present[d] && !asked) continue;
    DeviceReport report = device.TakeTotal(run_.places);
    report.device = static_cast<int32_t>(d);
    RenumberQuoted(&report);
    activities.emplace_back().device = report.device;
    activities.back().processes.assign(t.processes.size(), false);
    run_.wanted.SetProcesses(scope, &activities.back());
    device.steps.Finish(t, report.window);
    analysis->devices.push_back(std::move(report));
  }
  AddHelpers(nullptr, analysis);
  AddSteps(nullptr, analysis);
  if (run_.phases.has_begun() && run_.phases.is_over()) later_ = AnalyseSteady(*analysis);
  for (DeviceReport& report : analysis->devices) {
    run_.devices[static_cast<size_t>(report.device)].gaps.Take(&t, &report);
  }
  CheckTotals(*analysis);
  analysis->blind_ns = BlindNs(t, activities, analysis->devices);
}

void RunEnd::RenumberQuoted(DeviceReport* report) const {
  for (CauseTotal& cause : report->causes) {
    for (SiteTotal& site : cause.sites) {
      if (site.example_call < -1)
        site.example_call = run_.quoted_calls[static_cast<size_t>(-2 - site.example_call)];
    }
  }
}

// Of the run, or of a part of it. All samples are looked at, and no record: what helpers did is
// theirs alone.
void RunEnd::AddHelpers(const Window* within, Analysis* analysis) const {
  const Timeline& t = run_.timeline;
  if (t.samples.empty()) return;
  const HostView host(t);
  const HostEvidence evidence(t, host);
  for (DeviceReport& report : analysis->devices) {
    const DeviceInWindows& device = run_.devices[static_cast<size_t>(report.device)];
    std::vector<GilWait> gil_waits;
    for (const GilWait& wait : device.carry.gil_waits) {
      const int64_t ns = t.samples[static_cast<size_t>(wait.sample)].time_ns;
      if (within == nullptr || (ns >= within->start_ns && ns < within->end_ns))
        gil_waits.push_back(wait);
    }
    for (GapPart part : device.helped) {
      if (within != nullptr) {
        part.begin_ns = std::max(part.begin_ns, within->start_ns);
        part.end_ns = std::min(part.end_ns, within->end_ns);
      }
      if (part.begin_ns < part.end_ns) report.parts.push_back(part);
    }
    AddMeanwhile(t, evidence, run_.places, gil_waits, &report);
    report.parts.clear();
  }
}

void RunEnd::AddSteps(const Window* within, Analysis* analysis) {
  for (const DeviceReport& report : analysis->devices) {
    const DeviceInWindows& device = run_.devices[static_cast<size_t>(report.device)];
    GpuOp first_op = {};
    DeviceSteps steps = device.steps.Steps(within, run_.places.texts(), &first_op);
    if (!steps.steps.empty() && within == nullptr) {
      steps.first_op = static_cast<int32_t>(run_.timeline.ops.size());
      run_.timeline.ops.push_back(first_op);
    }
    if (within == nullptr) {
      run_.counts.other_loops += device.steps.other_loops();
      run_.counts.steps_not_listed += steps.count - steps.steps.size();
      if (device.steps.learnt_a_part()) run_.counts.steps_learnt = run_.learnt_ops;
    }
    analysis->steps.push_back(std::move(steps));
  }
}

void RunEnd::CheckTotals(const Analysis& analysis) {
  for (const DeviceReport& report : analysis.devices) {
    int64_t causes_ns = 0;
    for (const CauseTotal& cause : report.causes) causes_ns += cause.total_ns;
    const int64_t breakdown_ns =
        report.compute_ns + report.communication_ns + report.copy_ns + report.idle_ns;
    if (!run_.internal_error.empty()) return;
    if (causes_ns != report.idle_ns || report.busy_ns + report.idle_ns != report.window.span() ||
        breakdown_ns != report.window.span()) {
      run_.internal_error = "the windows of the run do not add up";
    }
  }
}

void RunEnd::Judge(Analysis* analysis) {
  const Timeline& t = run_.timeline;
  // JudgeWarmUp() names one.
  analysis->places = run_.places.texts();
  const Window& steady = run_.phases.steady();
  int64_t outside_ns = 0;
  for (const DeviceReport& report : analysis->devices) outside_ns += report.idle_ns;
  for (const DeviceReport& report : later_.devices) outside_ns -= report.idle_ns;
  if (later_.devices.empty() || !IsWorthLeavingOut(*analysis, steady, outside_ns)) {
    analysis->verdict = tools::Judge(t, *analysis, run_.verdict.Take(t, *analysis, nullptr));
  } else if (const auto warm_up = JudgeWarmUp(*analysis, later_, run_.start_up)) {
    analysis->verdict = *warm_up;
  } else {
    analysis->verdict =
        tools::Judge(t, later_, run_.verdict.Take(t, later_, &steady), JudgedPart::kSteady);
    analysis->verdict.steady = steady;
    analysis->verdict.left_out = LeftOutText(*analysis, steady, run_.start_up.gaps_ns);
  }
}

Analysis RunEnd::AnalyseSteady(const Analysis& whole) {
  const Window& steady = run_.phases.steady();
  Analysis later;
  for (const DeviceReport& of_run : whole.devices) {
    DeviceReport report = run_.devices[static_cast<size_t>(of_run.device)].TakeSteady(run_.places);
    report.device = of_run.device;
    RenumberQuoted(&report);
    later.devices.push_back(std::move(report));
  }
  AddHelpers(&steady, &later);
  AddSteps(&steady, &later);
  later.waits = run_.waits_in_steady;
  return later;
}

}  // namespace gpuprobe::tools
