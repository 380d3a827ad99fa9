// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "tools/windowed/windowed_run.h"

#include <pthread.h>

#include <condition_variable>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "tools/figures/activity_counter.h"
#include "tools/format/format_units.h"
#include "tools/load/records/link_calls.h"
#include "tools/timeline/sample_view.h"
#include "tools/windowed/side_thread.h"
#include "tools/windowed/window_reader.h"

namespace gpuprobe::tools {
namespace {

// With two, reading and analysing keep both busy.
constexpr size_t kCpusToReadAhead = 3;

// One window on its way from the reading thread to the analysing one. Both get one back whose
// memory can be used again.
class Handover {
 public:
  void Put(RecordWindow* window, bool last) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !full_; });
    std::swap(window_, *window);
    full_ = true;
    last_ = last;
    changed_.notify_all();
  }
  // False: it was the last one.
  bool Take(RecordWindow* window) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return full_; });
    std::swap(window_, *window);
    full_ = false;
    changed_.notify_all();
    return !last_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  RecordWindow window_;
  bool full_ = false, last_ = false;
};

// The options are chosen by the first records: those of the window, beside the outline.
absl::StatusOr<Options> Choose(const WindowedOptions& options, Timeline* outline,
                               RecordWindow* first) {
  if (!options.choose) return Options();
  outline->ops.swap(first->records.ops);
  const absl::StatusOr<Options> chosen = options.choose(*outline);
  outline->ops.swap(first->records.ops);
  return chosen;
}

void AddNotices(const RecordCounts& counts, LoadedRun* run) {
  run->notices.emplace_back(kWindowsNotice);
  if (counts.other_clock > 0) run->notices.push_back(OtherClockNotice(counts.other_clock));
  if (counts.steps_learnt > 0) {
    run->notices.push_back(absl::StrCat("steps are told by what the first ",
                                        FormatCount(counts.steps_learnt),
                                        " operations of a GPU show"));
  }
  if (counts.steps_not_listed > 0) {
    run->notices.push_back(
        absl::StrCat(FormatPlural(counts.steps_not_listed, "ordinary step"),
                     " of many not listed; medians and percentiles are those of the listed ones"));
  }
  if (counts.other_loops > 0) {
    run->notices.push_back(absl::StrCat("the steps are those of the loop that took longest; ",
                                        FormatPlural(counts.other_loops, "other loop"),
                                        " came before or after it"));
  }
  if (counts.cut_gaps > 0) {
    run->notices.push_back(
        absl::StrCat(FormatPlural(counts.cut_gaps, "idle time"),
                     " of one GPU went on for longer than the calls of others are kept: unknown up "
                     "to there"));
  }
  if (counts.unmatched_dropped > 0) {
    run->notices.push_back(
        absl::StrCat(FormatPlural(counts.unmatched_dropped, "submission"),
                     " without GPU work given up: work that comes later reads as not submitted"));
  }
  if (counts.waits_given_up > 0) {
    run->notices.push_back(absl::StrCat(
        FormatPlural(counts.waits_given_up, "wait"),
        " of threads that submitted nothing for very long given up: `idle after` lacks theirs"));
  }
}

void AddMedianNotice(const ActivityTables& tables, LoadedRun* run) {
  uint64_t near = 0;
  for (const ActivityTable* table : {&tables.kernels, &tables.copies, &tables.api}) {
    for (const ActivityRow& row : table->rows) near += !row.stats.med_exact;
  }
  if (near == 0) return;
  run->notices.push_back(absl::StrCat("medians of ", FormatPlural(near, "row"),
                                      " with more than 1,024 different durations (~) are within "
                                      "one part in 128; all else is exact"));
}

}  // namespace

absl::StatusOr<WindowedRun> LoadInWindows(const InputFiles& files, const WindowedOptions& options) {
  absl::StatusOr<LoadedOutline> outline = LoadOutline(files, options.most_samples);
  if (!outline.ok()) return outline.status();
  LoadedRun& run = *outline->run;
  if (options.prepare) options.prepare(&run.timeline);

  RunOutline copy;
  copy.timeline = run.timeline;
  copy.process_devices.assign(outline->loader->process_devices().begin(),
                              outline->loader->process_devices().end());
  for (const auto& process_device : copy.process_devices) {
    const auto count = outline->loader->operations().find(process_device);
    copy.operations.push_back(count == outline->loader->operations().end() ? 0 : count->second);
  }
  run.timeline.samples = {};
  // Two windows are looked ahead then.
  const int64_t least_ns = copy.timeline.samples.empty() ? 0 : kSampleReachNs / 2;

  // Rows are made by one thread then, and what they are made of is read by another.
  const size_t cpus = options.limits.cpus == 0 ? UsableCpus() : options.limits.cpus;
  if (cpus >= kCpusToReadAhead) outline->loader->ReadAhead();
  WindowReader reader(&*outline, options.records, least_ns);
  RecordWindow window;
  bool more = reader.Next(&window);
  WindowedRun result;
  const absl::StatusOr<Options> chosen = Choose(options, &copy.timeline, &window);
  if (!chosen.ok()) return chosen.status();
  result.options = *chosen;
  std::unique_ptr<ActivityCounter> activity;
  if (options.with_tables) activity = std::make_unique<ActivityCounter>(result.options);
  WindowedAnalysis analysis(std::move(copy), result.options, options.limits, activity.get(),
                            options.with_hot);

  Handover handover;
  std::thread reading;
  if (more) {
    reading = std::thread([&] {
      pthread_setname_np(pthread_self(), "records");
      RecordWindow next;
      for (bool more_to_read = true; more_to_read;) {
        more_to_read = reader.Next(&next);
        handover.Put(&next, !more_to_read);
      }
    });
  }
  analysis.Add(std::move(window));
  while (more) {
    more = handover.Take(&window);
    analysis.Add(std::move(window));
  }
  if (reading.joinable()) reading.join();

  WindowedResult found = analysis.Finish();
  outline->loader->FinishRecords();
  AddNotices(found.counts, &run);
  result.ranks_not_side_by_side = found.counts.several_communicate;
  run.counted = CountedRecords{found.counts.launches, found.counts.any_kernel};
  run.folded_driver_calls = found.counts.folded_driver_calls;
  // The second pass has seen more of processes and inputs.
  found.timeline.processes = std::move(run.timeline.processes);
  found.timeline.inputs = std::move(run.timeline.inputs);
  run.timeline = std::move(found.timeline);
  result.analysis = std::move(found.analysis);
  if (options.with_hot)
    result.hot = FindHotLines(run.timeline, result.options, found.idle_at_samples);
  if (activity != nullptr) {
    result.tables = activity->Take(run.timeline, result.analysis);
    AddMedianNotice(result.tables, &run);
  }
  result.run = std::move(run);
  return result;
}

}  // namespace gpuprobe::tools
