// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Frames -> flat records with named fields, in file order: the model behind `dump`.
#ifndef GPUPROBE_TOOLS_DUMP_DUMP_RECORDS_H_
#define GPUPROBE_TOOLS_DUMP_DUMP_RECORDS_H_

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "proto/columns.h"
#include "proto/sample_columns.h"
#include "proto/trace_reader.h"

namespace gpuprobe::tools {

struct DumpField {
  enum class Kind { kNumber, kText, kList };
  const char* key;
  Kind kind;
  int64_t number = 0;
  std::string text;
  std::vector<std::string> list;  // JSON has all of it, the other formats the first ones in a cell
};

struct DumpRecord {
  const char* kind;  // "kernel", "call", "frame", ...
  bool timed = false;
  int64_t start_ns = 0, end_ns = 0;
  std::string name;  // kernel (mangled), call; empty where there is none
  std::vector<DumpField> fields;

  DumpRecord& Number(const char* key, uint64_t value) {
    return Signed(key, static_cast<int64_t>(value));
  }
  DumpRecord& Signed(const char* key, int64_t value) {
    fields.push_back({key, DumpField::Kind::kNumber, value, "", {}});
    return *this;
  }
  DumpRecord& Text(const char* key, std::string value) {
    fields.push_back({key, DumpField::Kind::kText, 0, std::move(value), {}});
    return *this;
  }
  DumpRecord& List(const char* key, std::vector<std::string> items) {
    fields.push_back({key, DumpField::Kind::kList, 0, "", std::move(items)});
    return *this;
  }
  // Left out where it says nothing.
  DumpRecord& NumberIf(const char* key, uint64_t value) {
    return value == 0 ? *this : Number(key, value);
  }
  DumpRecord& TextIf(const char* key, const std::string& value) {
    return value.empty() ? *this : Text(key, value);
  }
};

DumpRecord FileRecord(const proto::TraceReader& reader);
DumpRecord DamageRecord(const proto::Damage& damage);

// Does the frame itself say that records are missing from the trace: lost, never handed over, not
// captured?
bool TellsOfLoss(const proto::Frame& frame);

class FrameDumper {
 public:
  // `sink` takes one record and says whether it wants more.
  using Sink = std::function<bool(const DumpRecord&)>;
  explicit FrameDumper(Sink sink) : sink_(std::move(sink)) {}

  void Dump(const proto::Frame& frame);
  static uint32_t PidOf(const proto::Frame& frame);  // 0: the frame does not say

 private:
  bool DumpPacket(const Packet& packet, const proto::Frame& frame);
  bool DumpHeader(const proto::Frame& frame);
  bool DumpDictionary(const Dictionary& dictionary);
  bool DumpProcess(const ProcessInfo& info);
  bool DumpCapture(const CaptureInfo& info);
  bool DumpCost(const Cost& cost);
  bool DumpKernels(const KernelBatch& batch, const FrameHeader& header);
  bool DumpCopies(const CopyBatch& batch, const FrameHeader& header);
  bool DumpSets(const SetBatch& batch, const FrameHeader& header);
  bool DumpGraphs(const GraphBatch& batch, const FrameHeader& header);
  bool DumpCalls(const ApiBatch& batch, const FrameHeader& header);
  bool DumpSyncs(const SyncBatch& batch, const FrameHeader& header);
  bool DumpEvents(const CudaEventBatch& batch, const FrameHeader& header);
  bool DumpOverheads(const OverheadBatch& batch, const FrameHeader& header);
  bool DumpMarkers(const MarkerBatch& batch, const FrameHeader& header);
  // dump_samples.cc
  bool DumpSamples(const HostSamples& piece);
  bool DumpSampledProcess(const SampledProcess& info);
  bool DumpThreadSamples(const ThreadSamples& thread, const HostSamples& piece);
  bool DumpUsage(const ProcessUsage& usage);
  std::string Name(uint32_t id) const;

  Sink sink_;
  Dictionary dictionary_;       // of the frame
  proto::SampleTables tables_;  // of the piece of host samples
};

}  // namespace gpuprobe::tools

#endif  // GPUPROBE_TOOLS_DUMP_DUMP_RECORDS_H_
