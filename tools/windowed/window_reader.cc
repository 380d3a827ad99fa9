// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "tools/windowed/window_reader.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace gpuprobe::tools {
namespace {

constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

// An object, not a function: merging calls it inline.
constexpr auto kByStart = [](const auto& a, const auto& b) {
  return a.start_ns != b.start_ns ? a.start_ns < b.start_ns : a.end_ns < b.end_ns;
};

// Notes what was appended as a piece, which is looked at.
template <typename T>
void EndPiece(const std::vector<T>& items, std::vector<Run>* runs) {
  if (items.size() > (runs->empty() ? 0 : runs->back().end)) runs->push_back({items.size(), false});
}

// Moves the items that start before the horizon to `taken`, in order. The memory of `taken` goes to
// what is left, and the other way round: records are written once, and pieces move only behind one
// of which something was left.
template <typename T>
void TakeBefore(int64_t horizon_ns, std::vector<T>* items, std::vector<Run>* runs,
                std::vector<T>* taken) {
  taken->clear();
  taken->swap(*items);
  std::vector<T>& left = *items;
  std::vector<Run> taken_runs, left_runs;
  const auto is_taken = [horizon_ns](const T& item) { return item.start_ns < horizon_ns; };
  auto out = taken->begin();
  auto first = taken->begin();
  for (const Run& run : *runs) {
    const auto last = taken->begin() + static_cast<ptrdiff_t>(run.end);
    const size_t left_before = left.size();
    if (run.sorted) {
      const auto cut = std::partition_point(first, last, is_taken);
      left.insert(left.end(), cut, last);
      out = out == first ? cut : std::move(first, cut, out);
    } else {
      for (auto item = first; item != last; ++item) {
        if (is_taken(*item)) {
          *out++ = *item;
        } else {
          left.push_back(*item);
        }
      }
    }
    taken_runs.push_back({static_cast<size_t>(out - taken->begin()), run.sorted});
    if (left.size() > left_before) left_runs.push_back({left.size(), run.sorted});
    first = last;
  }
  taken->erase(out, taken->end());
  *runs = std::move(left_runs);
  MergeRuns(taken, std::move(taken_runs), kByStart);
}

}  // namespace

WindowReader::WindowReader(LoadedOutline* outline, size_t records, int64_t least_ns)
    : loader_(*outline->loader),
      timeline_(outline->run->timeline),
      shifts_(outline->shifts),
      records_(records),
      least_ns_(least_ns),
      files_(loader_.files()),
      frames_of_device_(timeline_.devices.size(), 0),
      shifted_(std::any_of(shifts_.begin(), shifts_.end(), [](int64_t ns) { return ns != 0; })),
      streams_(timeline_.streams.size()),
      threads_(timeline_.threads.size()) {
  for (size_t f = 0; f < files_.size(); ++f) {
    const auto& frames = loader_.FramesOf(f);
    files_[f].earliest_after.assign(frames.size() + 1, kNever);
    for (size_t i = frames.size(); i-- > 0;) {
      const FileLoader::FrameOutline& frame = frames[i];
      int64_t earliest = files_[f].earliest_after[i + 1];
      if (frame.process >= 0 && (frame.first_ns != 0 || frame.last_ns != 0)) {
        earliest = std::min(earliest, frame.first_ns + shifts_[static_cast<size_t>(frame.process)]);
      }
      files_[f].earliest_after[i] = earliest;
      for (const int32_t device : frame.devices) ++frames_of_device_[static_cast<size_t>(device)];
    }
  }
}

// Of the file whose next frame was written first.
bool WindowReader::ReadFrame() {
  File* first = nullptr;
  int64_t first_written_ns = 0;
  for (size_t f = 0; f < files_.size(); ++f) {
    const auto& frames = loader_.FramesOf(f);
    File& file = files_[f];
    if (file.next == frames.size()) continue;
    const FileLoader::FrameOutline& frame = frames[file.next];
    const int64_t written_ns =
        frame.written_ns + (frame.process < 0 ? 0 : shifts_[static_cast<size_t>(frame.process)]);
    if (first == nullptr || written_ns < first_written_ns) {
      first = &file;
      first_written_ns = written_ns;
    }
  }
  if (first == nullptr) return false;
  const auto f = static_cast<size_t>(first - files_.data());
  const auto& frames = loader_.FramesOf(f);
  const RecordSizes before(timeline_);
  if (!loader_.LoadNextRecords(f)) {
    first->next = frames.size();
    return true;
  }
  for (const int32_t device : frames[first->next].devices) {
    --frames_of_device_[static_cast<size_t>(device)];
  }
  ++first->next;
  if (shifted_) ShiftRecords(shifts_, before, &timeline_);
  const RecordRuns runs = loader_.TakeRuns();
  ops_.insert(ops_.end(), runs.ops.begin(), runs.ops.end());
  calls_.insert(calls_.end(), runs.calls.begin(), runs.calls.end());
  EndPiece(timeline_.syncs, &syncs_);
  EndPiece(timeline_.overheads, &overheads_);
  return true;
}

int64_t WindowReader::Horizon() const {
  int64_t horizon_ns = kNever;
  for (const File& file : files_) {
    horizon_ns = std::min(horizon_ns, file.earliest_after[file.next]);
  }
  return horizon_ns;
}

std::vector<bool> WindowReader::DevicesToCome() const {
  std::vector<bool> to_come(frames_of_device_.size());
  for (size_t d = 0; d < to_come.size(); ++d) to_come[d] = frames_of_device_[d] > 0;
  for (const GpuOp& op : timeline_.ops) {
    if (op.device >= 0) to_come[static_cast<size_t>(op.device)] = true;
  }
  return to_come;
}

bool WindowReader::Next(RecordWindow* window) {
  size_t read = 0;
  bool more = true;
  const auto enough = [&] {
    const int64_t horizon_ns = Horizon();
    if (horizon_ns <= horizon_ns_ || read < records_) return false;
    return read >= 4 * records_ || horizon_ns_ == INT64_MIN ||
           horizon_ns - horizon_ns_ >= least_ns_;
  };
  while (!enough()) {
    const size_t before = timeline_.ops.size() + timeline_.calls.size();
    more = ReadFrame();
    if (!more) break;
    read += timeline_.ops.size() + timeline_.calls.size() - before;
  }
  horizon_ns_ = more ? Horizon() : kNever;
  Timeline& records = window->records;
  Timeline memory;
  memory.ops.swap(records.ops);
  memory.calls.swap(records.calls);
  records = std::move(memory);
  TakeBefore(horizon_ns_, &timeline_.ops, &ops_, &records.ops);
  TakeBefore(horizon_ns_, &timeline_.calls, &calls_, &records.calls);
  TakeBefore(horizon_ns_, &timeline_.syncs, &syncs_, &records.syncs);
  TakeBefore(horizon_ns_, &timeline_.overheads, &overheads_, &records.overheads);
  records.untimed = std::move(timeline_.untimed);
  records.events = std::move(timeline_.events);
  timeline_.untimed.clear();
  timeline_.events.clear();
  window->horizon_ns = horizon_ns_;
  window->devices_to_come = DevicesToCome();
  if (timeline_.streams.size() > streams_) records.streams = timeline_.streams;
  if (timeline_.threads.size() > threads_) records.threads = timeline_.threads;
  streams_ = timeline_.streams.size();
  threads_ = timeline_.threads.size();
  return more;
}

}  // namespace gpuprobe::tools
