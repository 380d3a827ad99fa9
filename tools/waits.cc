// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "tools/waits.h"

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

struct Wait {
  int32_t call;
  int32_t device;  // index in Timeline::devices, -1: the process has none
  int32_t line;    // index in WaitMeter::lines_; -1: not known
};

class WaitMeter {
 public:
  WaitMeter(const Timeline& timeline, const Options& options, const Scope& scope,
            const HostView& host, const HostEvidence& evidence,
            const std::vector<DeviceActivity>& activities, const WaitWindow& window,
            const Places& places, WaitRows* rows)
      : timeline_(timeline),
        options_(options),
        scope_(scope),
        host_(host),
        evidence_(evidence),
        activities_(activities),
        window_(window),
        places_(places),
        rows_(*rows),
        slot_(timeline.devices.size(), -1) {
    for (size_t s = 0; s < activities.size(); ++s)
      slot_[activities[s].device] = static_cast<int>(s);
  }

  void Run() {
    FindDevicesOfSyncs();
    FindWaits();
    NoteUsersEnd();
    ResolvePending();
    MeasureAll();
  }

 private:
  void FindDevicesOfSyncs() {
    for (const SyncOp& sync : timeline_.syncs) {
      const int32_t device =
          sync.device < 0 && sync.stream >= 0 ? timeline_.streams[sync.stream].device : sync.device;
      if (sync.call >= 0 && device >= 0) sync_devices_.emplace_back(sync.call, device);
    }
    std::sort(sync_devices_.begin(), sync_devices_.end());
  }

  // The device that a call waits for: that of the operation it submitted, else that of its
  // synchronisation record, else the one its thread had last submitted to, else the process's
  // first.
  int32_t DeviceOf(int32_t call, int32_t last_submitted_to) const {
    if (const int32_t op = host_.OpOf(call); op >= 0) return timeline_.ops[op].device;
    const auto found = std::lower_bound(sync_devices_.begin(), sync_devices_.end(),
                                        std::pair<int32_t, int32_t>(call, -1));
    if (found != sync_devices_.end() && found->first == call) return found->second;
    if (last_submitted_to >= 0) return last_submitted_to;
    const int32_t process = timeline_.calls[call].process;
    return process < 0 ? -1 : window_.first_device[process];
  }

  void FindWaits() {
    std::vector<int32_t> last_device(timeline_.threads.size(), -1);
    for (size_t i = 0; i < timeline_.calls.size(); ++i) {
      const int32_t call = static_cast<int32_t>(i);
      const HostCall& c = timeline_.calls[i];
      if (c.thread < 0 || !scope_.Contains(c.process)) continue;
      if (c.end_ns >= window_.begin_ns && c.end_ns < window_.end_ns && MayWait(call)) {
        const int32_t device = DeviceOf(call, last_device[c.thread]);
        if ((!options_.device || *options_.device == device) && IsWait(call, device)) {
          waits_.push_back({call, device, LineOf(evidence_.SiteOfCall(call).stack)});
        }
      }
      if (const int32_t op = host_.OpOf(call); op >= 0)
        last_device[c.thread] = timeline_.ops[op].device;
    }
  }

  bool MayWait(int32_t call) const {
    const HostCall& c = timeline_.calls[call];
    const Role role = host_.RoleOf(call);
    return Blocks(role) || (role == Role::kSubmit && c.end_ns - c.start_ns >= kQueueFullNs);
  }

  // Synchronisations and blocking copies wait by their nature; other calls did if the device was
  // busy.
  bool IsWait(int32_t call, int32_t device) const {
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

  int64_t BusyNs(int32_t device, int64_t begin, int64_t end) const {
    if (device < 0 || slot_[device] < 0) return 0;
    return activities_[slot_[device]].busy.Overlap(begin, end);
  }

  void NoteUsersEnd() {
    if (!options_.to_ns || *options_.to_ns >= window_.end_ns) return;
    for (const DeviceActivity& activity : activities_) {
      rows_.busy_before_to_ns.try_emplace(activity.device,
                                          BusyBefore(activity.device, *options_.to_ns));
    }
  }

  int64_t BusyBeforeEnd(int32_t device, int64_t until_ns) const {
    const auto noted = options_.to_ns == until_ns ? rows_.busy_before_to_ns.find(device)
                                                  : rows_.busy_before_to_ns.end();
    return noted != rows_.busy_before_to_ns.end() ? noted->second : BusyBefore(device, until_ns);
  }

  // The first submission of their thread to their device, for waits of earlier windows.
  void ResolvePending() {
    if (rows_.pending.empty()) return;
    struct Submitted {
      int64_t call_start_ns, call_end_ns, start_ns;
    };
    std::map<WaitRows::Feeder, std::vector<Submitted>> submitted;
    for (size_t i = 0; i < timeline_.calls.size(); ++i) {
      const int32_t op = host_.OpOf(static_cast<int32_t>(i));
      if (op < 0) continue;
      const WaitRows::Feeder feeder = {timeline_.calls[i].thread, timeline_.ops[op].device};
      if (!rows_.pending.contains(feeder)) continue;
      submitted[feeder].push_back(
          {timeline_.calls[i].start_ns, timeline_.calls[i].end_ns, timeline_.ops[op].start_ns});
    }
    for (const auto& [feeder, calls] : submitted) {
      std::vector<WaitRows::Pending>& waits = rows_.pending[feeder];
      std::erase_if(waits, [&](const WaitRows::Pending& wait) {
        // In the order of Timeline::calls.
        const auto next =
            std::partition_point(calls.begin(), calls.end(), [&](const Submitted& call) {
              return std::tie(call.call_start_ns, call.call_end_ns) <=
                     std::tie(wait.start_ns, wait.call_end_ns);
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

  int64_t BusyBefore(int32_t device, int64_t ns) const {
    return BusyNs(device, std::numeric_limits<int64_t>::min(), ns);
  }

  // Backwards, so that the next submission of each thread to each device is at hand. A thread feeds
  // few devices, mostly one: what is kept are the pairs that occur, not a table of all.
  void MeasureAll() {
    struct Latest {
      int32_t device = -1;
      int64_t* start_ns = nullptr;  // in next_start
    };
    const uint64_t devices = timeline_.devices.size();
    std::unordered_map<uint64_t, int64_t> next_start;
    std::vector<Latest> latest(timeline_.threads.size());
    auto wait = waits_.rbegin();
    for (size_t i = timeline_.calls.size(); i-- > 0;) {
      const int32_t call = static_cast<int32_t>(i);
      const int32_t thread = timeline_.calls[i].thread;
      if (wait != waits_.rend() && wait->call == call) {
        const auto next =
            wait->device < 0 ? next_start.end() : next_start.find(thread * devices + wait->device);
        Measure(*wait, next == next_start.end() ? kNever : next->second);
        ++wait;
      }
      const int32_t op = host_.OpOf(call);
      if (op < 0 || thread < 0 || timeline_.ops[op].device < 0) continue;
      const int32_t device = timeline_.ops[op].device;
      if (latest[thread].device != device) {
        latest[thread] = {device, &next_start[thread * devices + device]};
      }
      *latest[thread].start_ns = timeline_.ops[op].start_ns;
    }
  }

  void Measure(const Wait& wait, int64_t next_start_ns) {
    const Window window = Clip(wait.call);
    const WaitRows::Key key = KeyOf(wait);
    WaitRow& row = RowOf(wait, key);
    ++row.count;
    row.total_ns += window.span();
    row.longest_ns = std::max(row.longest_ns, window.span());
    const int64_t busy_ns = BusyNs(wait.device, window.start_ns, window.end_ns);
    row.device_busy_ns += busy_ns;
    row.device_idle_ns += window.span() - busy_ns;
    if (wait.device < 0) return;
    const int64_t busy_before_ns = BusyBefore(wait.device, window.end_ns);
    // What starts behind the window may have been submitted after what starts still later.
    if (next_start_ns < window_.end_ns) {
      if (slot_[wait.device] >= 0) {
        AddIdleAfter(wait.device, window.end_ns, busy_before_ns, next_start_ns, &row);
      }
      return;
    }
    // Whoever submits nothing any more was not kept from it.
    if (window_.end_ns == kNever) return;
    const HostCall& c = timeline_.calls[wait.call];
    std::vector<WaitRows::Pending>& pending = rows_.pending[{c.thread, wait.device}];
    if (pending.size() >= WaitRows::kMostPending) {
      pending.erase(pending.begin(), pending.begin() + WaitRows::kMostPending / 2);
      rows_.given_up += WaitRows::kMostPending / 2;
    }
    pending.push_back({key, c.start_ns, c.end_ns, window.end_ns, busy_before_ns});
  }

  // A place is a line of code, whoever runs it; where none is known, a thread.
  WaitRows::Key KeyOf(const Wait& wait) const {
    const HostCall& c = timeline_.calls[wait.call];
    const bool queue_full = host_.RoleOf(wait.call) == Role::kSubmit;
    const int32_t how = places_.CopyHow(host_.OpOf(wait.call));
    return {c.symbol, wait.line < 0 ? c.thread : -1, how, queue_full, wait.line};
  }

  WaitRow& RowOf(const Wait& wait, const WaitRows::Key& key) {
    const HostCall& c = timeline_.calls[wait.call];
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
  const WaitWindow& window_;
  const Places& places_;
  WaitRows& rows_;
  std::vector<int> slot_;                                  // device -> index of its activity
  std::vector<std::pair<int32_t, int32_t>> sync_devices_;  // (call, device), sorted
  std::vector<Wait> waits_;                                // in order of start
  std::unordered_map<int32_t, int32_t> line_of_node_;      // WaitRows::LineId, by stack node
};

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

std::vector<WaitRow> WaitRows::Take() {
  std::vector<WaitRow> rows;
  for (auto& [key, row] : rows_) rows.push_back(std::move(row));
  rows_.clear();
  std::stable_sort(rows.begin(), rows.end(),
                   [](const WaitRow& a, const WaitRow& b) { return a.total_ns > b.total_ns; });
  return rows;
}

std::vector<WaitRow> MeasureWaits(const Timeline& timeline, const Options& options,
                                  const Scope& scope, const HostView& host,
                                  const HostEvidence& evidence,
                                  const std::vector<DeviceActivity>& activities,
                                  const std::vector<DeviceReport>& reports, const Places& places) {
  WaitWindow all = {std::numeric_limits<int64_t>::min(), kNever, {}, {}};
  all.devices.resize(timeline.devices.size());
  for (const DeviceReport& report : reports) all.devices[report.device] = report.window;
  all.first_device.assign(timeline.processes.size(), -1);
  for (const GpuOp& op : timeline.ops) {
    if (op.process < 0 || op.device < 0) continue;
    int32_t& first = all.first_device[op.process];
    if (first < 0 || op.device < first) first = op.device;
  }
  WaitRows rows;
  WaitMeter(timeline, options, scope, host, evidence, activities, all, places, &rows).Run();
  return rows.Take();
}

void MeasureWaitsIn(const WaitWindow& window, const Timeline& timeline, const Options& options,
                    const Scope& scope, const HostView& host, const HostEvidence& evidence,
                    const std::vector<DeviceActivity>& activities, const Places& places,
                    WaitRows* rows) {
  WaitMeter(timeline, options, scope, host, evidence, activities, window, places, rows).Run();
}

}  // namespace gpuprobe::tools
