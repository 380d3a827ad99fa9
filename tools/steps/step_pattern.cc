// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// An anchor is a token, or a pair of neighbours, that comes once an iteration. Whether it does is
// put to the vote: each kind of token that lives throughout the sequence says whether it occurs
// equally often between any two neighbouring occurrences of the anchor. A layer of a network is no
// iteration: what comes once a pass (embedding, loss, optimiser) votes against it. Four iterations
// are not one, though everything agrees with it: of levels that nearly all agree with, the finest.
#include "tools/steps/step_pattern.h"

#include <algorithm>
#include <cmath>

#include "tools/timeline/flat_map.h"

namespace gpuprobe::tools {
namespace {

// Enough for hundreds of iterations of what is known (400 to 20,000 operations each), and quick.
constexpr size_t kDetectTokens = 400'000;
constexpr size_t kVoters = 512;           // the most frequent ones; the others are noise
constexpr size_t kSampledSegments = 128;  // looked at for each anchor
constexpr size_t kAnchorsOfALevel = 4;    // candidates with about the same count that are tried
constexpr double kLevelRatio = 1.05;      // "about the same"
// A voter lives throughout: its first occurrence is not after, its last not before these.
constexpr double kFirstUntil = 0.4, kLastFrom = 0.6;
// Of the distances between an anchor's occurrences, those near the median.
constexpr double kRegularShare = 0.5, kNearMedian = 0.25;
constexpr double kLeastVote = 0.6;
// What comes every few iterations (a printed loss, a checkpoint) costs a finer level this much.
constexpr double kFinerMayLack = 0.25;
// Many times as many segments in which the host rarely takes part, where it does in the coarser
// ones: layers, not steps, unless it is the host's doing alone (a printed loss) that comes so
// rarely.
constexpr double kInnerRatio = 8, kInnerHost = 0.5, kInnerMayLack = 0.05;
// Levels of nearly the same count are one level, seen by several anchors.
constexpr double kSameLevel = 1.5;

struct Anchor {
  uint64_t key;                  // token id, or pair: (previous + 1) << 32 | id
  std::span<const uint32_t> at;  // positions in the sample
  double regular = 0, vote = 0;
  double device_vote = 0;  // of those that are not the host's doing
  double host = 0;         // share of segments in which the host takes part
  size_t median_distance = 0;
};

uint64_t PairKey(uint32_t previous, uint32_t id) { return (uint64_t{previous} + 1) << 32 | id; }

struct Key {
  uint64_t value;
  bool operator==(const Key&) const = default;
  uint64_t Hash() const { return MixBits(0, value); }
};

// Puts them into another order.
template <typename T>
T Median(std::vector<T>* values) {
  const auto middle = values->begin() + static_cast<ptrdiff_t>(values->size() / 2);
  std::nth_element(values->begin(), middle, values->end());
  return *middle;
}

class PatternFinder {
 public:
  explicit PatternFinder(std::span<const StepToken> sequence) : sequence_(sequence) {}

  StepPattern Run() {
    FindVoters();
    FindAnchors();
    std::vector<Anchor*> tried = PickAnchors();
    for (Anchor* anchor : tried) Vote(anchor);
    const Anchor* best = Best(tried);
    if (best == nullptr) return {};
    const Anchor& first = FirstOfCycle(*best);
    return Finish(first, best->vote);
  }

  // All occurrences of an anchor in `sequence`.
  static std::vector<size_t> Occurrences(std::span<const StepToken> sequence, uint64_t key) {
    std::vector<size_t> at;
    for (size_t i = 0; i < sequence.size(); ++i) {
      const bool pair = key >> 32 != 0;
      const bool is = pair ? i > 0 && PairKey(sequence[i - 1].id, sequence[i].id) == key
                           : sequence[i].id == key;
      if (is) at.push_back(i);
    }
    return at;
  }

 private:
  // The window that anchors are looked for in: the middle, start-up and wind-down are different.
  std::span<const StepToken> Sample() const {
    if (sequence_.size() <= kDetectTokens) return sequence_;
    return sequence_.subspan((sequence_.size() - kDetectTokens) / 2, kDetectTokens);
  }

  void FindVoters() {
    struct Life {
      size_t count = 0, first = 0, last = 0;
    };
    const auto sample = Sample();
    uint32_t largest = 0;
    for (const StepToken& token : sample) largest = std::max(largest, token.id);
    std::vector<Life> lives(size_t{largest} + 1);  // by id
    for (size_t i = 0; i < sample.size(); ++i) {
      Life& life = lives[sample[i].id];
      if (life.count++ == 0) life.first = i;
      life.last = i;
    }
    std::vector<uint32_t> found;  // ids
    const double size = static_cast<double>(sample.size());
    for (uint32_t id = 0; id < lives.size(); ++id) {
      const Life& life = lives[id];
      if (life.count >= kFewestSteps && static_cast<double>(life.first) <= kFirstUntil * size &&
          static_cast<double>(life.last) >= kLastFrom * size) {
        found.push_back(id);
      }
    }
    std::sort(found.begin(), found.end(), [&](uint32_t a, uint32_t b) {
      return lives[a].count != lives[b].count ? lives[a].count > lives[b].count : a < b;
    });
    if (found.size() > kVoters) found.resize(kVoters);
    const auto none = static_cast<uint16_t>(found.size());
    std::vector<uint16_t> voter_of(lives.size(), none);
    for (const uint32_t id : found) {
      voter_of[id] = static_cast<uint16_t>(weight_.size());
      // Not one vote an occurrence, or the layers would outvote the steps; not one a kind, or a
      // loss that is printed now and then would weigh as much as the model.
      weight_.push_back(std::log2(1.0 + static_cast<double>(lives[id].count)));
    }
    of_host_.assign(weight_.size(), false);
    voters_.reserve(sample.size());
    hosts_before_.reserve(sample.size() + 1);
    hosts_before_.push_back(0);
    for (size_t i = 0; i < sample.size(); ++i) {
      voters_.push_back(voter_of[sample[i].id]);
      hosts_before_.push_back(hosts_before_.back() + sample[i].host);
      if (sample[i].host && HasVote(i)) of_host_[voters_.back()] = true;
    }
  }
  bool HasVote(size_t position) const { return voters_[position] < weight_.size(); }

  // Candidates: each voter, and each pair of a token and a voter after it.
  void FindAnchors() {
    const auto sample = Sample();
    FlatMap<Key, uint32_t> slots;
    std::vector<uint64_t> keys;
    std::vector<uint32_t> counts;
    const auto slot_of = [&](uint64_t key) {
      const auto [slot, is_new] = slots.FindOrAdd({key});
      if (is_new) {
        *slot = static_cast<uint32_t>(keys.size());
        keys.push_back(key);
        counts.push_back(0);
      }
      ++counts[*slot];
      return *slot;
    };
    std::vector<uint32_t> slot_of_voter(weight_.size(), UINT32_MAX);
    std::vector<uint32_t> pairs(sample.size(), UINT32_MAX);  // slots, by position
    for (size_t i = 0; i < sample.size(); ++i) {
      if (!HasVote(i)) continue;
      uint32_t& single = slot_of_voter[voters_[i]];
      if (single == UINT32_MAX) {
        single = slot_of(sample[i].id);
      } else {
        ++counts[single];
      }
      if (i > 0) pairs[i] = slot_of(PairKey(sample[i - 1].id, sample[i].id));
    }
    std::vector<size_t> begins = {0};
    for (const uint32_t count : counts) begins.push_back(begins.back() + count);
    positions_.resize(begins.back());
    std::vector<size_t> next(begins.begin(), begins.end() - 1);
    for (size_t i = 0; i < sample.size(); ++i) {
      if (!HasVote(i)) continue;
      const auto position = static_cast<uint32_t>(i);
      positions_[next[slot_of_voter[voters_[i]]]++] = position;
      if (i > 0) positions_[next[pairs[i]]++] = position;
    }
    for (size_t slot = 0; slot < keys.size(); ++slot) {
      if (counts[slot] < kFewestSteps) continue;
      Anchor anchor;
      anchor.key = keys[slot];
      anchor.at = std::span(positions_).subspan(begins[slot], counts[slot]);
      MeasureDistances(&anchor);
      if (anchor.regular >= kRegularShare && MayBeStep(anchor)) anchors_.push_back(anchor);
    }
    std::sort(anchors_.begin(), anchors_.end(), [](const Anchor& a, const Anchor& b) {
      if (a.at.size() != b.at.size()) return a.at.size() > b.at.size();
      if (a.regular != b.regular) return a.regular > b.regular;
      return a.key < b.key;
    });
  }

  void MeasureDistances(Anchor* anchor) {
    std::vector<uint32_t>& distances = distances_;
    distances.clear();
    for (size_t i = 1; i < anchor->at.size(); ++i) {
      distances.push_back(anchor->at[i] - anchor->at[i - 1]);
    }
    anchor->median_distance = Median(&distances);
    const double median = static_cast<double>(anchor->median_distance);
    // Short iterations vary by whole tokens.
    const double near = std::max(kNearMedian * median, 1.0);
    const auto is_near = [&](uint32_t d) {
      return std::abs(static_cast<double>(d) - median) <= near;
    };
    anchor->regular =
        static_cast<double>(std::count_if(distances.begin(), distances.end(), is_near)) /
        static_cast<double>(distances.size());
  }

  // A storm of one kernel repeats, too: not every launch is a step.
  bool MayBeStep(const Anchor& anchor) const {
    const auto sample = Sample();
    if (anchor.median_distance >= kFewestOpsOfAStep) return true;
    if (sample[anchor.at.front()].alone) return true;
    if (anchor.median_distance < 2) return false;
    // Of a typical segment: does the host take part?
    const size_t begin = anchor.at[anchor.at.size() / 2];
    const size_t end = std::min(begin + anchor.median_distance, sample.size());
    return std::any_of(sample.begin() + static_cast<ptrdiff_t>(begin),
                       sample.begin() + static_cast<ptrdiff_t>(end),
                       [](const StepToken& t) { return t.host || t.alone; });
  }

  std::vector<Anchor*> PickAnchors() {
    std::vector<Anchor*> picked;
    size_t of_level = 0;
    double level = 0;
    for (Anchor& anchor : anchors_) {  // by count, descending
      const double count = static_cast<double>(anchor.at.size());
      if (level == 0 || count * kLevelRatio < level) {
        level = count;
        of_level = 0;
      }
      if (of_level++ < kAnchorsOfALevel) picked.push_back(&anchor);
    }
    return picked;
  }

  // Weighted share of the voters that occur in each segment equally often; a voter that most
  // segments are without does not.
  void Vote(Anchor* anchor) const {
    const size_t voters = weight_.size();
    const size_t segments = anchor->at.size() - 1;
    const size_t stride = (segments + kSampledSegments - 1) / kSampledSegments;
    const size_t looked_at = (segments + stride - 1) / stride;
    std::vector<uint32_t> counts(voters * looked_at);  // by voter, then segment
    std::vector<uint32_t> in_segment(voters + 1);      // and of what has no vote
    size_t with_host = 0;
    for (size_t s = 0, column = 0; s < segments; s += stride, ++column) {
      std::fill(in_segment.begin(), in_segment.end(), 0);
      const size_t begin = anchor->at[s], end = anchor->at[s + 1];
      for (const uint16_t voter : std::span(voters_).subspan(begin, end - begin))
        ++in_segment[voter];
      with_host += hosts_before_[begin] < hosts_before_[end];
      for (size_t v = 0; v < voters; ++v) counts[v * looked_at + column] = in_segment[v];
    }
    double agreed = 0, all = 0, device_agreed = 0, device_all = 0;
    for (size_t v = 0; v < voters; ++v) {
      const double agrees =
          weight_[v] * ShareOfMode(std::span(counts).subspan(v * looked_at, looked_at));
      all += weight_[v];
      agreed += agrees;
      if (of_host_[v]) continue;
      device_all += weight_[v];
      device_agreed += agrees;
    }
    anchor->vote = all > 0 ? agreed / all : 0;
    anchor->device_vote = device_all > 0 ? device_agreed / device_all : 0;
    anchor->host = static_cast<double>(with_host) / static_cast<double>(looked_at);
  }

  // 0 where the most frequent count is none.
  static double ShareOfMode(std::span<uint32_t> counts) {
    const uint32_t first = counts.front();
    if (std::all_of(counts.begin(), counts.end(), [=](uint32_t c) { return c == first; }))
      return first == 0 ? 0 : 1;
    std::sort(counts.begin(), counts.end());
    size_t best = 0;
    uint32_t mode = 0;
    for (size_t i = 0; i < counts.size();) {
      size_t j = i;
      while (j < counts.size() && counts[j] == counts[i]) ++j;
      if (j - i > best) {
        best = j - i;
        mode = counts[i];
      }
      i = j;
    }
    return mode == 0 ? 0 : static_cast<double>(best) / static_cast<double>(counts.size());
  }

  static bool IsInside(const Anchor& finer, const Anchor& coarser) {
    return static_cast<double>(finer.at.size()) >=
               kInnerRatio * static_cast<double>(coarser.at.size()) &&
           finer.host < kInnerHost * coarser.host;
  }

  static const Anchor* Best(const std::vector<Anchor*>& tried) {
    const Anchor* highest = nullptr;
    for (const Anchor* anchor : tried) {
      if (highest == nullptr || anchor->vote > highest->vote) highest = anchor;
    }
    if (highest == nullptr || highest->vote < kLeastVote) return nullptr;
    // The finest level, and in it the anchor that most agree with: one that evaluation has, too,
    // is of the same level but worse.
    const Anchor* best = nullptr;
    size_t finest = 0;
    for (const Anchor* anchor : tried) {  // by count, descending
      if (anchor->vote < std::max(kLeastVote, highest->vote - kFinerMayLack)) continue;
      if (IsInside(*anchor, *highest) &&
          anchor->device_vote < highest->device_vote - kInnerMayLack) {
        continue;
      }
      if (best == nullptr) finest = anchor->at.size();
      if (static_cast<double>(anchor->at.size()) * kSameLevel < static_cast<double>(finest)) break;
      if (best == nullptr || anchor->vote > best->vote) best = anchor;
    }
    return best;
  }

  // Of the anchors that take turns with `best`, the one before which the device pauses longest:
  // an iteration begins with the work that came after the wait for it.
  const Anchor& FirstOfCycle(const Anchor& best) const {
    const Anchor* first = &best;
    int64_t longest_ns = MedianPause(best);
    for (const Anchor& anchor : anchors_) {
      if (!TakesTurns(best, anchor)) continue;
      const int64_t pause_ns = MedianPause(anchor);
      if (pause_ns > longest_ns) {
        first = &anchor;
        longest_ns = pause_ns;
      }
    }
    return *first;
  }

  int64_t MedianPause(const Anchor& anchor) const {
    std::vector<int64_t> pauses;
    for (const uint32_t at : anchor.at) pauses.push_back(Sample()[at].pause_ns);
    return Median(&pauses);
  }

  // Nearly always exactly one between two of `best`.
  static bool TakesTurns(const Anchor& best, const Anchor& other) {
    const size_t n = best.at.size();
    if (other.at.size() + 1 < n || other.at.size() > n + 1) return false;
    size_t single = 0, o = 0;
    while (o < other.at.size() && other.at[o] < best.at.front()) ++o;
    for (size_t i = 0; i + 1 < n; ++i) {
      size_t in = 0;
      for (; o < other.at.size() && other.at[o] < best.at[i + 1]; ++o) ++in;
      single += in == 1;
    }
    return static_cast<double>(single) >= 0.95 * static_cast<double>(n - 1);
  }

  StepPattern Finish(const Anchor& anchor, double vote) const {
    StepPattern pattern;
    pattern.begins = Occurrences(sequence_, anchor.key);
    pattern.typical_tokens = anchor.median_distance;
    pattern.confidence = vote;
    pattern.of_pair = anchor.key >> 32 != 0;
    // The last iteration ends where it is as long as the others; a shorter one is unfinished and
    // only ends the one before.
    const size_t rest = sequence_.size() - pattern.begins.back();
    if (rest >= pattern.typical_tokens) {
      pattern.end = pattern.begins.back() + pattern.typical_tokens;
    } else if (static_cast<double>(rest) >= 0.9 * static_cast<double>(pattern.typical_tokens)) {
      pattern.end = sequence_.size();
    } else {
      pattern.end = pattern.begins.back();
      pattern.begins.pop_back();
    }
    if (pattern.begins.size() < kFewestSteps) return {};
    return pattern;
  }

  const std::span<const StepToken> sequence_;
  std::vector<double> weight_;    // by voter
  std::vector<bool> of_host_;     // by voter: a synchronisation, or a copy from or to the host
  std::vector<uint16_t> voters_;  // of each token of the sample; as many as there are: none
  std::vector<uint32_t> hosts_before_;  // each token of the sample: those that are the host's doing
  std::vector<uint32_t> positions_, distances_;
  std::vector<Anchor> anchors_;
};

}  // namespace

StepPattern FindPattern(std::span<const StepToken> sequence) {
  if (sequence.size() < kFewestSteps) return {};
  return PatternFinder(sequence).Run();
}

}  // namespace gpuprobe::tools
