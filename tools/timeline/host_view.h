// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// The host side of the analyses: what each thread was doing when, as far as CUDA calls tell. Built
// once for all devices and windows; 5 bytes a call, 4 more for each that matters, 40 for each that
// blocks.
#ifndef GPUPROBE_TOOLS_TIMELINE_HOST_VIEW_H_
#define GPUPROBE_TOOLS_TIMELINE_HOST_VIEW_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "tools/timeline/interval_set.h"
#include "tools/timeline/timeline.h"

namespace gpuprobe::tools {

// What a call does to the supply of work while a thread is inside it.
enum class Role : uint8_t {
  kNeutral,  // nothing of its own (event record, stream wait, queries): part of the time around it
  kSubmit,   // hands the device work
  kSync,     // waits for the device
  kBlockingApi,   // allocation, free, module, graph, host memory, context
  kBlockingCopy,  // synchronous, or asynchronous from or to pageable memory
};

// Did it keep its thread from submitting?
inline bool Blocks(Role role) {
  return role == Role::kSync || role == Role::kBlockingApi || role == Role::kBlockingCopy;
}

// A call in which a thread may have waited for a device: a blocking one, or a long submission.
struct WaitingCall {
  int64_t next_start_ns;  // of what its thread submits to that device by a later call; kNever
  int32_t call;
  // The device that it waits for: that of the operation it submitted, else that of its
  // synchronisation record, else the one its thread had last submitted to, else the process's
  // first; -1: none of these.
  int32_t device;
  static constexpr int64_t kNever = std::numeric_limits<int64_t>::max();
};

// A launch or an asynchronous copy that takes this long, 20 times the usual, while the device is
// busy waits for room in the launch queue (1,024 operations).
inline constexpr int64_t kQueueFullNs = 100'000;

class HostView {
 public:
  explicit HostView(const Timeline& timeline) : HostView(timeline, {}) {}
  // `first_devices`: by process, the first device that it uses or -1, where the timeline holds only
  // a part of the run; may be shorter.
  HostView(const Timeline& timeline, std::vector<int32_t> first_devices);

  Role RoleOf(int32_t call) const { return roles_[call]; }
  CallClass ClassOf(int32_t call) const;

  // The first operation that a call submitted, or -1.
  int32_t OpOf(int32_t call) const { return op_of_call_[call]; }

  // The calls of a thread that are not neutral, without those that lie inside an earlier one: both
  // their starts and their ends ascend.
  std::span<const int32_t> CallsOf(int32_t thread) const { return lane_.Row(thread); }
  // The stream-waits and host functions of a thread, by start.
  std::span<const int32_t> OrderingCallsOf(int32_t thread) const { return ordering_.Row(thread); }
  bool HasOrderingCalls() const { return !ordering_.items.empty(); }
  // The synchronisations of a process (-1: of none), by start.
  std::span<const int32_t> SyncsOf(int32_t process) const { return syncs_.Row(process + 1); }
  // Of all threads, by start.
  std::span<const WaitingCall> WaitingCalls() const { return waiting_; }

  // Overhead records of a thread, and those of a process that name no thread; id: in
  // Timeline::overheads.
  const Lane* OverheadsOfThread(int32_t thread) const { return &thread_overheads_[thread]; }
  const Lane* OverheadsOfProcess(int32_t process) const { return &process_overheads_[process]; }
  // Blocking calls of all threads of a process; id: in Timeline::calls.
  const Lane* BlockedOf(int32_t process) const { return &blocked_[process]; }

  // Is any call's exact stack known?
  bool HasSites() const { return has_sites_; }
  // Has any call the role kBlockingCopy?
  bool HasBlockingCopies() const { return has_blocking_copies_; }

 private:
  struct Table {  // rows of indices, one a thread or process
    std::vector<size_t> first;
    std::vector<int32_t> items;
    std::span<const int32_t> Row(int32_t row) const {
      return std::span(items).subspan(first[row], first[row + 1] - first[row]);
    }
    // Sorts (row, item) by row and keeps the order of items.
    void Fill(size_t rows, const std::vector<std::pair<int32_t, int32_t>>& entries);
  };
  struct Scratch;  // what only the building needs
  void ReadOps(Scratch* scratch);
  void FindRoles(Scratch* scratch);
  void ReadCalls(Scratch* scratch);
  void AddWaitingCall(int32_t call, Scratch* scratch);
  void BuildOverheads();

  const Timeline& timeline_;
  std::vector<int32_t> op_of_call_;
  std::vector<Role> roles_;
  Table lane_, ordering_, syncs_;
  std::vector<WaitingCall> waiting_;
  std::vector<Lane> thread_overheads_, process_overheads_, blocked_;
  bool has_sites_ = false, has_blocking_copies_ = false;
};

// A copy whose host side is pageable memory: the driver stages it, and the call may block.
bool IsPageableCopy(const Timeline& timeline, const GpuOp& op);

}  // namespace gpuprobe::tools

#endif  // GPUPROBE_TOOLS_TIMELINE_HOST_VIEW_H_
