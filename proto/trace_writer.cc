// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "proto/trace_writer.h"

#include <new>

#include "proto/format.h"
#include "proto/trace_writer_inl.h"
#include "proto/utf8.h"

namespace gpuprobe::proto {
namespace {

// Times of host records: CUPTI gives no flag for those it could not take.
bool Plausible(int64_t start_ns, int64_t end_ns) { return start_ns > 0 && end_ns >= start_ns; }

// start - ns, 0 if CUPTI did not take the time; wraps, since nobody has checked these times.
int64_t TimeBefore(int64_t start_ns, int64_t ns) {
  return ns == 0
             ? 0
             : static_cast<int64_t>(static_cast<uint64_t>(start_ns) - static_cast<uint64_t>(ns));
}

}  // namespace

bool TraceWriter::State::FindLane(LaneClass lane_class, Timing timing, uint32_t device,
                                  uint32_t context, uint32_t stream, int* lane) {
  const uint32_t before = staging.lane_count;
  *lane = staging.LaneOf(lane_class, timing, device, context, stream);
  if (*lane < 0) return false;
  if (staging.lane_count != before) {
    batch_bytes += kBatchMaxBytes;
    if (lane_class != LaneClass::kApi) {
      facts.UseDevice(device);
      facts.UseStream(context, stream);
    }
  }
  ++staging.lanes[*lane].count;
  const uint16_t quick = static_cast<uint16_t>(*lane);
  if (lane_class == LaneClass::kApi) {
    staging.quick_api_lane[stream % Staging::kQuickLanes] = quick;
  } else if (lane_class == LaneClass::kKernel && timing == Timing::kValid) {
    staging.quick_kernel_lane[stream % Staging::kQuickLanes] = quick;
  }
  return true;
}

void TraceWriter::State::ConvertGpuTimes(Timing* timing, int64_t* start_ns, int64_t* end_ns) {
  if (*timing == Timing::kValid && *end_ns < *start_ns) *timing = Timing::kInvalid;
  if (*timing == Timing::kValid) {
    *start_ns = ToTrace(*start_ns);
    *end_ns = ToTrace(*end_ns);
    if (*end_ns < *start_ns) *end_ns = *start_ns;  // a fitted clock may round a zero length to -1
  } else if (*timing == Timing::kUnfinished) {
    *start_ns = *end_ns = ToTrace(*start_ns);
  }
}

void TraceWriter::State::ConvertHostTimes(int64_t* start_ns, int64_t* end_ns) {
  if (!Plausible(*start_ns, *end_ns)) {  // kept, as an instant; no guess at the missing time
    *end_ns = *start_ns;
    return;
  }
  *start_ns = ToTrace(*start_ns);
  *end_ns = ToTrace(*end_ns);
  if (*end_ns < *start_ns) *end_ns = *start_ns;
}

// What OffsetApplies says of a time, nobody has to ask again: that it is one (record times have 62
// bits, cupti/record_fields.h) and that it is above 0 on the trace clock as well.
void TraceWriter::State::AskOffset() {
  constexpr int64_t kLastRecordTime = (int64_t{1} << 62) - 1;
  constexpr ConstantOffset kIdentity = {1, kLastRecordTime, 0}, kNone = {1, 0, 0};
  if (hooks.constant_offset != nullptr) {
    offset = hooks.constant_offset(hooks.user);
    if (offset.last_ns > kLastRecordTime) offset.last_ns = kLastRecordTime;
    if (offset.first_ns < 1) offset.first_ns = 1;
    if (offset.offset_ns < 0 && offset.first_ns <= -offset.offset_ns) {
      offset.first_ns = 1 - offset.offset_ns;
    }
  } else {
    offset = hooks.to_trace_ns == nullptr ? kIdentity : kNone;
  }
}

bool TraceWriter::Init(const WriterOptions& options, const WriterHooks& hooks, void* memory) {
  if (memory == nullptr || hooks.write_frame == nullptr) return false;
  if (options.max_frame_records == 0 || options.max_frame_records > kMaxBatchRecords) return false;
  Arena arena(memory, options.memory_bytes);
  void* place = arena.Take<State>(1);
  if (place == nullptr) return false;
  State* state = new (place) State();
  state->stats = &stats_;
  if (!state->Init(options, hooks, &arena)) return false;
  state_ = state;
  return true;
}

void TraceWriter::OnKernel(const KernelRecord& r) {
  if (state_ == nullptr) return;
  if (r.timing == Timing::kValid && TakeKnownKernel(KernelFields{r})) return;
  state_->Stage(r);
}

void TraceWriter::State::Stage(const KernelRecord& r) {
  StagedKernel k = {r.start_ns, r.end_ns, r.correlation, 0, 0};
  Timing timing = r.timing;
  ConvertGpuTimes(&timing, &k.start_ns, &k.end_ns);
  const bool has_graph = r.graph_id != 0 || r.graph_node_id != 0;
  const bool has_latency = timing == Timing::kValid && (r.queued_ns != 0 || r.submitted_ns != 0);
  const size_t max_bytes = kKernelMaxBytes + (has_graph ? kKernelGraphMaxBytes : 0) +
                           (has_latency ? kKernelLatencyMaxBytes : 0);
  FrameDictionary::ShapeRef shape;
  int lane;
  if (!Admit(staging.kernels, max_bytes, [&] {
        return dictionary.Shape(r, &shape) &&
               FindLane(LaneClass::kKernel, timing, r.device, r.context, r.stream, &lane);
      })) {
    return;
  }
  if (timing == Timing::kValid || timing == Timing::kUnfinished)
    staging.NoteTimes(k.start_ns, k.end_ns);
  if (shape.name_replaced) {
    ++stats->names_replaced;
    Loss(LossCause::kNameTableFull, 1, k.start_ns, k.end_ns, 0);
  }
  const uint32_t index = staging.kernels.size;
  if (has_graph) staging.kernel_graphs[index] = {r.graph_node_id, r.graph_id};
  if (has_latency) {
    staging.kernel_latencies[index] = {TimeBefore(r.start_ns, r.queued_ns),
                                       TimeBefore(r.start_ns, r.submitted_ns)};
  }
  k.id = shape.id;
  k.lane_and_flags = static_cast<uint16_t>(lane << 2 | (has_graph ? kHasGraph : 0) |
                                           (has_latency ? kHasLatency : 0));
  staging.kernels.Push(k);
}

void TraceWriter::OnCopy(const CopyRecord& r) {
  if (state_ == nullptr) return;
  State& s = *state_;
  StagedCopy c = {r.start_ns, r.end_ns, r.bytes, r.graph_node_id, r.correlation, r.graph_id, 0, 0};
  Timing timing = r.timing;
  s.ConvertGpuTimes(&timing, &c.start_ns, &c.end_ns);
  int lane;
  if (!s.Admit(s.staging.copies, kCopyMaxBytes, [&] {
        return s.dictionary.CopyShape(r, &c.shape) &&
               s.FindLane(LaneClass::kCopy, timing, r.device, r.context, r.stream, &lane);
      })) {
    return;
  }
  if (timing == Timing::kValid || timing == Timing::kUnfinished)
    s.staging.NoteTimes(c.start_ns, c.end_ns);
  if (r.peer) {
    s.facts.UseDevice(r.src_device);
    s.facts.UseDevice(r.dst_device);
  }
  c.lane_index = static_cast<uint16_t>(lane);
  s.staging.copies.Push(c);
}

void TraceWriter::OnSet(const SetRecord& r) {
  if (state_ == nullptr) return;
  State& s = *state_;
  StagedSet m = {r.start_ns, r.end_ns, r.bytes, r.graph_node_id, r.correlation,
                 r.graph_id, r.value,  0,       r.memory_kind,   r.flags};
  Timing timing = r.timing;
  s.ConvertGpuTimes(&timing, &m.start_ns, &m.end_ns);
  int lane;
  if (!s.Admit(s.staging.sets, kSetMaxBytes, [&] {
        return s.FindLane(LaneClass::kSet, timing, r.device, r.context, r.stream, &lane);
      })) {
    return;
  }
  if (timing == Timing::kValid || timing == Timing::kUnfinished)
    s.staging.NoteTimes(m.start_ns, m.end_ns);
  m.lane_index = static_cast<uint16_t>(lane);
  s.staging.sets.Push(m);
}

void TraceWriter::OnGraph(const GraphRecord& r) {
  if (state_ == nullptr) return;
  State& s = *state_;
  StagedGraph g = {r.start_ns, r.end_ns, r.correlation, r.graph_id, 0};
  Timing timing = r.timing;
  s.ConvertGpuTimes(&timing, &g.start_ns, &g.end_ns);
  int lane;
  if (!s.Admit(s.staging.graphs, kGraphMaxBytes, [&] {
        return s.FindLane(LaneClass::kGraph, timing, r.device, r.context, r.stream, &lane);
      })) {
    return;
  }
  if (timing == Timing::kValid || timing == Timing::kUnfinished)
    s.staging.NoteTimes(g.start_ns, g.end_ns);
  g.lane_index = static_cast<uint32_t>(lane);
  s.staging.graphs.Push(g);
}

void TraceWriter::OnApi(const ApiRecord& r) {
  if (state_ != nullptr && !TakeKnownCall(r)) state_->Stage(r);
}

void TraceWriter::State::Stage(const ApiRecord& r) {
  StagedApi a = {r.start_ns, r.end_ns, r.correlation, 0, 0};
  ConvertHostTimes(&a.start_ns, &a.end_ns);
  const bool failed = r.result != 0;
  int lane;
  if (!Admit(staging.api, kApiMaxBytes + (failed ? kFailedMaxBytes : 0), [&] {
        return dictionary.ApiSymbol(r.domain, r.cbid, &a.id) &&
               FindLane(LaneClass::kApi, Timing::kValid, 0, 0, r.thread, &lane);
      })) {
    return;
  }
  if (a.start_ns > 0) staging.NoteTimes(a.start_ns, a.end_ns);
  a.lane_and_flags = static_cast<uint16_t>(lane << 2 | (failed ? kHasFailed : 0));
  if (failed) staging.api_results[staging.api.size] = r.result;
  staging.api.Push(a);
}

void TraceWriter::OnSync(const SyncRecord& r) {
  if (state_ == nullptr) return;
  State& s = *state_;
  SyncRecord sync = r;
  s.ConvertHostTimes(&sync.start_ns, &sync.end_ns);
  if (!s.Admit(s.staging.syncs, kSyncMaxBytes, [] { return true; })) return;
  if (sync.start_ns > 0) s.staging.NoteTimes(sync.start_ns, sync.end_ns);
  if (r.context != kInvalidId) s.facts.UseStream(r.context, r.stream);
  s.staging.syncs.Push(sync);
}

void TraceWriter::OnCudaEvent(const CudaEventRecord& r) {
  if (state_ == nullptr) return;
  State& s = *state_;
  if (!s.Admit(s.staging.cuda_events, kCudaEventMaxBytes, [] { return true; })) return;
  if (r.context != kInvalidId) s.facts.UseStream(r.context, r.stream);
  s.staging.cuda_events.Push(r);
}

void TraceWriter::OnOverhead(const OverheadRecord& r) {
  if (state_ == nullptr) return;
  State& s = *state_;
  OverheadRecord overhead = r;
  s.ConvertHostTimes(&overhead.start_ns, &overhead.end_ns);
  if (!s.Admit(s.staging.overheads, kOverheadMaxBytes, [] { return true; })) return;
  if (overhead.start_ns > 0) s.staging.NoteTimes(overhead.start_ns, overhead.end_ns);
  s.facts.UseDevice(r.device);
  if (r.context != kInvalidId) s.facts.UseStream(r.context, r.stream);
  s.staging.overheads.Push(overhead);
}

void TraceWriter::OnMarker(const MarkerRecord& r) {
  if (state_ == nullptr) return;
  State& s = *state_;
  StagedMarker m = {r.time_ns, r.id, r.thread, 0, 0, r.flags};
  int64_t end_ns = m.time_ns;
  s.ConvertHostTimes(&m.time_ns, &end_ns);
  bool replaced = false, domain_replaced = false;
  if (!s.Admit(s.staging.markers, kMarkerMaxBytes, [&] {
        return s.dictionary.MarkerName(r.name, &m.name, &replaced) &&
               s.dictionary.MarkerName(r.domain, &m.domain, &domain_replaced);
      })) {
    return;
  }
  s.staging.NoteTimes(m.time_ns, m.time_ns);
  if (replaced || domain_replaced) {
    ++stats_.names_replaced;
    s.Loss(LossCause::kNameTableFull, 1, m.time_ns, m.time_ns, 0);
  }
  s.staging.markers.Push(m);
}

void TraceWriter::OnDevice(const DeviceRecord& r) {
  if (state_ == nullptr) return;
  char name[Facts::kMaxDeviceNameBytes];
  int64_t size = -1;
  const WriterHooks& hooks = state_->hooks;
  if (r.name != nullptr && hooks.read_name != nullptr) {
    size = hooks.read_name(hooks.user, r.name, name, sizeof(name));
  }
  if (size < 0) size = 0;
  if (size > static_cast<int64_t>(sizeof(name))) size = sizeof(name);
  ReplaceInvalidUtf8(name, static_cast<size_t>(size));
  state_->facts.AddDevice(r, name, static_cast<size_t>(size));
}

void TraceWriter::OnContext(const ContextRecord& r) {
  if (state_ != nullptr) state_->facts.AddContext(r);
}

void TraceWriter::OnStream(const StreamRecord& r) {
  if (state_ != nullptr) state_->facts.AddStream(r);
}

void TraceWriter::BeginBuffer() {
  if (state_ == nullptr) return;
  state_->dictionary.BeginBuffer();
  state_->AskOffset();
}

void TraceWriter::AddLoss(LossCause cause, uint64_t count, int64_t begin_ns, int64_t end_ns,
                          int64_t detail) {
  if (state_ != nullptr) state_->Loss(cause, count, begin_ns, end_ns, detail);
}

void TraceWriter::AddBlind(int64_t begin_ns, int64_t end_ns, const char* who, const char* reason) {
  if (state_ == nullptr) return;
  State& s = *state_;
  for (size_t i = 0; i < s.blind_count; ++i) {
    BlindEntry& known = s.blinds[i];
    if (known.begin_ns != begin_ns) continue;
    if (known.end_ns != end_ns) known.reported = false;
    known.end_ns = end_ns;
    return;
  }
  if (s.blind_count == kMaxBlinds) {  // widen the last one: too long a blind time is the safe error
    BlindEntry& last = s.blinds[kMaxBlinds - 1];
    if (begin_ns < last.begin_ns) last.begin_ns = begin_ns;
    last.end_ns =
        end_ns == 0 || last.end_ns == 0 ? 0 : (end_ns > last.end_ns ? end_ns : last.end_ns);
    last.reported = false;
    return;
  }
  BlindEntry& blind = s.blinds[s.blind_count++];
  blind.begin_ns = begin_ns;
  blind.end_ns = end_ns;
  blind.reported = false;
  CopyText(blind.who, who);
  CopyText(blind.reason, reason);
}

bool TraceWriter::HasData() const {
  if (state_ == nullptr) return false;
  const State& s = *state_;
  if (s.staging.records() != 0 || s.facts.news()) return true;
  for (const LossEntry& loss : s.losses) {
    if (loss.count != 0) return true;
  }
  for (size_t i = 0; i < s.blind_count; ++i) {
    if (!s.blinds[i].reported) return true;
  }
  return false;
}

bool TraceWriter::CloseFrame() { return state_ != nullptr && state_->WriteFrame(nullptr); }

bool TraceWriter::Finish(const char* reason, uint32_t buffers_outstanding) {
  if (state_ == nullptr) return false;
  const EndInfo end = {reason, buffers_outstanding};
  if (!state_->WriteFrame(&end)) return false;
  state_ = nullptr;  // On* calls that come too late do nothing
  return true;
}

}  // namespace gpuprobe::proto
