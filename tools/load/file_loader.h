// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// One trace file after the other into a LoadedRun: frames -> records with the ids of Timeline.
#ifndef GPUPROBE_TOOLS_LOAD_FILE_LOADER_H_
#define GPUPROBE_TOOLS_LOAD_FILE_LOADER_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "proto/columns.h"
#include "proto/trace_reader.h"
#include "tools/load/capture_facts.h"
#include "tools/load/frame_prefetcher.h"
#include "tools/load/marker_names.h"
#include "tools/load/records/lane_merger.h"
#include "tools/load/records/merge_runs.h"
#include "tools/load/records/record_order.h"
#include "tools/load/records/time_budget.h"
#include "tools/load/samples/load_samples.h"
#include "tools/load/trace_loader.h"

namespace gpuprobe::tools {

// The pieces of which Timeline::ops and ::calls are made: frames, and what others appended.
struct RecordRuns {
  std::vector<Run> ops, calls;
};

class FileLoader {
 public:
  explicit FileLoader(LoadedRun* run)
      : run_(run), samples_(run, &budget_), marker_namer_(&run->timeline) {}
  FileLoader(const FileLoader&) = delete;
  FileLoader& operator=(const FileLoader&) = delete;

  // What there is to read in all, so that room can be made for it at once. Optional.
  void ExpectBytes(uint64_t bytes) { expected_bytes_ = bytes; }

  // Appends the file's records, unsorted and unlinked, its InputFile and what is missing, and a
  // Process and a ProcessCapture for each trace in it: one as a rule, none if it has no frame,
  // several after `cat a b`. Fails, adding nothing, if the file is no trace.
  absl::Status Load(const std::string& path);

  // In two passes, for runs that are too long to be held at once: Load()'s everything but the
  // records, with the ids that they will have; then the records of one frame after the other, of
  // whichever file. What appends to the Timeline in the second pass are records, and streams and
  // threads that none but synchronisations, events and overhead name.
  struct FrameOutline {
    int64_t first_ns, last_ns, written_ns;  // as the frame says; 0: no timed record, not told
    uint64_t records;
    int32_t process;
    std::vector<int32_t> devices;  // that have operations in it
  };
  absl::Status LoadOutline(const std::string& path);
  size_t files() const { return opened_.size(); }
  const std::vector<FrameOutline>& FramesOf(size_t file) const { return opened_[file].frames; }
  // Of the second pass, before it: frames of up to kMostReadAhead files are decompressed and
  // decoded by a thread for each file, one frame ahead (frame_prefetcher.h). For machines that have
  // a core to spare.
  static constexpr size_t kMostReadAhead = 4;
  void ReadAhead() { read_ahead_ = opened_.size() <= kMostReadAhead; }
  // Appends the records of the file's next frame; false: there is none, or it cannot be read.
  bool LoadNextRecords(size_t file);
  // After the second pass: notices.
  void FinishRecords();
  // Which process has operations on which device.
  const std::set<std::pair<int32_t, int32_t>>& process_devices() const { return process_devices_; }
  // How many it has there with usable times, as far as batches tell.
  const std::map<std::pair<int32_t, int32_t>, uint64_t>& operations() const { return operations_; }

  // After the last file: notices that concern all of them.
  void Finish();

  const RecordRuns& runs() const { return runs_; }
  // For who has taken the records: the next ones begin at 0.
  RecordRuns TakeRuns() { return std::exchange(runs_, {}); }
  // What others have appended to the Timeline since is a piece of its own (merge_runs.h).
  void EndPiece();
  // Keeps the host samples until all files are read: SampleLoader::Finish adds them.
  SampleLoader* samples() { return &samples_; }

 private:
  // What the shape of a kernel or a copy is in the Timeline.
  struct ShapeIds {
    int32_t name, shape;
    OpClass op_class;
  };
  // Ids of the frame being read -> ids of the Timeline.
  struct FrameIds {
    std::vector<int32_t> names, symbols;
    std::vector<ShapeIds> shapes, copy_shapes;
    std::vector<const std::string*> marker_names;  // of the frame, which is still there
    absl::flat_hash_map<std::pair<uint32_t, uint32_t>, MarkerNamer::Named> markers;  // domain, name
  };
  // Those of a frame, until its lanes are merged; the rest is reused from batch to batch.
  struct BatchPools {
    proto::ColumnPool<proto::KernelColumns> kernels;
    proto::ColumnPool<proto::CopyColumns> copies;
    proto::ColumnPool<proto::SetColumns> sets;
    proto::ColumnPool<proto::GraphColumns> graphs;
    proto::ColumnPool<proto::ApiColumns> api;
    proto::SyncColumns syncs;
    proto::CudaEventColumns events;
    proto::OverheadColumns overheads;
    proto::MarkerColumns markers;
  };
  struct Lane {
    int32_t device, stream;
  };
  // A batch of GPU work, or a piece of one, whose records are in order and can be true. Points into
  // BatchPools, and where a column holds nothing is null.
  struct OpLane {
    GpuOp common = {};  // what all of them have in common
    LaneTimes times = {};
    const uint32_t* correlation = nullptr;
    const uint32_t* graph_id = nullptr;
    const uint64_t* graph_node_id = nullptr;
    const uint64_t* bytes = nullptr;
    const uint32_t* shape = nullptr;
    const std::vector<ShapeIds>* shapes = nullptr;

    template <typename Batch>
    void Take(const Batch& columns, size_t first, size_t end);
    // Of what the frame does not define: nothing.
    ShapeIds ShapeOf(size_t i) const {
      return shape[i] < shapes->size() ? (*shapes)[shape[i]] : ShapeIds{-1, -1, common.op_class};
    }
  };
  struct CallLane {  // the same of host calls
    LaneTimes times;
    const uint32_t* correlation;
    const uint32_t* symbol;
    const int32_t* result;
    int32_t thread;
  };
  // One end of a range whose other end has not come yet.
  struct OpenMarker {
    MarkerRange range;
    bool begun;  // else it is the end: buffers of other threads may come first
  };
  // What is known of one trace of the file being read.
  struct FileState {
    int32_t process = -1;
    FrameIds ids;
    std::map<uint32_t, int32_t> devices;  // ordinal -> Timeline::devices
    std::map<std::tuple<int32_t, uint32_t, uint32_t>, int32_t> streams;  // device, context, stream
    absl::flat_hash_map<uint32_t, int32_t> threads;                      // tid
    std::map<uint32_t, uint32_t> context_device, context_null_stream;
    absl::flat_hash_map<uint32_t, OpenMarker> open_markers;  // id
    std::map<int64_t, size_t> open_blinds;                   // begin -> Timeline::blinds
    int64_t first_ns = INT64_MAX, last_ns = INT64_MIN;       // of everything in the file
    int64_t previous_written_ns = 0;                         // of the last frame
    int64_t previous_records_ns = 0;                         // of the last frame that held records
    int64_t process_start_ns = 0;
    int64_t first_clock_ns = 0;  // the first reading of its clocks; 0: none
    // What its records' times lie in: later than the process began, and than the frame was closed,
    // only as far as clocks disagree.
    int64_t earliest_ns = 0, latest_ns = TimeBudget::kLatestNs;
    bool buffers_missing = false;
    ClockReader clock;
  };

  enum class Part : uint8_t { kAll, kOutline, kRecords };
  struct OpenedFile {
    std::string path;
    int32_t input;
    std::map<uint64_t, FileState> states;
    std::vector<FrameOutline> frames;
    std::unique_ptr<proto::TraceReader> reader;  // of the second pass
    std::unique_ptr<FramePrefetcher> ahead;      // of `reader`: goes first
    size_t frames_read = 0;
  };
  static void Believe(const FrameHeader& header, FileState* file);
  void LoadFrame(proto::Frame* frame, FileState* file);
  // The packets of a frame that `part_` asks for, and the records of their lanes in order.
  void LoadPackets(proto::Frame* frame, FileState* file);
  void LoadPacket(const Packet& packet, const FrameHeader& header, FileState* file);
  void LoadDictionary(const Dictionary& dictionary, FileState* file);
  void DescribeDevice(const DeviceInfo& info, FileState* file);
  void MergeDevices();
  void LoadProcess(const ProcessInfo& info, FileState* file);
  void LoadEnd(const End& end, const FrameHeader& header, FileState* file);
  void LoadLoss(const Loss& loss, const FrameHeader& header, FileState* file);
  void LoadBlind(const BlindPeriod& blind, const FrameHeader& header, FileState* file);
  void LoadKernels(proto::KernelColumns* columns, FileState* file);
  void LoadCopies(const CopyBatch& batch, const FrameHeader& header, FileState* file);
  void LoadSets(const SetBatch& batch, const FrameHeader& header, FileState* file);
  void LoadGraphs(const GraphBatch& batch, const FrameHeader& header, FileState* file);
  void LoadApi(proto::ApiColumns* columns, FileState* file);
  void LoadSyncs(const SyncBatch& batch, const FrameHeader& header, FileState* file);
  void LoadEvents(const CudaEventBatch& batch, const FrameHeader& header, FileState* file);
  void LoadOverheads(const OverheadBatch& batch, const FrameHeader& header, FileState* file);
  OpLane OpLaneOf(const proto::GpuColumns& columns, OpKind kind, OpClass op_class, FileState* file);
  template <typename Batch>
  void CountOperations(const Batch& batch, FileState* file);
  template <typename Batch>
  void AddOps(Batch* columns, const OpLane& lane);
  void AddUntimed(const proto::GpuColumns& columns, size_t i, uint8_t timing, const OpLane& lane);
  // Appends the records of the lanes that wait to the Timeline, in order.
  void MergeLanes(const FileState& file);
  void MergeOps();
  void MergeCalls(const FileState& file);
  // How many records there will be if the rest of the input is like what was read.
  double ExpectedInTheEnd(size_t records) const;
  MarkerNamer::Named NameMarker(uint32_t domain, uint32_t name, FileState* file);
  void LoadMarkers(const MarkerBatch& batch, const FrameHeader& header, FileState* file);
  // The state of the trace that the frame belongs to, or nullptr if another file had that trace
  // before.
  FileState* StateOf(const FrameHeader& header, const std::string& path);
  void CloseFile(const proto::TraceReader& reader);
  void SayImpossible();
  void AddDamage(const proto::TraceReader& reader);

  bool Believable(int64_t start_ns, int64_t end_ns) {
    return budget_.RecordBelievable(start_ns, end_ns);
  }
  int32_t InternName(const std::string& name);
  int32_t InternSymbol(const std::string& name, const ::gpuprobe::ApiSymbol& symbol);
  int32_t DeviceOf(uint32_t ordinal, FileState* file);
  int32_t StreamOf(int32_t device, uint32_t context, uint32_t stream, FileState* file);
  int32_t ThreadOf(uint32_t tid, FileState* file);
  // Stream of a record that names its context only; -1: none, or the context is not known.
  int32_t ContextStream(uint32_t context, uint32_t stream_plus1, FileState* file);
  Lane LaneOf(const proto::GpuColumns& columns, FileState* file);

  LoadedRun* run_;
  int32_t input_ = -1;                    // file being read, index in Timeline::inputs
  std::map<uint64_t, FileState> states_;  // its traces, by file_id
  uint64_t expected_bytes_ = 0;           // of all files together
  uint64_t read_bytes_ = 0;  // of those before this one, and of this one up to this frame
  RecordRuns runs_;
  BatchPools columns_;
  std::vector<OpLane> op_lanes_;
  std::vector<CallLane> call_lanes_;
  size_t pending_records_ = 0;  // in these lanes
  LaneMerger merger_;
  // Reused.
  std::vector<LaneTimes> lane_times_;
  std::vector<uint32_t> selected_;
  std::vector<size_t> piece_ends_;
  std::vector<uint8_t> used_symbols_;
  std::vector<bool> communicates_;  // parallel to Timeline::names
  absl::flat_hash_map<std::string, int32_t> names_, device_by_uuid_;
  std::map<int32_t, int32_t>
      same_device_;  // a device without a description -> what it turned out to be
  std::map<std::tuple<std::string, uint32_t, bool>, int32_t> symbols_;
  absl::flat_hash_map<std::array<uint32_t, 13>, int32_t> shapes_;
  absl::flat_hash_map<std::array<uint32_t, 5>, int32_t> copy_shapes_;
  absl::flat_hash_map<uint64_t, std::string> path_of_id_;  // file_id -> the file that had it first
  std::map<std::string, std::string> skipped_copies_;      // copy -> original
  TimeBudget budget_;
  SampleLoader samples_;
  MarkerNamer marker_namer_;
  uint64_t impossible_records_ = 0, empty_files_ = 0;
  Part part_ = Part::kAll;
  std::vector<OpenedFile> opened_;
  proto::Frame frame_;  // of the second pass: keeps the memory of its columns
  bool read_ahead_ = false;
  std::set<std::pair<int32_t, int32_t>> process_devices_;
  std::map<std::pair<int32_t, int32_t>, uint64_t> operations_;
  std::vector<int32_t> frame_devices_;
};

}  // namespace gpuprobe::tools

#endif  // GPUPROBE_TOOLS_LOAD_FILE_LOADER_H_
