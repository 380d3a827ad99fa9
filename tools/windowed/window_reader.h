// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// The records of a run in order of time, window by window: windowed_run.h says how.
#ifndef GPUPROBE_TOOLS_WINDOWED_WINDOW_READER_H_
#define GPUPROBE_TOOLS_WINDOWED_WINDOW_READER_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "tools/load/file_loader.h"
#include "tools/load/records/merge_runs.h"
#include "tools/load/trace_loader.h"
#include "tools/windowed/windowed_analysis.h"

namespace gpuprobe::tools {

class WindowReader {
 public:
  // `outline` outlives it; nobody else touches it meanwhile. `least_ns`: windows are at least that
  // long, as far as that takes no more than twice the records.
  WindowReader(LoadedOutline* outline, size_t records, int64_t least_ns);

  // The first window holds the run's first operation, from which --from and --to count, unless very
  // many calls come before it. False: `window` holds the last records. What it held before is gone,
  // its memory is used again.
  bool Next(RecordWindow* window);

 private:
  struct File {
    size_t next = 0;                      // frame
    std::vector<int64_t> earliest_after;  // of the frames from this one on
  };

  bool ReadFrame();
  int64_t Horizon() const;
  std::vector<bool> DevicesToCome() const;

  FileLoader& loader_;
  Timeline& timeline_;
  const std::vector<int64_t>& shifts_;
  const size_t records_;
  const int64_t least_ns_;
  std::vector<File> files_;
  std::vector<uint64_t> frames_of_device_;  // that have not been read
  // The pieces, in order each, of what waits in `timeline_` for its window.
  std::vector<Run> ops_, calls_, syncs_, overheads_;
  const bool shifted_;
  size_t streams_ = 0, threads_ = 0;  // when the last window was handed out
  int64_t horizon_ns_ = INT64_MIN;
  int64_t first_op_ns_ = INT64_MAX;  // of what has been read for the first window
};

}  // namespace gpuprobe::tools

#endif  // GPUPROBE_TOOLS_WINDOWED_WINDOW_READER_H_
