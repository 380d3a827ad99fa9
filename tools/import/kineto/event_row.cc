// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "tools/import/kineto/event_row.h"

#include <string_view>

#include "tools/import/text/exact_time.h"

namespace gpuprobe::tools {
namespace {

using namespace std::string_view_literals;

// Rows whose arguments say something.
bool HasArguments(RowKind kind) {
  switch (kind) {
    case RowKind::kPython:
    case RowKind::kOperator:
    case RowKind::kAnnotation:
    case RowKind::kOverhead:
    case RowKind::kKnown:
    case RowKind::kUnknown:
      return false;
    default:
      return true;
  }
}

Scan ParseNumber(Arg arg, JsonCursor* cursor, JsonText* text, Row* row) {
  const Scan scan = cursor->Value(text);
  if (scan == Scan::kOk) {
    if (const auto number = IntegerOf(text->raw)) row->SetNumber(arg, *number);
  }
  return scan;
}

Scan ParseDimensions(Arg first, JsonCursor* cursor, Row* row) {
  if (cursor->Peek() != '[') return cursor->Skip();
  size_t i = 0;
  return cursor->Array([&] {
    JsonText ignored;
    if (i >= 3) return cursor->Skip();
    return ParseNumber(static_cast<Arg>(static_cast<size_t>(first) + i++), cursor, &ignored, row);
  });
}

Scan ParseArgument(std::string_view key, JsonCursor* cursor, Row* row) {
  JsonText ignored;
  switch (key.size()) {
    case 4:
      if (key == "grid"sv) return ParseDimensions(Arg::kGridX, cursor, row);
      if (key == "name"sv) return cursor->Value(&row->label);
      break;
    case 5:
      if (key == "block"sv) return ParseDimensions(Arg::kBlockX, cursor, row);
      if (key == "bytes"sv || key == "Bytes"sv) {
        return ParseNumber(Arg::kBytes, cursor, &ignored, row);
      }
      break;
    case 6:
      if (key == "device"sv) return ParseNumber(Arg::kDevice, cursor, &row->device, row);
      if (key == "stream"sv) return ParseNumber(Arg::kStream, cursor, &row->stream, row);
      if (key == "labels"sv) return cursor->Value(&row->labels);
      break;
    case 7:
      if (key == "context"sv) return ParseNumber(Arg::kContext, cursor, &ignored, row);
      break;
    case 8:
      if (key == "graph id"sv) return ParseNumber(Arg::kGraph, cursor, &ignored, row);
      break;
    case 11:
      if (key == "correlation"sv) return ParseNumber(Arg::kCorrelation, cursor, &ignored, row);
      break;
    case 13:
      if (key == "shared memory"sv) return ParseNumber(Arg::kSharedBytes, cursor, &ignored, row);
      if (key == "graph node id"sv) return ParseNumber(Arg::kGraphNode, cursor, &ignored, row);
      break;
    case 14:
      if (key == "cuda_sync_kind"sv) return cursor->Value(&row->sync_kind);
      if (key == "wait_on_stream"sv) return ParseNumber(Arg::kWaitStream, cursor, &ignored, row);
      break;
    case 20:
      if (key == "registers per thread"sv)
        return ParseNumber(Arg::kRegisters, cursor, &ignored, row);
      break;
    case 21:
      if (key == "wait_on_cuda_event_id"sv)
        return ParseNumber(Arg::kWaitEvent, cursor, &ignored, row);
      break;
    case 33:
      if (key == "wait_on_cuda_event_record_corr_id"sv) {
        return ParseNumber(Arg::kWaitRecord, cursor, &ignored, row);
      }
      break;
    default:
      break;
  }
  return cursor->Skip();
}

}  // namespace

Scan ParseRow(JsonCursor* cursor, Row* row, JsonText* start, JsonText* duration) {
  row->kind = RowKind::kNone;
  row->phase = 0;
  row->unfinished = false;
  row->present = 0;
  row->category = row->name = row->pid = row->tid = row->device = row->stream = {};
  row->sync_kind = row->label = row->labels = {};
  *start = *duration = {};
  return cursor->Object([&](std::string_view key) {
    if (key == "ph"sv) {
      JsonText phase;
      const Scan scan = cursor->Value(&phase);
      if (phase.raw.size() == 1) row->phase = phase.raw[0];
      return scan;
    }
    if (key == "ts"sv) return cursor->Value(start);
    if (key == "dur"sv) return cursor->Value(duration);
    if (key == "name"sv) return cursor->Value(&row->name);
    if (key == "pid"sv) return cursor->Value(&row->pid);
    if (key == "tid"sv) return cursor->Value(&row->tid);
    if (key == "cat"sv) {
      const Scan scan = cursor->Value(&row->category);
      row->kind = KindOfCategory(row->category.raw);
      return scan;
    }
    if (key == "args"sv && cursor->Peek() == '{' && HasArguments(row->kind)) {
      return cursor->Object(
          [&](std::string_view name) { return ParseArgument(name, cursor, row); });
    }
    return cursor->Skip();
  });
}

}  // namespace gpuprobe::tools
