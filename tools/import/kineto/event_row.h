// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// One row of a trace: what is taken of its JSON.
#ifndef GPUPROBE_TOOLS_IMPORT_KINETO_EVENT_ROW_H_
#define GPUPROBE_TOOLS_IMPORT_KINETO_EVENT_ROW_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "tools/import/kineto/kineto_words.h"
#include "tools/import/text/json_scan.h"

namespace gpuprobe::tools {

// Numbers among a row's arguments.
enum class Arg : uint8_t {
  kDevice,
  kStream,
  kContext,
  kCorrelation,
  kBytes,
  kRegisters,
  kSharedBytes,
  kGridX,
  kGridY,
  kGridZ,
  kBlockX,
  kBlockY,
  kBlockZ,
  kWaitStream,  // of a stream wait: the stream on which the event was recorded
  kWaitRecord,  // ... correlation id of the call that recorded it
  kWaitEvent,   // ... its id
  kGraph,
  kGraphNode,
  kCount
};

// One element of the event array. Texts are valid until the next call of Next().
struct Row {
  RowKind kind = RowKind::kNone;
  char phase = 0;           // 0: none
  bool unfinished = false;  // a "B" whose "E" never came
  JsonText category, name, pid, tid;
  // Nothing: missing, or no time that fits 63 bits.
  std::optional<int64_t> start_ns, end_ns;
  JsonText device, stream;            // as written: not all are numbers
  JsonText sync_kind, label, labels;  // args.cuda_sync_kind, .name, .labels
  uint64_t offset = 0, bytes = 0;     // in the unpacked text

  std::optional<int64_t> Number(Arg arg) const {
    const auto i = static_cast<size_t>(arg);
    if ((present >> i & 1) == 0) return std::nullopt;
    return numbers[i];
  }
  void SetNumber(Arg arg, int64_t value) {
    numbers[static_cast<size_t>(arg)] = value;
    present |= 1u << static_cast<size_t>(arg);
  }
  std::array<int64_t, static_cast<size_t>(Arg::kCount)> numbers;
  uint32_t present = 0;
};

// Reads the object at the cursor into `row`, all but its times, which are handed out as they stand.
Scan ParseRow(JsonCursor* cursor, Row* row, JsonText* start, JsonText* duration);

}  // namespace gpuprobe::tools

#endif  // GPUPROBE_TOOLS_IMPORT_KINETO_EVENT_ROW_H_
