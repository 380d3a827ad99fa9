// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// The host side of the analyses: what each thread was doing when, as far as CUDA calls tell. Built
// once for all devices; 4 bytes for each call that matters and 4 for each call.
#ifndef GPUPROBE_TOOLS_HOST_VIEW_H_
#define GPUPROBE_TOOLS_HOST_VIEW_H_

#include <cstdint>
#include <span>
#include <vector>

#include "tools/interval_set.h"
#include "tools/timeline.h"

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

class HostView {
 public:
  explicit HostView(const Timeline& timeline);

  Role RoleOf(int32_t call) const;
  CallClass ClassOf(int32_t call) const;

  // The first operation that a call submitted, or -1.
  int32_t OpOf(int32_t call) const { return op_of_call_[call]; }

  // The calls of a thread that are not neutral, without those that lie inside an earlier one: both
  // their starts and their ends ascend.
  std::span<const int32_t> CallsOf(int32_t thread) const { return Row(lane_, thread); }
  // The stream-waits and host functions of a thread, by start.
  std::span<const int32_t> OrderingCallsOf(int32_t thread) const { return Row(ordering_, thread); }

  // Overhead records of a thread, and those of a process that name no thread; id: in
  // Timeline::overheads.
  const Lane* OverheadsOfThread(int32_t thread) const { return &thread_overheads_[thread]; }
  const Lane* OverheadsOfProcess(int32_t process) const { return &process_overheads_[process]; }
  // Blocking calls of all threads of a process; id: in Timeline::calls.
  const Lane* BlockedOf(int32_t process) const { return &blocked_[process]; }

 private:
  struct Table {  // rows of indices, one a thread
    std::vector<size_t> first;
    std::vector<int32_t> items;
  };
  static std::span<const int32_t> Row(const Table& table, int32_t row) {
    return std::span(table.items)
        .subspan(table.first[row], table.first[row + 1] - table.first[row]);
  }
  template <typename Keep>
  Table BuildTable(Keep keep) const;
  void BuildOpOfCall();
  void BuildBlocked();
  void BuildOverheads();

  const Timeline& timeline_;
  std::vector<int32_t> op_of_call_;
  std::vector<bool> pageable_;
  Table lane_, ordering_;
  std::vector<Lane> thread_overheads_, process_overheads_, blocked_;
};

// A copy whose host side is pageable memory: the driver stages it, and the call may block.
bool IsPageableCopy(const Timeline& timeline, const GpuOp& op);

}  // namespace gpuprobe::tools

#endif  // GPUPROBE_TOOLS_HOST_VIEW_H_
