// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Trace events of PyTorch's profiler (Kineto), and Chrome traces like them -> Timeline.
//
//  - A document is one process; a file may hold several (`cat`). Its pid is that of its CUDA calls.
//  - Devices are those that have GPU work, keyed by the document's args.device; those of different
//    documents are different devices unless their uuids say otherwise.
//  - Times stay as written (microseconds -> nanoseconds, exactly). Of several documents those with
//    another baseTimeNanoseconds than the first are shifted by the difference.
//  - A row that cannot be used (no times, NaN, negative) is counted and listed with its place: GPU
//    work as untimed, calls left out.
//  - Damage makes times in which GPU work may be missing blind: those of the damaged rows where
//    they can still be read, else the whole document.
#ifndef GPUPROBE_TOOLS_IMPORT_KINETO_KINETO_LOADER_H_
#define GPUPROBE_TOOLS_IMPORT_KINETO_KINETO_LOADER_H_

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "tools/import/kineto/code_spans.h"
#include "tools/import/kineto/event_reader.h"
#include "tools/import/run_group.h"
#include "tools/import/text/text_map.h"
#include "tools/load/marker_names.h"
#include "tools/load/trace_loader.h"

namespace gpuprobe::tools {

// Its parts: kineto_loader.cc files and documents, kineto_rows.cc rows, kineto_metadata.cc what a
// document says of itself.
class KinetoLoader {
 public:
  explicit KinetoLoader(LoadedRun* run)
      : run_(run), spans_(&run->timeline), markers_(&run->timeline) {}
  KinetoLoader(const KinetoLoader&) = delete;
  KinetoLoader& operator=(const KinetoLoader&) = delete;

  // Appends the file's records, unsorted and unlinked, its InputFile, processes and damage. Fails,
  // adding nothing, if the file holds no trace events.
  absl::Status Load(const std::string& path, Packing packing);

  // After the last file: notices that concern all of them. Fails if the files are not of one run.
  absl::Status Finish();

 private:
  // As in load_batches.cc: differences stay sane.
  static constexpr int64_t kLatestRowNs = int64_t{1} << 62;
  template <typename T>
  static int32_t LastIndex(const std::vector<T>& items) {
    return static_cast<int32_t>(items.size()) - 1;
  }

  // Where this document's records begin in the Timeline.
  struct Begin {
    size_t ops, untimed, calls, syncs, overheads, samples, sampled, markers;
  };
  // A synchronisation row's device and stream, which may not have been seen yet.
  struct SyncLane {
    std::string device;
    int64_t context, stream, wait_stream;
  };
  struct Document {
    int32_t process = -1;
    Begin begin = {};
    RunMember member;
    int64_t base_ns = 0;
    std::map<int64_t, Device> properties;                              // by id
    TextMap<int32_t> devices;                                          // text of args.device
    std::map<std::tuple<int32_t, int64_t, int64_t>, int32_t> streams;  // device, context, stream
    TextMap<int64_t> stream_texts;                                     // streams that are no number
    TextMap<int32_t> threads;                                          // pid and tid
    std::map<std::string, std::string> thread_names, process_names, process_labels;
    std::string call_pid, span_pid;  // texts
    std::vector<SyncLane> sync_lanes;
    std::vector<std::pair<size_t, std::string>> gpu_markers;  // in Timeline::markers, its device
    int64_t first_ns = INT64_MAX, last_ns = INT64_MIN;
    uint64_t runtime_calls = 0, driver_calls = 0, python_rows = 0;
    std::vector<std::string> versions;
  };

  void BeginDocument();
  void CloseDocument();
  void AddRow(const Row& row);
  void AddGpuRow(const Row& row);
  void AddCall(const Row& row);
  void AddSync(const Row& row);
  void AddOverhead(const Row& row);
  void AddSpan(const Row& row);
  void AddMarker(const Row& row, int32_t thread);
  void AddGpuMarker(const Row& row);
  void ResolveGpuMarkers();
  void AddMetadata(const Row& row);
  void AddMember(std::string_view key, std::string_view value);
  void AddDistributedInfo(std::string_view value);
  void AddDeviceProperties(std::string_view value);
  void ResolveSyncs();
  void NameThreadsAndProcess();
  void ShiftToFirstBase();
  void DescribeSource(Process* process, ProcessCapture* capture);
  void AddDamage(const EventReader& reader);
  void AddNotices(const std::string& path, const RowCounts& counts);

  bool Believable(int64_t start_ns, int64_t end_ns);
  void Extend(const Row& row);
  // A row that is a record but cannot be used.
  void AddUnusable(const Row& row, const char* what);
  int32_t InternName(const JsonText& name);
  int32_t InternSymbol(const JsonText& name, bool driver);
  int32_t InternShape(const Row& row);
  int32_t InternCopyShape(const JsonText& name);
  int32_t DeviceOf(const Row& row);
  int32_t StreamOf(int32_t device, int64_t context, int64_t stream);
  int64_t StreamNumber(const Row& row);
  int32_t ThreadOf(const Row& row);

  LoadedRun* run_;
  CodeSpans spans_;
  MarkerNamer markers_;
  int32_t input_ = -1;
  Document document_;
  std::vector<RunMember> members_;  // of all documents that were read
  bool has_first_base_ = false;
  int64_t first_base_ns_ = 0;
  bool other_base_ = false;
  std::vector<FileDamage> unusable_rows_;  // of the file being read
  uint64_t unusable_row_count_ = 0;

  // By text as written, so that nothing is unescaped twice.
  TextMap<int32_t> names_, runtime_symbols_, driver_symbols_, copy_names_;
  absl::flat_hash_map<std::array<uint32_t, 8>, int32_t> shapes_;
  std::map<std::tuple<uint8_t, uint8_t, uint8_t, bool>, int32_t> copy_shapes_;
  std::vector<bool> communicates_;  // parallel to Timeline::names
  std::map<std::string, int32_t> device_by_uuid_;
  std::string lane_;  // scratch
  int64_t duration_budget_ns_ = int64_t{1} << 62;
  uint64_t odd_names_ = 0;  // not UTF-8
};

}  // namespace gpuprobe::tools

#endif  // GPUPROBE_TOOLS_IMPORT_KINETO_KINETO_LOADER_H_
