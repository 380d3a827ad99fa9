// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "tools/attribution/attribution.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "tools/attribution/cause_totals.h"
#include "tools/attribution/meanwhile.h"
#include "tools/attribution/part_places.h"
#include "tools/attribution/unseen.h"
#include "tools/timeline/huge_vector.h"

namespace gpuprobe::tools {
namespace {

using PlaceKind = Places::Kind;
constexpr int64_t kLongAgo = std::numeric_limits<int64_t>::min();

// Where a thread's calls have been read to, in order of time.
struct ThreadCursor {
  std::span<const int32_t> lane;  // HostView::CallsOf()
  size_t position = 0;            // first call of its lane that has not ended
  int32_t last_blocking = -1;     // latest blocking call before `position`
  bool has_submitted = false;     // a submission lies before `position`
  LaneReader overheads;
};

// One gap, seen from the operation that ended it.
struct GapView {
  int32_t submission = -1;
  int32_t thread = -1;
  int32_t process = -1;
  int64_t submit_begin_ns = 0, submit_end_ns = 0;
  int64_t previous_submit_end_ns =
      kLongAgo;          // of the operation before the gap, if of the same process
  bool drained = false;  // the process's Drain may be charged
  // Set: the whole gap has this cause.
  std::optional<Cause> whole;
  int32_t whole_where = -1;
  // What the queued part is; found when first asked for.
  std::optional<Cause> queued;
  Shown queued_where = -1;
  int32_t queued_call = -1;
};

class Attributor {
 public:
  Attributor(const AttributionInput& input, Places& places, AttributionCarry* carry,
             DeviceReport* report)
      : timeline_(input.timeline),
        ops_(input.timeline.ops.data()),
        calls_(input.timeline.calls.data()),
        host_(input.host),
        evidence_(input.evidence),
        stream_waits_(input.stream_waits),
        activity_(input.activity),
        places_(places),
        shown_(input.timeline, input.host, input.evidence, places),
        carry_(*carry),
        report_(*report),
        others_(&input.activity.others),
        unseen_(&input.unseen),
        cursors_(timeline_.threads.size()),
        drains_(carry->drains),
        last_on_stream_(timeline_.streams.size(), -1),
        stream_waits_cursor_(timeline_),
        busy_until_(carry->busy_until_ns) {
    drains_.resize(timeline_.processes.size());
    for (size_t t = 0; t < cursors_.size(); ++t) {
      cursors_[t].lane = host_.CallsOf(static_cast<int32_t>(t));
      cursors_[t].overheads = LaneReader(host_.OverheadsOfThread(static_cast<int32_t>(t)));
    }
    for (size_t p = 0; p < timeline_.processes.size(); ++p) {
      process_overheads_.emplace_back(host_.OverheadsOfProcess(static_cast<int32_t>(p)));
      blocked_.emplace_back(host_.BlockedOf(static_cast<int32_t>(p)));
      stopped_.emplace_back(&evidence_.stopped[p]);
    }
  }

  // `samples`: numbers of the run for those of the timeline; nullptr: the same.
  void Run(const std::vector<int32_t>* samples) {
    run_samples_ = samples;
    // Most gaps have one or two.
    ReserveHuge(report_.gaps.size() * 2, &report_.parts);
    for (size_t g = 0; g < report_.gaps.size(); ++g) {
      Gap& gap = report_.gaps[g];
      gap_ = static_cast<uint32_t>(g);
      gap_of_run_ = carry_.gaps++;
      gap.first_part = static_cast<uint32_t>(report_.parts.size());
      first_part_ = report_.parts.size();
      ReadOpsUpTo(gap);
      AttributeGap(gap);
      gap.part_count = static_cast<uint32_t>(report_.parts.size() - first_part_);
    }
  }

  // Reads the operations that start before `ns`, of which no gap has asked.
  void ReadOpsBefore(int64_t ns) {
    const auto& ops = activity_.ops;
    while (next_op_ < ops.size() && Op(ops[next_op_]).start_ns < ns) ReadOp(ops[next_op_++]);
    carry_.busy_until_ns = busy_until_;
    carry_.read_until_ns = ns;
    for (Drain& drain : drains_) NameDrain(&drain);
  }

 private:
  const GpuOp& Op(int32_t op) const { return ops_[op]; }
  const HostCall& Call(int32_t call) const { return calls_[call]; }

  // --- what happened before a gap ---------------------------------------------------------------

  // Reads the operations that started before the gap ended.
  void ReadOpsUpTo(const Gap& gap) {
    const auto& ops = activity_.ops;
    const size_t end = ops.size();
    if (gap.next_op < 0) {
      while (next_op_ < end) ReadOp(ops[next_op_++]);
      return;
    }
    const int64_t until_ns = Op(gap.next_op).start_ns;
    while (next_op_ < end && Op(ops[next_op_]).start_ns < until_ns) ReadOp(ops[next_op_++]);
  }

  void ReadOp(int32_t index) {
    const GpuOp& op = Op(index);
    if (op.start_ns >= carry_.read_until_ns) NoticeQueued(op);
    busy_until_ = std::max(busy_until_, op.end_ns);
    if (op.stream >= 0) last_on_stream_[op.stream] = index;
  }

  // An operation whose submission had returned before the device ran dry: its thread is ahead
  // again, and what a blocking call before that had cost is over.
  void NoticeQueued(const GpuOp& op) {
    if (op.submission < 0 || op.process < 0) return;
    Drain& drain = drains_[op.process];
    if (drain.left_ns == 0) return;
    const HostCall& submission = Call(op.submission);
    if (submission.start_ns >= Call(drain.call).end_ns && submission.end_ns <= busy_until_) {
      drain.left_ns = 0;
    }
  }

  // Moves a thread's cursor past the calls that ended by `ns`.
  ThreadCursor& Advance(int32_t thread, int64_t ns) {
    ThreadCursor& cursor = cursors_[thread];
    const std::span<const int32_t> lane = cursor.lane;
    size_t position = cursor.position;
    for (; position < lane.size() && Call(lane[position]).end_ns <= ns; ++position) {
      const int32_t call = lane[position];
      const Role role = host_.RoleOf(call);
      if (Blocks(role)) cursor.last_blocking = call;
      if (role == Role::kSubmit || host_.OpOf(call) >= 0) cursor.has_submitted = true;
    }
    cursor.position = position;
    return cursor;
  }

  // The blocking call of `thread` in which, or at whose end, the device ran dry at `dry_ns`.
  int32_t DrainingCallOf(int32_t thread, int64_t dry_ns) {
    const ThreadCursor& cursor = Advance(thread, dry_ns);
    const std::span<const int32_t> lane = cursor.lane;
    if (cursor.position < lane.size()) {
      const int32_t call = lane[cursor.position];
      if (Call(call).start_ns < dry_ns && Blocks(host_.RoleOf(call))) return call;
    }
    const int32_t call = cursor.last_blocking;
    return call >= 0 && Call(call).end_ns + kClockSkewNs >= dry_ns ? call : -1;
  }

  // When a thread that had long been outside CUDA takes over, the one that fed the device before it
  // may be the one that was blocked (a training script's main thread, then its backward thread).
  int32_t DrainingCallOfOthers(const GapView& view, int64_t dry_ns) {
    const ThreadCursor& cursor = cursors_[view.thread];
    const std::span<const int32_t> lane = cursor.lane;
    const int64_t outside_since =
        cursor.position == 0 ? kLongAgo : Call(lane[cursor.position - 1]).end_ns;
    const bool inside =
        cursor.position < lane.size() && Call(lane[cursor.position]).start_ns < dry_ns;
    if (inside ||
        (outside_since != kLongAgo && view.submit_begin_ns - outside_since <= kBackToBackNs)) {
      return -1;
    }
    const Lane::Piece* piece = host_.BlockedOf(view.process)->AtOrBefore(dry_ns);
    return piece != nullptr && piece->begin < dry_ns && piece->end + kClockSkewNs >= dry_ns
               ? piece->id
               : -1;
  }

  void FindDrain(GapView& view, int64_t dry_ns) {
    Drain& drain = drains_[view.process];
    int32_t call = DrainingCallOf(view.thread, dry_ns);
    if (call < 0) call = DrainingCallOfOthers(view, dry_ns);
    if (call > drain.considered) {  // calls are in order of start: none is charged twice
      drain.considered = call;
      const int64_t blocked_ns = activity_.busy.Overlap(Call(call).start_ns, Call(call).end_ns);
      if (blocked_ns >= drain.left_ns) drain = {call, call, view.thread, blocked_ns};
    }
    view.drained = drain.left_ns > 0 && drain.thread == view.thread;
  }

  // --- one gap ----------------------------------------------------------------------------------

  void AttributeGap(const Gap& gap) {
    GapView view;
    Look(gap, &view);
    others_.Split(gap.begin_ns, gap.end_ns, [&](int64_t begin, int64_t end, int32_t process) {
      if (process >= 0) {
        Emit(begin, end, Cause::kOtherProcess, places_.Id(PlaceKind::kOtherProcess, process));
        return;
      }
      unseen_.Split(begin, end, [&](int64_t from, int64_t to, int32_t place) {
        if (place >= 0) {
          Emit(from, to, Cause::kUnknown, place);
        } else {
          AttributeSeen(view, from, to);
        }
      });
    });
  }

  void Look(const Gap& gap, GapView* gap_view) {
    GapView& view = *gap_view;
    const auto whole = [&](Cause cause, PlaceKind place) {
      view.whole = cause;
      view.whole_where = places_.Id(place);
    };
    if (gap.previous_op < 0) return whole(Cause::kStart, PlaceKind::kStart);
    if (gap.next_op < 0) return whole(Cause::kEnd, PlaceKind::kEnd);
    const GpuOp& previous = Op(gap.previous_op);
    const GpuOp& next = Op(gap.next_op);
    view.submission = next.submission;
    if (OfOneCall(gap)) {
      if (next.graph_node_id != 0) {
        return next.start_ns - previous.end_ns <= kGraphFloorNs
                   ? whole(Cause::kProfiler, PlaceKind::kGraphFloor)
                   : whole(Cause::kLaunchLatency, PlaceKind::kGraphNodes);
      }
      if (next.submission < 0) return whole(Cause::kLaunchLatency, PlaceKind::kOneCall);
    }
    if (next.submission < 0) return whole(Cause::kUnknown, PlaceKind::kNoLaunch);
    const HostCall& submission = Call(next.submission);
    if (submission.start_ns - next.start_ns > kImpossibleSkewNs) {
      return whole(Cause::kUnknown, PlaceKind::kClocks);
    }
    view.thread = submission.thread;
    view.process = submission.process;
    // A launch that seems to begin after its kernel: the clocks disagree, the kernel's start
    // stands.
    view.submit_begin_ns = std::min(submission.start_ns, next.start_ns);
    view.submit_end_ns = std::max(submission.end_ns, view.submit_begin_ns);
    if (previous.submission >= 0 && previous.process == next.process) {
      view.previous_submit_end_ns = Call(previous.submission).end_ns;
    }
    if (view.thread >= 0 && view.process >= 0) FindDrain(view, previous.end_ns);
  }

  // Do the operations around the gap, or the next one and the one before it on its stream, come
  // from one call? All nodes of a graph launch share its correlation id, as do the copies of a
  // batch.
  bool OfOneCall(const Gap& gap) const {
    const GpuOp& next = Op(gap.next_op);
    if (next.correlation == 0) return false;
    const auto same = [&](int32_t op) {
      return op >= 0 && Op(op).correlation == next.correlation && Op(op).process == next.process;
    };
    return same(gap.previous_op) || (next.stream >= 0 && same(last_on_stream_[next.stream]));
  }

  // A stretch of the gap in which nothing else was running and nothing is missing.
  void AttributeSeen(GapView& view, int64_t begin, int64_t end) {
    if (view.whole) {
      Emit(begin, end, *view.whole, view.whole_where, view.submission);
      return;
    }
    // What is queued runs whether its process does or not.
    const int64_t until = std::clamp(view.submit_end_ns, begin, end);
    if (view.process >= 0 && begin < until) {
      stopped_[view.process].Split(begin, until, [&](int64_t from, int64_t to, int32_t stopped) {
        if (stopped < 0) return AttributeRunning(view, from, to);
        Emit(from, to, Cause::kUnknown, places_.OfText(kProcessStopped), view.submission);
      });
      begin = until;
    }
    AttributeRunning(view, begin, end);
  }

  // ... and in which the process that ended it was not stopped.
  void AttributeRunning(GapView& view, int64_t begin, int64_t end) {
    if (const int64_t to = std::min(end, view.submit_begin_ns); begin < to) {
      HostTime(view, begin, to);
      begin = to;
    }
    if (const int64_t to = std::min(end, view.submit_end_ns); begin < to) {
      InsideCall(view, view.submission, begin, to);
      begin = to;
    }
    if (begin < end) {
      if (!view.queued) FindQueuedCause(view);
      Emit(begin, end, *view.queued, view.queued_where, view.queued_call);
    }
  }

  void FindQueuedCause(GapView& view) {
    const GpuOp& next = Op(report_.gaps[gap_].next_op);
    if (!stream_waits_.HasNone()) {
      const int32_t before = next.stream >= 0 ? last_on_stream_[next.stream] : -1;
      if (const auto wait = stream_waits_.Find(next, before, &stream_waits_cursor_))
        return WaitedFor(*wait, next, view);
    }
    if (view.process >= 0 && !timeline_.processes[view.process].has_sync_records &&
        next.start_ns - view.submit_end_ns >= kNoLatencyNs) {
      view.queued = Cause::kUnknown;
      view.queued_where = QueuedUntold();
      view.queued_call = view.submission;
      return;
    }
    view.queued = Cause::kLaunchLatency;
    if (queued_ < 0) queued_ = places_.Id(PlaceKind::kQueued);
    view.queued_where = queued_;
    view.queued_call = view.submission;
  }

  void WaitedFor(const StreamWaits::Wait& wait, const GpuOp& next, GapView& view) {
    view.queued = Cause::kDependency;
    view.queued_call = wait.call;
    const int32_t place = wait.host_function || next.stream < 0
                              ? places_.Id(PlaceKind::kHostFunction, view.thread)
                              : places_.Id(PlaceKind::kStreamWait, next.stream, wait.stream);
    view.queued_where = shown_.OfDependency(place, wait.call, view.submission);
  }

  // A run may have nothing else between its operations: looked up once.
  int32_t QueuedUntold() {
    if (queued_untold_ < 0)
      queued_untold_ = places_.OfText("queued; this source does not tell what it waited for");
    return queued_untold_;
  }

  // --- the submitting thread before its call ----------------------------------------------------

  void HostTime(GapView& view, int64_t begin, int64_t end) {
    if (view.thread < 0 || view.process < 0) {
      Emit(begin, end, Cause::kUnknown, places_.Id(PlaceKind::kNoLaunch), view.submission);
      return;
    }
    const auto lane = host_.CallsOf(view.thread);
    while (begin < end) {
      const ThreadCursor& cursor = Advance(view.thread, begin);
      const int32_t call = cursor.position < lane.size() ? lane[cursor.position] : -1;
      const int64_t call_begin = call < 0 ? end : std::min(end, Call(call).start_ns);
      if (call_begin > begin) {
        OutsideCuda(view, begin, call_begin, call);
        begin = call_begin;
      } else {
        const int64_t call_end = std::min(end, Call(call).end_ns);
        InsideCall(view, call, begin, call_end);
        begin = call_end;
      }
    }
  }

  // Calls f for each part of [begin, end) without overhead records of the view's thread or its
  // process.
  template <typename F>
  void WithoutOverhead(const GapView& view, int32_t call, int64_t begin, int64_t end, F f) {
    const auto split = [&](LaneReader& reader, int64_t from, int64_t to, auto&& rest) {
      reader.Split(from, to, [&](int64_t a, int64_t b, int32_t overhead) {
        if (overhead >= 0) {
          EmitOverhead(view, call, overhead, a, b);
        } else {
          rest(a, b);
        }
      });
    };
    if (view.thread < 0 || view.process < 0) return f(begin, end);
    split(cursors_[view.thread].overheads, begin, end,
          [&](int64_t from, int64_t to) { split(process_overheads_[view.process], from, to, f); });
  }

  void EmitOverhead(const GapView& view, int32_t call, int32_t index, int64_t begin, int64_t end) {
    const OverheadOp& overhead = timeline_.overheads[index];
    const auto kind = static_cast<int32_t>(overhead.kind);
    if (overhead.profiler) {
      Emit(begin, end, Cause::kProfiler, places_.Id(PlaceKind::kOverhead, kind, overhead.thread),
           call, index, view.thread);
    } else {
      Emit(begin, end, Cause::kBlockingApi, shown_.OfLoading(kind, call, view.thread), call, index,
           view.thread);
    }
  }

  void InsideCall(const GapView& view, int32_t call, int64_t begin, int64_t end) {
    const Cause cause = CauseOf(call);
    const Shown where = WhereOf(call);
    WithoutOverhead(view, call, begin, end, [&](int64_t from, int64_t to) {
      // A submission is host work that a blocking call before it has put off, like the time around
      // it.
      if (cause == Cause::kLaunchBound) from = ChargeDrain(view, from, to);
      Emit(from, to, cause, where, call, -1, view.thread);
    });
  }

  Cause CauseOf(int32_t call) const {
    switch (host_.RoleOf(call)) {
      case Role::kSync:
        return Cause::kSynchronisation;
      case Role::kBlockingApi:
        return Cause::kBlockingApi;
      case Role::kBlockingCopy:
        return Cause::kPageableCopy;
      case Role::kSubmit:
      case Role::kNeutral:
        break;
    }
    return IsBlockedSubmission(call) ? Cause::kBlockingApi : Cause::kLaunchBound;
  }

  bool IsBlockedSubmission(int32_t call) const {
    return !Blocks(host_.RoleOf(call)) &&
           Call(call).end_ns - Call(call).start_ns >= kBlockedSubmitNs;
  }

  Shown WhereOf(int32_t call) { return shown_.OfCall(call, IsBlockedSubmission(call)); }

  // While what shows where it was made is at hand.
  void NameDrain(Drain* drain) {
    if (drain->left_ns == 0 || drain->named) return;
    const Shown shown = WhereOf(drain->call);
    drain->named = true;
    drain->cause = CauseOf(drain->call);
    drain->where = shown.place;
    drain->detail = DetailOfRun(shown.detail);
    drain->sample = SampleOfRun(shown.sample);
  }

  // Charges what is left of the drain to [begin, end) and returns where the rest begins.
  int64_t ChargeDrain(const GapView& view, int64_t begin, int64_t end) {
    if (!view.drained) return begin;
    Drain& drain = drains_[view.process];
    const int64_t to = begin + std::min(end - begin, drain.left_ns);
    const int32_t thread = Call(drain.call).thread;
    if (drain.named) {
      EmitPart({begin, to, drain.call, -1, thread, drain.where, -1, drain.cause}, drain.detail,
               drain.sample);
    } else {
      Emit(begin, to, CauseOf(drain.call), WhereOf(drain.call), drain.call, -1, thread);
    }
    drain.left_ns -= to - begin;
    return to;
  }

  // The thread is in none of the calls that matter; `next_call` (-1: the submission) is its next.
  void OutsideCuda(const GapView& view, int64_t begin, int64_t end, int32_t next_call) {
    const bool back_to_back = IsBackToBack(view, next_call);
    WithoutOverhead(view, -1, begin, end, [&](int64_t from, int64_t to) {
      if (back_to_back) {
        from = ChargeDrain(view, from, to);
        Emit(from, to, Cause::kLaunchBound, shown_.OfBetween(StretchOf(view), from),
             view.submission, -1, view.thread);
        return;
      }
      if (view.drained && Call(drains_[view.process].call).thread == view.thread) {
        from = ChargeDrain(view, from, to);
      }
      blocked_[view.process].Split(from, to, [&](int64_t a, int64_t b, int32_t call) {
        if (call < 0) return HostOutside(view, ChargeDrain(view, a, b), b);
        WhileOthersAreBlocked(view, a, b, call);
      });
    });
  }

  // Another thread is in `call`, which blocks it. If ours was seen at something of its own it did
  // not wait for that.
  void WhileOthersAreBlocked(const GapView& view, int64_t begin, int64_t end, int32_t call) {
    const Shown where = WhereOf(call);
    for (const HostPart& part : PartsOfHost(view, begin, end)) {
      if (part.sample >= 0 && timeline_.samples[part.sample].thread == view.thread &&
          evidence_.judge.IsAtItsOwn(part.sample)) {
        EmitHost(view, part, ChargeDrain(view, part.begin_ns, part.end_ns));
      } else {
        Emit(part.begin_ns, part.end_ns, CauseOf(call), where, call, -1, Call(call).thread);
      }
    }
  }

  // The thread was busy with something of its own: what, samples tell.
  void HostOutside(const GapView& view, int64_t begin, int64_t end) {
    if (begin >= end) return;
    for (const HostPart& part : PartsOfHost(view, begin, end)) EmitHost(view, part, part.begin_ns);
  }

  const std::vector<HostPart>& PartsOfHost(const GapView& view, int64_t begin, int64_t end) {
    host_parts_.clear();
    evidence_.split.Split(StretchOf(view), begin, end, shown_.cursor(), &host_parts_);
    return host_parts_;
  }

  void EmitHost(const GapView& view, const HostPart& part, int64_t begin) {
    if (begin >= part.end_ns) return;
    const int32_t thread = part.sample < 0 ? view.thread : timeline_.samples[part.sample].thread;
    Emit(begin, part.end_ns, part.cause, shown_.OfHost(part, thread), view.submission, -1, thread);
    if (part.cause == Cause::kGilWait)
      carry_.gil_waits.push_back({SampleOfRun(part.sample), part.end_ns - begin});
  }

  // The stretch in front of the thread's cursor.
  Stretch StretchOf(const GapView& view) const {
    return StretchBefore(timeline_, host_, view.thread, cursors_[view.thread].position);
  }

  // Is the stretch around the cursor a short way from one submission to the next?
  bool IsBackToBack(const GapView& view, int32_t next_call) const {
    const ThreadCursor& cursor = cursors_[view.thread];
    int64_t since = cursor.has_submitted ? Call(cursor.lane[cursor.position - 1]).end_ns : kLongAgo;
    since = std::max(since, view.previous_submit_end_ns);
    const int64_t until = next_call < 0 ? view.submit_begin_ns
                                        : std::min(view.submit_begin_ns, Call(next_call).start_ns);
    return since != kLongAgo && until - since <= kBackToBackNs;
  }

  // --- output -----------------------------------------------------------------------------------

  void Emit(int64_t begin, int64_t end, Cause cause, Shown where, int32_t call = -1,
            int32_t overhead = -1, int32_t thread = -1) {
    if (begin >= end) return;
    EmitPart({begin, end, call, overhead, thread, where.place, where.sample, cause},
             DetailOfRun(where.detail), SampleOfRun(where.sample));
  }

  // `detail`, `sample`: as numbered in the run.
  void EmitPart(const GapPart& part, int32_t detail, int32_t sample) {
    if (part.begin_ns >= part.end_ns) return;
    carry_.Add(gap_of_run_, part, detail, sample);
    std::vector<GapPart>& parts = report_.parts;
    if (parts.size() > first_part_) {
      GapPart& last = parts.back();
      if (last.cause == part.cause && last.where == part.where && last.call == part.call &&
          last.overhead == part.overhead && last.thread == part.thread &&
          last.end_ns == part.begin_ns) {
        last.end_ns = part.end_ns;
        return;
      }
    }
    parts.push_back(part);
  }

  int32_t SampleOfRun(int32_t sample) const {
    return sample < 0 || run_samples_ == nullptr ? sample : (*run_samples_)[sample];
  }

  // Details are numbered as this window first uses them; the totals outlive it.
  int32_t DetailOfRun(int32_t detail) {
    if (detail < 0) return -1;
    for (size_t d = details_.size(); d < shown_.details().size(); ++d) {
      const std::string& text = shown_.details()[d];
      const auto [entry, is_new] =
          carry_.detail_ids.emplace(text, static_cast<int32_t>(carry_.details.size()));
      if (is_new) carry_.details.push_back(text);
      details_.push_back(entry->second);
    }
    return details_[detail];
  }

  const Timeline& timeline_;
  const GpuOp* const ops_;  // of the timeline
  const HostCall* const calls_;
  const HostView& host_;
  const HostEvidence& evidence_;
  const StreamWaits& stream_waits_;
  const DeviceActivity& activity_;
  Places& places_;
  PartPlaces shown_;
  AttributionCarry& carry_;
  DeviceReport& report_;

  LaneReader others_, unseen_;
  std::vector<ThreadCursor> cursors_;
  std::vector<LaneReader> process_overheads_, blocked_, stopped_;  // by process
  std::vector<Drain>& drains_;                                     // by process
  std::vector<int32_t> last_on_stream_;                            // operation, by stream
  StreamWaits::Cursor stream_waits_cursor_;
  size_t next_op_ = 0;  // first of activity_.ops not read
  int64_t busy_until_;
  uint32_t gap_ = 0, gap_of_run_ = 0;
  int32_t queued_untold_ = -1, queued_ = -1;  // places, once they were needed
  size_t first_part_ = 0;                     // of this gap
  const std::vector<int32_t>* run_samples_ = nullptr;
  std::vector<int32_t> details_;      // in carry_.details, by the number in shown_
  std::vector<HostPart> host_parts_;  // scratch
};

}  // namespace

void AttributionCarry::BeginPhaseAt(int64_t ns) {
  if (phase_end_ns == std::numeric_limits<int64_t>::max()) {
    phase_end_ns = ns;
  } else {
    later_phases.push_back(ns);
  }
}

// Parts come in order of time.
void AttributionCarry::AddAcross(uint32_t gap, GapPart part, int32_t detail, int32_t sample) {
  while (part.end_ns > phase_end_ns) {
    GapPart first = part;
    first.end_ns = std::max(part.begin_ns, phase_end_ns);
    if (first.begin_ns < first.end_ns) totals.Add(gap, first, detail, sample);
    part.begin_ns = first.end_ns;
    CauseTotals next = totals.Next();
    earlier.push_back(std::exchange(totals, std::move(next)));
    phase_end_ns = std::numeric_limits<int64_t>::max();
    if (later_phases.empty()) continue;
    phase_end_ns = later_phases.front();
    later_phases.erase(later_phases.begin());
  }
  totals.Add(gap, part, detail, sample);
}

void AttributeGaps(const AttributionInput& input, Places& places, DeviceReport* report) {
  AttributionCarry carry;
  Attributor(input, places, &carry, report).Run(nullptr);
  report->causes = carry.totals.Take(places.texts(), carry.details);
  AddMeanwhile(input.timeline, input.evidence, places, carry.gil_waits, report);
}

void AttributeWindow(const AttributionInput& input, int64_t until_ns,
                     const std::vector<int32_t>& samples, Places& places, AttributionCarry* carry,
                     DeviceReport* report) {
  Attributor attributor(input, places, carry, report);
  attributor.Run(&samples);
  attributor.ReadOpsBefore(until_ns);
}

}  // namespace gpuprobe::tools
