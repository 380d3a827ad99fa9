// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "tools/waits.h"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>

namespace gpuprobe::tools {
namespace {

class WaitMeter {
 public:
  WaitMeter(const Timeline& timeline, const Options& options, const Scope& scope,
            const HostView& host, const HostEvidence& evidence,
            const std::vector<DeviceActivity>& activities, const std::vector<DeviceReport>& reports,
            const Places& places)
      : timeline_(timeline),
        options_(options),
        scope_(scope),
        host_(host),
        evidence_(evidence),
        activities_(activities),
        reports_(reports),
        places_(places),
        cursor_(evidence.samples),
        slot_(timeline.devices.size(), -1) {
    for (size_t s = 0; s < activities.size(); ++s)
      slot_[activities[s].device] = static_cast<int>(s);
  }

  std::vector<WaitRow> Run() {
    near_.assign(activities_.size(), 0);
    for (const WaitingCall& waiting : host_.WaitingCalls()) {
      if (!scope_.Contains(timeline_.calls[waiting.call].process)) continue;
      if (options_.device && *options_.device != waiting.device) continue;
      if (IsWait(waiting.call, waiting.device)) Measure(waiting);
    }
    std::vector<WaitRow> rows;
    for (auto& [key, row] : rows_) rows.push_back(std::move(row));
    std::stable_sort(rows.begin(), rows.end(),
                     [](const WaitRow& a, const WaitRow& b) { return a.total_ns > b.total_ns; });
    return rows;
  }

 private:
  // Synchronisations and blocking copies wait by their nature; other calls did if the device was
  // busy.
  bool IsWait(int32_t call, int32_t device) {
    const Window window = Clip(call);
    const HostCall& c = timeline_.calls[call];
    if (window.span() < 0 || (window.span() == 0 && c.start_ns < c.end_ns)) return false;
    const Role role = host_.RoleOf(call);
    if (role == Role::kSync || role == Role::kBlockingCopy) return true;
    const int64_t busy_ns = BusyNs(device, window.start_ns, window.end_ns);
    // A full queue keeps the device busy all along.
    return role == Role::kSubmit ? busy_ns == window.span() : busy_ns > 0;
  }

  // Without a window of the user's, calls count whole: also before the first and after the last
  // operation.
  Window Clip(int32_t call) const {
    const HostCall& c = timeline_.calls[call];
    return {std::max(c.start_ns, options_.from_ns.value_or(c.start_ns)),
            std::min(c.end_ns, options_.to_ns.value_or(c.end_ns))};
  }

  int64_t BusyNs(int32_t device, int64_t begin, int64_t end) {
    if (device < 0 || slot_[device] < 0) return 0;
    return activities_[slot_[device]].busy.Overlap(begin, end, &near_[slot_[device]]);
  }

  void Measure(const WaitingCall& waiting) {
    const Window window = Clip(waiting.call);
    WaitRow& row = RowOf(waiting.call);
    ++row.count;
    row.total_ns += window.span();
    row.longest_ns = std::max(row.longest_ns, window.span());
    const int64_t busy_ns = BusyNs(waiting.device, window.start_ns, window.end_ns);
    row.device_busy_ns += busy_ns;
    row.device_idle_ns += window.span() - busy_ns;
    // Whoever submits nothing any more was not kept from it.
    if (waiting.device < 0 || slot_[waiting.device] < 0 ||
        waiting.next_start_ns == WaitingCall::kNever) {
      return;
    }
    const Window& device_window = reports_[slot_[waiting.device]].window;
    const int64_t from = std::max(window.end_ns, device_window.start_ns);
    const int64_t until = std::min(waiting.next_start_ns, device_window.end_ns);
    if (from < until) row.idle_after_ns += until - from - BusyNs(waiting.device, from, until);
  }

  // A place is a line of code, whoever runs it; where none is known, a thread.
  WaitRow& RowOf(int32_t call) {
    const HostCall& c = timeline_.calls[call];
    const bool queue_full = host_.RoleOf(call) == Role::kSubmit;
    const int32_t how = places_.CopyHow(host_.OpOf(call));
    const int32_t line = LineOf(evidence_.SiteOfCall(call, &cursor_).stack);
    const auto [entry, is_new] = rows_.try_emplace(
        std::make_tuple(c.symbol, line < 0 ? c.thread : -1, how, queue_full, line));
    WaitRow& row = entry->second;
    if (is_new) {
      row.api = c.symbol < 0 ? "unknown call" : timeline_.symbols[c.symbol].name;
      const std::string copy = how < 0 ? "" : Places::CopyText(how);
      const std::string full = queue_full ? "launch queue full" : "";
      const std::string more = copy.empty() || full.empty() ? copy + full : copy + ", " + full;
      if (line < 0) {
        row.where = (more.empty() ? "" : more + ", ") + places_.ThreadText(c.thread);
      } else {
        row.where = lines_[line];
        row.detail = more;
      }
    }
    return row;
  }

  int32_t LineOf(int32_t stack) {
    const int32_t node = evidence_.sites.SiteOf(stack);
    if (node < 0) return -1;
    const auto [of_node, is_new] = line_of_node_.try_emplace(node, -1);
    if (!is_new) return of_node->second;
    const std::string text = evidence_.sites.TextOf(node);
    const auto known = std::find(lines_.begin(), lines_.end(), text);
    of_node->second = static_cast<int32_t>(known - lines_.begin());
    if (known == lines_.end()) lines_.push_back(text);
    return of_node->second;
  }

  const Timeline& timeline_;
  const Options& options_;
  const Scope& scope_;
  const HostView& host_;
  const HostEvidence& evidence_;
  const std::vector<DeviceActivity>& activities_;
  const std::vector<DeviceReport>& reports_;
  const Places& places_;
  SampleView::Cursor cursor_;
  std::vector<int> slot_;     // device -> index of its activity
  std::vector<size_t> near_;  // by activity: where its busy times were asked for last
  std::map<std::tuple<int32_t, int32_t, int32_t, bool, int32_t>, WaitRow> rows_;
  std::vector<std::string> lines_;                     // in order of first use
  std::unordered_map<int32_t, int32_t> line_of_node_;  // index in lines_, by stack node
};

}  // namespace

std::vector<WaitRow> MeasureWaits(const Timeline& timeline, const Options& options,
                                  const Scope& scope, const HostView& host,
                                  const HostEvidence& evidence,
                                  const std::vector<DeviceActivity>& activities,
                                  const std::vector<DeviceReport>& reports, const Places& places) {
  return WaitMeter(timeline, options, scope, host, evidence, activities, reports, places).Run();
}

}  // namespace gpuprobe::tools
