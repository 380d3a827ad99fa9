// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "tools/attribution/waits.h"

#include <algorithm>
#include <limits>
#include <map>
#include <string>
#include <tuple>
#include <unordered_map>
#include <utility>

namespace gpuprobe::tools {
namespace {

constexpr int64_t kNever = std::numeric_limits<int64_t>::max();
static_assert(WaitingCall::kNever == kNever);

// What the waits of a whole run and those of one window have in common.
class WaitMeter {
 public:
  WaitMeter(const Timeline& timeline, const Options& options, const Scope& scope,
            const HostView& host, const HostEvidence& evidence,
            const std::vector<DeviceActivity>& activities, const Places& places, WaitRows* rows)
      : timeline_(timeline),
        options_(options),
        scope_(scope),
        host_(host),
        evidence_(evidence),
        activities_(activities),
        places_(places),
        rows_(*rows),
        cursor_(evidence.samples),
        slot_(timeline.devices.size(), -1),
        near_(activities.size(), 0) {
    for (size_t s = 0; s < activities.size(); ++s)
      slot_[activities[s].device] = static_cast<int>(s);
  }

  // Synchronisations and blocking copies wait by their nature; other calls did if the device was
  // busy.
  bool IsWait(const WaitingCall& waiting) {
    const auto& [next_start_ns, call, device] = waiting;
    if (!scope_.Contains(timeline_.calls[call].process)) return false;
    if (options_.device && *options_.device != device) return false;
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

  // -1: nothing is known of what it did.
  int SlotOf(int32_t device) const { return device < 0 ? -1 : slot_[device]; }

  int64_t BusyNs(int32_t device, int64_t begin, int64_t end) {
    const int slot = SlotOf(device);
    if (slot < 0) return 0;
    return activities_[slot].busy.Overlap(begin, end, &near_[slot]);
  }

  // All of a row but what comes after the wait.
  WaitRow& Count(const WaitingCall& waiting, const WaitRows::Key& key) {
    const Window window = Clip(waiting.call);
    WaitRow& row = RowOf(waiting.call, key);
    ++row.count;
    row.total_ns += window.span();
    row.longest_ns = std::max(row.longest_ns, window.span());
    const int64_t busy_ns = BusyNs(waiting.device, window.start_ns, window.end_ns);
    row.device_busy_ns += busy_ns;
    row.device_idle_ns += window.span() - busy_ns;
    return row;
  }

  // A place is a line of code, whoever runs it; where none is known, a thread.
  WaitRows::Key KeyOf(int32_t call) {
    const HostCall& c = timeline_.calls[call];
    const bool queue_full = host_.RoleOf(call) == Role::kSubmit;
    const int32_t how = places_.CopyHow(host_.OpOf(call));
    const int32_t line = LineOf(evidence_.SiteOfCall(call, &cursor_).stack);
    return {c.symbol, line < 0 ? c.thread : -1, how, queue_full, line};
  }

 private:
  WaitRow& RowOf(int32_t call, const WaitRows::Key& key) {
    const HostCall& c = timeline_.calls[call];
    const auto& [symbol, thread, how, queue_full, line] = key;
    bool is_new = false;
    WaitRow& row = rows_.RowOf(key, &is_new);
    if (is_new) {
      row.api = c.symbol < 0 ? "unknown call" : timeline_.symbols[c.symbol].name;
      const std::string copy = how < 0 ? "" : Places::CopyText(how);
      const std::string full = queue_full ? "launch queue full" : "";
      const std::string more = copy.empty() || full.empty() ? copy + full : copy + ", " + full;
      if (line < 0) {
        row.where = (more.empty() ? "" : more + ", ") + places_.ThreadText(c.thread);
      } else {
        row.where = rows_.Line(line);
        row.detail = more;
      }
    }
    return row;
  }

  int32_t LineOf(int32_t stack) {
    const int32_t node = evidence_.sites.SiteOf(stack);
    if (node < 0) return -1;
    const auto [of_node, is_new] = line_of_node_.try_emplace(node, -1);
    if (is_new) of_node->second = rows_.LineId(evidence_.sites.TextOf(node));
    return of_node->second;
  }

  const Timeline& timeline_;
  const Options& options_;
  const Scope& scope_;
  const HostView& host_;
  const HostEvidence& evidence_;
  const std::vector<DeviceActivity>& activities_;
  const Places& places_;
  WaitRows& rows_;
  SampleView::Cursor cursor_;
  std::vector<int> slot_;     // device -> index of its activity
  std::vector<size_t> near_;  // by activity: where its busy times were asked for last
  std::unordered_map<int32_t, int32_t> line_of_node_;  // WaitRows::LineId, by stack node
};

// What a wait kept its thread from is known when that submits again, perhaps windows later.
class WindowWaits {
 public:
  WindowWaits(const WaitWindow& window, const Timeline& timeline, const Options& options,
              const HostView& host, const std::vector<DeviceActivity>& activities, WaitMeter* meter,
              WaitRows* rows)
      : window_(window),
        timeline_(timeline),
        options_(options),
        host_(host),
        activities_(activities),
        meter_(*meter),
        rows_(*rows) {}

  void Run() {
    NoteUsersEnd();
    ResolvePending();
    for (const WaitingCall& waiting : host_.WaitingCalls()) {
      const int64_t end_ns = timeline_.calls[waiting.call].end_ns;
      if (end_ns < window_.begin_ns || end_ns >= window_.end_ns) continue;
      if (meter_.IsWait(waiting)) Measure(waiting);
    }
  }

 private:
  void NoteUsersEnd() {
    if (!options_.to_ns || *options_.to_ns >= window_.end_ns) return;
    for (const DeviceActivity& activity : activities_) {
      rows_.busy_before_to_ns.try_emplace(activity.device,
                                          BusyBefore(activity.device, *options_.to_ns));
    }
  }

  int64_t BusyBeforeEnd(int32_t device, int64_t until_ns) {
    const auto noted = options_.to_ns == until_ns ? rows_.busy_before_to_ns.find(device)
                                                  : rows_.busy_before_to_ns.end();
    return noted != rows_.busy_before_to_ns.end() ? noted->second : BusyBefore(device, until_ns);
  }

  // The first submission of their thread to their device, for waits of earlier windows.
  void ResolvePending() {
    if (rows_.pending.empty()) return;
    struct Submitted {
      int64_t call_start_ns, call_end_ns;
      uint32_t correlation;
      int64_t start_ns;
    };
    std::map<WaitRows::Feeder, std::vector<Submitted>> submitted;
    for (size_t i = 0; i < timeline_.calls.size(); ++i) {
      const int32_t op = host_.OpOf(static_cast<int32_t>(i));
      if (op < 0) continue;
      const WaitRows::Feeder feeder = {timeline_.calls[i].thread, timeline_.ops[op].device};
      if (!rows_.pending.contains(feeder)) continue;
      submitted[feeder].push_back({timeline_.calls[i].start_ns, timeline_.calls[i].end_ns,
                                   timeline_.calls[i].correlation, timeline_.ops[op].start_ns});
    }
    for (const auto& entry : submitted) {
      // No structured binding: clang 14 cannot capture one.
      const auto& feeder = entry.first;
      const auto& calls = entry.second;
      std::vector<WaitRows::Pending>& waits = rows_.pending[feeder];
      std::erase_if(waits, [&](const WaitRows::Pending& wait) {
        // In the order of Timeline::calls; of those that look alike, ids ascend.
        const auto next =
            std::partition_point(calls.begin(), calls.end(), [&](const Submitted& call) {
              return std::tie(call.call_start_ns, call.call_end_ns, call.correlation) <=
                     std::tie(wait.start_ns, wait.call_end_ns, wait.correlation);
            });
        if (next == calls.end() || next->start_ns >= window_.end_ns) return false;
        AddIdleAfter(feeder.second, wait.end_ns, wait.busy_before_end_ns, next->start_ns,
                     &rows_.RowOf(wait.key, nullptr));
        return true;
      });
      if (waits.empty()) rows_.pending.erase(feeder);
    }
  }

  // `busy_before_ns`: of the device, before `end_ns`.
  void AddIdleAfter(int32_t device, int64_t end_ns, int64_t busy_before_ns, int64_t next_start_ns,
                    WaitRow* row) {
    const Window& device_window = window_.devices[device];
    const int64_t from = std::max(end_ns, device_window.start_ns);
    const int64_t until = std::min(next_start_ns, device_window.end_ns);
    if (from >= until) return;
    // A wait lies before the device's window only where that begins with its first operation.
    if (from > end_ns) busy_before_ns = 0;
    row->idle_after_ns += until - from - (BusyBeforeEnd(device, until) - busy_before_ns);
  }

  int64_t BusyBefore(int32_t device, int64_t ns) {
    return meter_.BusyNs(device, std::numeric_limits<int64_t>::min(), ns);
  }

  void Measure(const WaitingCall& waiting) {
    const Window window = meter_.Clip(waiting.call);
    const WaitRows::Key key = meter_.KeyOf(waiting.call);
    WaitRow& row = meter_.Count(waiting, key);
    if (waiting.device < 0) return;
    const int64_t busy_before_ns = BusyBefore(waiting.device, window.end_ns);
    // What starts behind the window may have been submitted after what starts still later.
    if (waiting.next_start_ns < window_.end_ns) {
      if (meter_.SlotOf(waiting.device) >= 0) {
        AddIdleAfter(waiting.device, window.end_ns, busy_before_ns, waiting.next_start_ns, &row);
      }
      return;
    }
    // Whoever submits nothing any more was not kept from it.
    if (window_.end_ns == kNever) return;
    const HostCall& c = timeline_.calls[waiting.call];
    std::vector<WaitRows::Pending>& pending = rows_.pending[{c.thread, waiting.device}];
    if (pending.size() >= WaitRows::kMostPending) {
      pending.erase(pending.begin(), pending.begin() + WaitRows::kMostPending / 2);
      rows_.given_up += WaitRows::kMostPending / 2;
    }
    pending.push_back({key, c.start_ns, c.end_ns, c.correlation, window.end_ns, busy_before_ns});
  }

  const WaitWindow& window_;
  const Timeline& timeline_;
  const Options& options_;
  const HostView& host_;
  const std::vector<DeviceActivity>& activities_;
  WaitMeter& meter_;
  WaitRows& rows_;
};

void SortByTotal(std::vector<WaitRow>* rows) {
  std::stable_sort(rows->begin(), rows->end(),
                   [](const WaitRow& a, const WaitRow& b) { return a.total_ns > b.total_ns; });
}

}  // namespace

int32_t WaitRows::LineId(const std::string& text) {
  const auto [entry, is_new] = line_ids_.emplace(text, static_cast<int32_t>(lines_.size()));
  if (is_new) lines_.push_back(text);
  return entry->second;
}

WaitRow& WaitRows::RowOf(const Key& key, bool* is_new) {
  const auto [entry, added] = rows_.try_emplace(key);
  if (is_new != nullptr) *is_new = added;
  return entry->second;
}

std::vector<WaitRow> WaitRows::Since(const Map& before, const Map& rows) {
  std::vector<WaitRow> since;
  for (const auto& [key, row] : rows) {
    since.push_back(row);
    WaitRow& more = since.back();
    const auto earlier = before.find(key);
    if (earlier != before.end()) {
      more.count -= earlier->second.count;
      more.total_ns -= earlier->second.total_ns;
      more.device_busy_ns -= earlier->second.device_busy_ns;
      more.device_idle_ns -= earlier->second.device_idle_ns;
      more.idle_after_ns -= earlier->second.idle_after_ns;
    }
    if (more.count == 0) since.pop_back();
  }
  SortByTotal(&since);
  return since;
}

std::vector<WaitRow> WaitRows::Take() {
  std::vector<WaitRow> rows;
  for (auto& [key, row] : rows_) rows.push_back(std::move(row));
  rows_.clear();
  SortByTotal(&rows);
  return rows;
}

std::vector<WaitRow> MeasureWaits(const Timeline& timeline, const Options& options,
                                  const Scope& scope, const HostView& host,
                                  const HostEvidence& evidence,
                                  const std::vector<DeviceActivity>& activities,
                                  const std::vector<DeviceReport>& reports, const Places& places) {
  WaitRows rows;
  WaitMeter meter(timeline, options, scope, host, evidence, activities, places, &rows);
  for (const WaitingCall& waiting : host.WaitingCalls()) {
    if (!meter.IsWait(waiting)) continue;
    WaitRow& row = meter.Count(waiting, meter.KeyOf(waiting.call));
    // Whoever submits nothing any more was not kept from it.
    const int slot = meter.SlotOf(waiting.device);
    if (slot < 0 || waiting.next_start_ns == kNever) continue;
    const Window& device_window = reports[slot].window;
    const int64_t from = std::max(meter.Clip(waiting.call).end_ns, device_window.start_ns);
    const int64_t until = std::min(waiting.next_start_ns, device_window.end_ns);
    if (from >= until) continue;
    row.idle_after_ns += until - from - meter.BusyNs(waiting.device, from, until);
  }
  return rows.Take();
}

void MeasureWaitsIn(const WaitWindow& window, const Timeline& timeline, const Options& options,
                    const Scope& scope, const HostView& host, const HostEvidence& evidence,
                    const std::vector<DeviceActivity>& activities, const Places& places,
                    WaitRows* rows) {
  WaitMeter meter(timeline, options, scope, host, evidence, activities, places, rows);
  WindowWaits(window, timeline, options, host, activities, &meter, rows).Run();
}

}  // namespace gpuprobe::tools
