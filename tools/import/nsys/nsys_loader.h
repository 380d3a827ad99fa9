// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// One Nsight Systems export into a LoadedRun. Seam between its two halves: who and where
// (nsys_targets.cc: processes, devices, names, what is absent) and what happened (nsys_records.cc).
#ifndef GPUPROBE_TOOLS_IMPORT_NSYS_NSYS_LOADER_H_
#define GPUPROBE_TOOLS_IMPORT_NSYS_NSYS_LOADER_H_

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "tools/import/nsys/nsys_database.h"
#include "tools/load/marker_names.h"
#include "tools/load/trace_loader.h"

namespace gpuprobe::tools {

class NsysLoader {
 public:
  NsysLoader(const NsysDatabase& database, const std::string& path, LoadedRun* run);
  NsysLoader(const NsysLoader&) = delete;
  NsysLoader& operator=(const NsysLoader&) = delete;

  // False: no export of Nsight Systems.
  static bool IsExport(const NsysDatabase& database);
  void Load();

 private:
  // Serialised ids: hardware (8 bits), virtual machine (8), process (24), thread (24).
  static constexpr int64_t kThreadMask = 0xffffff;
  static int64_t ProcessKey(int64_t global_id) { return global_id & ~kThreadMask; }
  static uint32_t PidOf(int64_t key) { return static_cast<uint32_t>(key >> 24) & kThreadMask; }

  struct Context {
    std::optional<int64_t> device, null_stream;
  };
  struct Gpu {
    std::string uuid, name;
    uint64_t memory_bytes = 0;
    uint32_t sm_count = 0;
  };
  struct DeviceKey {
    int64_t machine, gpu;
    auto operator<=>(const DeviceKey&) const = default;
  };
  struct Lane {
    int32_t process, device, stream;
  };
  // Where an operation ran, as its row says; columns in this order in every table of operations.
  struct Place {
    std::optional<int64_t> device, context, stream, correlation, global_pid;
  };
  struct StreamKey {
    int32_t process, device;
    int64_t context, stream;
    auto operator<=>(const StreamKey&) const = default;
    template <typename H>
    friend H AbslHashValue(H h, const StreamKey& k) {
      return H::combine(std::move(h), k.process, k.device, k.context, k.stream);
    }
  };
  using ShapeKey = std::array<uint32_t, 13>;

  // nsys_targets.cc
  void ReadMetaData();
  void ReadProcessNames();
  void ReadGpus();
  void ReadContexts();
  void ReadThreadNames();
  void ReadDiagnostics();
  void ResolveStrings();
  void PlaceDevices();
  void DescribeCapture();
  std::string Recorder() const;
  int32_t ProcessOf(int64_t global_id);
  // Of a row that names no process: the only one, or the one whose call has that correlation.
  int32_t ProcessWithoutId(std::optional<int64_t> correlation);
  int64_t KeyOf(int32_t process) const {
    return process_keys_[static_cast<size_t>(process) - first_process_];
  }
  int32_t ThreadOf(int64_t global_id);
  int32_t DeviceOf(int32_t process, const Place& place);
  int32_t DeviceOfContext(int32_t process, int64_t context);  // -1: not known
  int32_t StreamOf(const StreamKey& key);
  Lane LaneOf(const Place& place);
  int32_t ProcessOfRow(std::optional<int64_t> global_id, std::optional<int64_t> correlation);

  // nsys_records.cc
  void ReadCalls();
  void ReadKernels();
  void ReadCopies();
  void ReadSets();
  void ReadGraphs();
  void ReadSyncs();
  void ReadEvents();
  void ReadOverheads(const char* table, bool profiler_table);
  void ReadMarkers();
  void AddMarker(MarkerRange range, int64_t domain, std::string_view name);
  void NameMarkerDomains();
  Place PlaceOf(NsysDatabase::Rows& rows, int first) const;
  // `op` complete but for times and lane.
  void AddOp(NsysDatabase::Rows& rows, GpuOp op);
  int32_t ShapeOf(const ShapeKey& key);
  void FixSyncTypes();
  void SortRecords();

  // Rows of a table; nullptr, and the table's absence noted, if it is not there or lacks one of the
  // first `required` columns.
  std::unique_ptr<NsysDatabase::Rows> Open(const char* table, const char* what,
                                           std::span<const char* const> columns, size_t required);
  // After the last row: what went wrong in that table. `hides`: idle time cannot be judged without
  // its rows.
  void Close(const char* table, const NsysDatabase::Rows& rows, bool hides);
  bool Believable(int64_t start_ns, int64_t end_ns);
  // Both times of a row, from columns 0 and 1; counts those that cannot be true.
  bool ReadTimes(NsysDatabase::Rows& rows, int64_t* start_ns, int64_t* end_ns);
  void Extend(int32_t process, int64_t start_ns, int64_t end_ns);

  const NsysDatabase& database_;
  LoadedRun* run_;
  int32_t input_;
  size_t first_process_, first_stream_, first_op_, first_untimed_, first_call_, first_sync_,
      first_overhead_;
  std::vector<size_t> op_pieces_;  // where each table's operations begin

  std::map<std::string, std::string> meta_;  // capture, export and system, the first of each name
  std::string host_;
  std::optional<int64_t> session_utc_ns_;
  std::map<int64_t, std::string> process_names_;                    // by ProcessKey
  std::map<DeviceKey, Gpu> gpus_;                                   // machine 0: not told
  std::map<std::pair<uint32_t, int64_t>, int64_t> gpu_of_ordinal_;  // pid, ordinal
  std::map<std::pair<uint32_t, int64_t>, Context> contexts_;        // pid, context
  std::vector<std::string> absent_;
  std::vector<std::string> problems_, warnings_;
  std::string hidden_;     // why idle time cannot be judged; empty: it can
  uint64_t bad_rows_ = 0;  // of the table being read
  int64_t duration_budget_ns_ = int64_t{1} << 62;

  absl::flat_hash_map<int64_t, int32_t> processes_, threads_;  // serialised id -> Timeline
  struct Range {
    int64_t begin_ns = INT64_MAX, end_ns = INT64_MIN;
  };
  std::vector<int64_t> process_keys_;  // of this file's processes
  std::vector<Range> ranges_;          // parallel to it: of their records
  std::pair<int64_t, int32_t> last_process_{0, -1}, last_thread_{0, -1};
  std::map<std::pair<int32_t, int64_t>, int32_t> device_of_ordinal_;  // process, ordinal
  // Records hold the number in here until PlaceDevices.
  std::map<DeviceKey, int32_t> devices_;
  std::map<DeviceKey, int64_t> ordinals_;  // in the first process that named it
  absl::flat_hash_map<StreamKey, int32_t> streams_;
  absl::flat_hash_map<ShapeKey, int32_t> shapes_;
  std::map<std::array<int64_t, 4>, int32_t> copy_shapes_;
  std::map<std::pair<int32_t, int64_t>, int32_t> device_of_context_;  // process, context
  absl::flat_hash_map<uint32_t, int32_t> process_of_correlation_;     // made when first asked
  // Names are read when all wanted ones are known: until then numbers in these lists.
  absl::flat_hash_map<int64_t, int32_t> kernel_strings_;
  absl::flat_hash_map<std::pair<int64_t, int64_t>, int32_t> symbol_strings_;  // name, event class
  std::vector<int64_t> kernel_string_ids_;
  std::vector<std::pair<int64_t, int64_t>> symbol_string_ids_;
  std::vector<std::pair<int32_t, int64_t>> thread_string_ids_;  // thread, name
  // NVTX ranges whose name is a registered string: the range without it, the domain, the string.
  struct UnnamedMarker {
    MarkerRange range;
    int64_t domain, string;
  };
  MarkerNamer marker_namer_;
  size_t first_marker_name_;
  std::map<std::string, std::string> marker_domains_;  // by number, as the names have it at first
  std::vector<UnnamedMarker> unnamed_markers_;
};

}  // namespace gpuprobe::tools

#endif  // GPUPROBE_TOOLS_IMPORT_NSYS_NSYS_LOADER_H_
