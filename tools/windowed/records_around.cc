// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "tools/windowed/records_around.h"

#include <cstdint>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tools/format/format_units.h"
#include "tools/load/records/link_calls.h"
#include "tools/windowed/window_reader.h"

namespace gpuprobe::tools {
namespace {

template <typename T>
void MoveTo(std::vector<T>* from, std::vector<T>* to) {
  to->insert(to->end(), from->begin(), from->end());
  from->clear();
}

// Of what came before the context of `when`: only what reaches into it.
void DropEarlier(const Window& when, Timeline* records) {
  const auto over = [&](const auto& record) { return record.end_ns < when.start_ns; };
  std::erase_if(records->ops, over);
  std::erase_if(records->calls, over);
  std::erase_if(records->syncs, over);
  std::erase_if(records->overheads, over);
}

size_t Count(const Timeline& records) { return records.ops.size() + records.calls.size(); }

void Append(RecordWindow* window, Timeline* t) {
  Timeline& records = window->records;
  if (!records.streams.empty()) t->streams = std::move(records.streams);
  if (!records.threads.empty()) t->threads = std::move(records.threads);
  MoveTo(&records.ops, &t->ops);
  MoveTo(&records.calls, &t->calls);
  MoveTo(&records.syncs, &t->syncs);
  MoveTo(&records.overheads, &t->overheads);
  MoveTo(&records.untimed, &t->untimed);
  MoveTo(&records.events, &t->events);
}

}  // namespace

absl::StatusOr<LoadedRun> LoadAround(const InputFiles& files, const Window& when,
                                     const AroundOptions& options) {
  absl::StatusOr<LoadedOutline> outline = LoadOutline(files);
  if (!outline.ok()) return outline.status();
  if (options.prepare) options.prepare(&outline->run->timeline);
  // The reader fills and empties the records of this Timeline; what is wanted lies beside it.
  Timeline around;
  WindowReader reader(&*outline, options.context, 0);
  RecordWindow window;
  int64_t before_ns = INT64_MIN;  // horizon of the window before
  for (bool more = true; more;) {
    more = reader.Next(&window);
    // The window before this one is context as long as this one does not lie before `when`, too.
    if (window.horizon_ns <= when.start_ns) DropEarlier(when, &around);
    Append(&window, &around);
    if (Count(around) > options.most) {
      return absl::ResourceExhaustedError(
          absl::StrCat("more than ", FormatCount(options.most),
                       " records lie in that time or reach into it: choose a shorter gap"));
    }
    if (before_ns >= when.end_ns) break;  // the one behind it is here as well
    before_ns = window.horizon_ns;
  }
  LoadedRun run = std::move(*outline->run);
  if (!around.streams.empty()) run.timeline.streams = std::move(around.streams);
  if (!around.threads.empty()) run.timeline.threads = std::move(around.threads);
  run.timeline.ops = std::move(around.ops);
  run.timeline.calls = std::move(around.calls);
  run.timeline.syncs = std::move(around.syncs);
  run.timeline.overheads = std::move(around.overheads);
  run.timeline.events = std::move(around.events);
  run.timeline.untimed = std::move(around.untimed);
  LinkCalls(&run);
  return run;
}

}  // namespace gpuprobe::tools
