// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "tools/windowed/window_reader.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <utility>

namespace gpuprobe::tools {
namespace {

constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

// An object, not a function: merging calls it inline.
constexpr auto kByStart = [](const auto& a, const auto& b) {
  return a.start_ns != b.start_ns ? a.start_ns < b.start_ns : a.end_ns < b.end_ns;
};

// What was appended, up to `end` in all, is a piece; none if it is nothing.
void EndPiece(size_t end, bool sorted, std::vector<Run>* runs) {
  if (end > (runs->empty() ? 0 : runs->back().end)) runs->push_back({end, sorted});
}

// How many items of each piece start before the horizon.
template <typename T>
std::vector<size_t> CountBefore(int64_t horizon_ns, const std::vector<T>& items,
                                const std::vector<Run>& runs) {
  const auto before = [horizon_ns](const T& item) { return item.start_ns < horizon_ns; };
  std::vector<size_t> counts;
  auto first = items.begin();
  for (const Run& run : runs) {
    const auto last = items.begin() + static_cast<ptrdiff_t>(run.end);
    const auto count = run.sorted ? std::partition_point(first, last, before) - first
                                  : std::count_if(first, last, before);
    counts.push_back(static_cast<size_t>(count));
    first = last;
  }
  return counts;
}

// Moves the items that start before the horizon to `taken`, in order. If they are the most of all,
// as where no record keeps others waiting, the memory of `taken` goes to what is left and the other
// way round: records are written once, and pieces move only behind one of which something was left.
template <typename T>
void TakeBefore(int64_t horizon_ns, std::vector<T>* items, std::vector<Run>* runs,
                std::vector<T>* taken) {
  taken->clear();
  const std::vector<size_t> counts = CountBefore(horizon_ns, *items, *runs);
  const size_t count = std::accumulate(counts.begin(), counts.end(), size_t{0});
  const bool most = 2 * count >= items->size();
  if (most) taken->swap(*items);
  std::vector<T>& from = most ? *taken : *items;
  std::vector<T>& to = most ? *items : *taken;
  if (!most) to.reserve(count);
  std::vector<Run> from_runs, to_runs;
  auto out = from.begin();
  auto first = from.begin();
  for (size_t r = 0; r < runs->size(); ++r) {
    const auto [end, sorted] = (*runs)[r];
    const auto last = from.begin() + static_cast<ptrdiff_t>(end);
    if (sorted) {
      const auto cut = first + static_cast<ptrdiff_t>(counts[r]);
      to.insert(to.end(), most ? cut : first, most ? last : cut);
      const auto stays = most ? first : cut, stays_end = most ? cut : last;
      out = out == stays ? stays_end : std::move(stays, stays_end, out);
    } else {
      for (auto item = first; item != last; ++item) {
        if ((item->start_ns < horizon_ns) == most) {
          *out++ = *item;
        } else {
          to.push_back(*item);
        }
      }
    }
    EndPiece(static_cast<size_t>(out - from.begin()), sorted, &from_runs);
    EndPiece(to.size(), sorted, &to_runs);
    first = last;
  }
  from.erase(out, from.end());
  std::vector<Run>& taken_runs = most ? from_runs : to_runs;
  *runs = std::move(most ? to_runs : from_runs);
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
  if (horizon_ns_ == INT64_MIN) {
    for (size_t i = before.ops; i < timeline_.ops.size(); ++i)
      first_op_ns_ = std::min(first_op_ns_, timeline_.ops[i].start_ns);
  }
  const RecordRuns runs = loader_.TakeRuns();
  ops_.insert(ops_.end(), runs.ops.begin(), runs.ops.end());
  calls_.insert(calls_.end(), runs.calls.begin(), runs.calls.end());
  EndPiece(timeline_.syncs.size(), false, &syncs_);
  EndPiece(timeline_.overheads.size(), false, &overheads_);
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
    // The first one holds the first operation. Where none has come for long, there may be none.
    if (horizon_ns_ == INT64_MIN)
      return first_op_ns_ < horizon_ns || (first_op_ns_ == kNever && read >= 4 * records_);
    return read >= 2 * records_ || horizon_ns - horizon_ns_ >= least_ns_;
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
  // What one large window took is not kept by all that follow.
  if (records.ops.capacity() <= 4 * records_) memory.ops.swap(records.ops);
  if (records.calls.capacity() <= 4 * records_) memory.calls.swap(records.calls);
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
