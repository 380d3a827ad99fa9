// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "proto/sample_columns.h"

#include <algorithm>
#include <initializer_list>

#include "proto/format.h"

namespace gpuprobe::proto {
namespace {

using google::protobuf::RepeatedField;

// Element i of a column that may be short.
template <class T>
T At(const RepeatedField<T>& column, size_t i) {
  return i < static_cast<size_t>(column.size()) ? column.data()[i] : T{0};
}

// How many rows there are, given the column that tells and the others.
size_t Rows(int complete, std::initializer_list<int> others, uint64_t* clipped) {
  const size_t rows = std::min(static_cast<size_t>(complete), kMaxBatchRecords);
  const size_t longest = static_cast<size_t>(std::max(complete, std::max(others)));
  *clipped += longest - rows;
  return rows;
}

uint32_t InRange(uint64_t id, size_t count, uint64_t* invalid) {
  if (id <= count) return static_cast<uint32_t>(id);
  ++*invalid;
  return 0;
}

// A duration in units -> ns. `units` may have wrapped: then it is negative.
int64_t Duration(int64_t units, int64_t unit_ns, uint64_t* invalid) {
  int64_t ns;
  if (units >= 0 && !__builtin_mul_overflow(units, unit_ns, &ns)) return ns;
  ++*invalid;
  return 0;
}

int64_t WrappingSum(int64_t a, int64_t b) {
  return static_cast<int64_t>(static_cast<uint64_t>(a) + static_cast<uint64_t>(b));
}

}  // namespace

void Decode(const HostSamples& piece, SampleTables* out) {
  out->clipped = out->invalid_ids = 0;
  out->strings = static_cast<size_t>(piece.strings_size());
  out->locations.resize(Rows(piece.location_function_delta_size(),
                             {piece.location_file_delta_size(), piece.location_line_size(),
                              piece.location_offset_size(), piece.location_kind_size()},
                             &out->clipped));
  uint32_t function = 0, file = 0;  // wrap: then they are out of range
  for (size_t i = 0; i < out->locations.size(); ++i) {
    function += static_cast<uint32_t>(At(piece.location_function_delta(), i));
    file += static_cast<uint32_t>(At(piece.location_file_delta(), i));
    out->locations[i] = {InRange(function, out->strings, &out->invalid_ids),
                         InRange(file, out->strings, &out->invalid_ids),
                         At(piece.location_line(), i), At(piece.location_offset(), i),
                         At(piece.location_kind(), i) == LOCATION_NATIVE};
  }
  out->nodes.resize(
      Rows(piece.node_location_delta_size(), {piece.node_parent_distance_size()}, &out->clipped));
  uint32_t location = 0;
  for (size_t i = 0; i < out->nodes.size(); ++i) {
    location += static_cast<uint32_t>(At(piece.node_location_delta(), i));
    // The node's own id is i + 1: its parent is at most i places before it.
    const uint32_t distance = InRange(At(piece.node_parent_distance(), i), i, &out->invalid_ids);
    out->nodes[i] = {distance == 0 ? 0 : static_cast<uint32_t>(i) + 1 - distance,
                     InRange(location, out->locations.size(), &out->invalid_ids)};
  }
}

void Decode(const ThreadSamples& thread, const HostSamples& piece, const SampleTables& tables,
            SampleColumns* out) {
  out->clipped = out->invalid_ids = out->invalid_times = 0;
  const size_t count =
      Rows(thread.time_delta_size(),
           {thread.interval_excess_size(), thread.cpu_size(), thread.runnable_size(),
            thread.state_size(), thread.stack_size(), thread.syscall_plus1_size(),
            thread.wait_target_size(), thread.flags_size(), thread.gil_holder_size()},
           &out->clipped);
  out->count = count;
  for (auto* column : {&out->time_ns, &out->interval_ns, &out->cpu_ns, &out->runnable_ns}) {
    column->resize(count);
  }
  for (auto* column :
       {&out->state, &out->flags, &out->stack, &out->wait_target, &out->gil_holder}) {
    column->resize(count);
  }
  out->syscall.resize(count);
  const int64_t unit_ns = std::max<int64_t>(1, piece.unit_ns());
  int64_t time = 0;  // in units from the base
  for (size_t i = 0; i < count; ++i) {
    const int64_t delta = thread.time_delta().data()[i];
    time = WrappingSum(time, delta);
    out->time_ns[i] = WrappingSum(
        piece.base_ns(),
        static_cast<int64_t>(static_cast<uint64_t>(time) * static_cast<uint64_t>(unit_ns)));
    const int64_t interval = WrappingSum(At(thread.interval_excess(), i), i == 0 ? 0 : delta);
    const int64_t cpu = At(thread.cpu(), i);
    out->interval_ns[i] = Duration(interval, unit_ns, &out->invalid_times);
    out->cpu_ns[i] = Duration(cpu >= 0 ? cpu : WrappingSum(WrappingSum(interval, cpu), 1), unit_ns,
                              &out->invalid_times);
    out->runnable_ns[i] =
        Duration(static_cast<int64_t>(At(thread.runnable(), i)), unit_ns, &out->invalid_times);
    out->state[i] = At(thread.state(), i);
    out->flags[i] = At(thread.flags(), i);
    out->stack[i] = InRange(At(thread.stack(), i), tables.nodes.size(), &out->invalid_ids);
    out->wait_target[i] = InRange(At(thread.wait_target(), i), tables.strings, &out->invalid_ids);
    // 2^31 and above are no system calls.
    out->syscall[i] =
        static_cast<int32_t>(InRange(At(thread.syscall_plus1(), i), INT32_MAX, &out->invalid_ids)) -
        1;
    out->gil_holder[i] = At(thread.gil_holder(), i);
  }
}

}  // namespace gpuprobe::proto
