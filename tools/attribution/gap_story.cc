// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "tools/attribution/gap_story.h"

#include <algorithm>
#include <set>
#include <utility>

#include "tools/attribution/host_split.h"
#include "tools/attribution/meanwhile.h"
#include "tools/attribution/places.h"
#include "tools/timeline/host_view.h"

namespace gpuprobe::tools {
namespace {

class Teller {
 public:
  Teller(const Timeline& timeline, const Analysis& analysis, const DeviceReport& report,
         const Gap& gap)
      : timeline_(timeline),
        analysis_(analysis),
        report_(report),
        gap_(gap),
        host_(timeline),
        evidence_(timeline, host_),
        places_(timeline) {}

  GapStory Tell() const {
    GapStory story;
    story.before = WorkOf(gap_.previous_op);
    story.after = WorkOf(gap_.next_op);
    for (const GapPart& part : report_.PartsOf(gap_)) story.parts.push_back({&part, Beside(part)});
    const int32_t submitter = story.after.call < 0 ? -1 : Call(story.after.call).thread;
    for (const int32_t thread : Threads(submitter)) {
      GapStory::ThreadStory told{thread, places_.ThreadText(thread), thread == submitter, {}};
      told.events = EventsOf(thread);
      if (told.submits || !told.events.empty()) story.threads.push_back(std::move(told));
    }
    const int32_t process =
        submitter >= 0 ? timeline_.threads[submitter].process : ProcessOf(gap_.previous_op);
    story.helpers = HelpersDuring(timeline_, evidence_, places_, process, submitter,
                                  {gap_.begin_ns, gap_.end_ns});
    story.submitted = Submitted();
    return story;
  }

 private:
  const HostCall& Call(int32_t call) const { return timeline_.calls[call]; }
  int32_t ProcessOf(int32_t op) const { return op < 0 ? -1 : timeline_.ops[op].process; }

  GapStory::Work WorkOf(int32_t op) const {
    GapStory::Work work;
    work.op = op;
    if (op < 0 || timeline_.ops[op].submission < 0) return work;
    work.call = timeline_.ops[op].submission;
    work.queued_ns = std::max<int64_t>(0, timeline_.ops[op].start_ns - Call(work.call).end_ns);
    work.where = LineOf(evidence_.SiteOfCall(work.call).stack);
    return work;
  }

  std::string LineOf(int32_t stack) const {
    return evidence_.sites.TextOf(evidence_.sites.SiteOf(stack));
  }

  std::string SymbolOf(int32_t call) const {
    const int32_t symbol = Call(call).symbol;
    return symbol < 0 ? "unknown call" : timeline_.symbols[symbol].name;
  }

  // What the place of a part does not say already.
  std::string Beside(const GapPart& part) const {
    const std::string place = part.where < 0 ? "" : analysis_.places[part.where];
    switch (part.cause) {
      case Cause::kCpuStarved:
        return "ready to run, waiting for a CPU";
      case Cause::kInputWait:
      case Cause::kRequestWait:
      case Cause::kHostPython:
      case Cause::kHostNative:
      case Cause::kGilWait:
        return part.sample < 0 ? "" : evidence_.judge.DetailOf(part.sample);
      case Cause::kHost:
        return evidence_.samples.empty() ? "" : "not sampled";
      case Cause::kSynchronisation:
      case Cause::kBlockingApi:
      case Cause::kPageableCopy:
      case Cause::kLaunchBound: {
        const std::string symbol = part.call < 0 ? "" : SymbolOf(part.call);
        return place.find(symbol) == std::string::npos ? symbol : "";
      }
      default:
        return "";
    }
  }

  // Those that the parts name, and all others of the process that made calls or were looked at.
  std::vector<int32_t> Threads(int32_t submitter) const {
    std::set<int32_t> chosen;
    for (const GapPart& part : report_.PartsOf(gap_)) {
      if (part.thread >= 0) chosen.insert(part.thread);
    }
    const int32_t process =
        submitter >= 0 ? timeline_.threads[submitter].process : ProcessOf(gap_.previous_op);
    for (size_t t = 0; t < timeline_.threads.size(); ++t) {
      if (process >= 0 && timeline_.threads[t].process == process)
        chosen.insert(static_cast<int32_t>(t));
    }
    chosen.erase(submitter);
    std::vector<int32_t> threads(chosen.begin(), chosen.end());
    if (submitter >= 0) threads.insert(threads.begin(), submitter);
    return threads;
  }

  std::vector<GapStory::Event> EventsOf(int32_t thread) const {
    std::vector<GapStory::Event> events;
    const auto lane = host_.CallsOf(thread);  // starts and ends ascend
    auto at = std::partition_point(lane.begin(), lane.end(),
                                   [&](int32_t c) { return Call(c).end_ns <= gap_.begin_ns; });
    for (; at != lane.end() && Call(*at).start_ns < gap_.end_ns; ++at) {
      const int32_t index = *at;
      const HostCall& call = Call(index);
      GapStory::Event& event = events.emplace_back();
      event.begin_ns = call.start_ns;
      event.end_ns = call.end_ns;
      event.call = index;
      event.where = LineOf(evidence_.SiteOfCall(index).stack);
      event.detail = SymbolOf(index);
    }
    AddSamples(thread, &events);
    std::stable_sort(events.begin(), events.end(),
                     [](const auto& a, const auto& b) { return a.begin_ns < b.begin_ns; });
    return events;
  }

  void AddSamples(int32_t thread, std::vector<GapStory::Event>* events) const {
    std::vector<GapStory::Event> runs;
    const auto add = [&](int32_t s, int64_t begin, int64_t end) {
      const HostSample& sample = timeline_.samples[s];
      GapStory::Event event{begin, end, -1, 1, LineOf(sample.stack), evidence_.judge.DetailOf(s)};
      const char* state = StateWord(s);
      event.detail = event.detail.empty() ? state : std::string(state) + ", " + event.detail;
      if (!runs.empty() && runs.back().where == event.where && runs.back().detail == event.detail &&
          !CallBetween(thread, runs.back().end_ns, begin)) {
        runs.back().end_ns = end;
        ++runs.back().samples;
      } else {
        runs.push_back(std::move(event));
      }
    };
    for (const Lane::Piece& piece : evidence_.samples.ExactOf(thread).pieces()) {
      if (piece.end > gap_.begin_ns && piece.begin < gap_.end_ns)
        add(piece.id, piece.begin, piece.end);
    }
    for (const int32_t s : evidence_.samples.PointsIn(thread, gap_.begin_ns, gap_.end_ns))
      add(s, timeline_.samples[s].time_ns, timeline_.samples[s].time_ns);
    events->insert(events->end(), runs.begin(), runs.end());
  }

  const char* StateWord(int32_t sample) const {
    const HostState state = timeline_.samples[sample].state;
    if (evidence_.judge.WaitOf(sample) != WaitKind::kNone) return "off CPU";
    return state == HostState::kRunning ? "running" : "state not known";
  }

  bool CallBetween(int32_t thread, int64_t begin, int64_t end) const {
    const auto lane = host_.CallsOf(thread);
    const auto call = std::partition_point(
        lane.begin(), lane.end(), [&](int32_t c) { return timeline_.calls[c].start_ns <= begin; });
    return call != lane.end() && timeline_.calls[*call].start_ns < end;
  }

  std::vector<GapStory::Work> Submitted() const {
    std::vector<std::pair<int64_t, int32_t>> order;
    for (size_t i = 0; i < timeline_.ops.size(); ++i) {
      const GpuOp& op = timeline_.ops[i];
      if (op.device != report_.device || op.submission < 0) continue;
      const int64_t begin_ns = Call(op.submission).start_ns;
      if (begin_ns >= gap_.begin_ns && begin_ns < gap_.end_ns)
        order.emplace_back(begin_ns, static_cast<int32_t>(i));
    }
    std::sort(order.begin(), order.end());
    std::vector<GapStory::Work> submitted;
    for (const auto& [begin_ns, op] : order) submitted.push_back(WorkOf(op));
    return submitted;
  }

  const Timeline& timeline_;
  const Analysis& analysis_;
  const DeviceReport& report_;
  const Gap& gap_;
  const HostView host_;
  const HostEvidence evidence_;
  const Places places_;
};

}  // namespace

GapStory TellGap(const Timeline& timeline, const Analysis& analysis, const DeviceReport& report,
                 const Gap& gap) {
  return Teller(timeline, analysis, report, gap).Tell();
}

}  // namespace gpuprobe::tools
