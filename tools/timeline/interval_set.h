// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Arithmetic on half-open intervals [begin, end) of int64 nanoseconds. Everything is exact; an
// interval with end <= begin is empty and adds nothing.
#ifndef GPUPROBE_TOOLS_TIMELINE_INTERVAL_SET_H_
#define GPUPROBE_TOOLS_TIMELINE_INTERVAL_SET_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace gpuprobe::tools {

// Length of a union, without keeping it. Intervals must come in order of their begin.
class UnionLength {
 public:
  void Add(int64_t begin, int64_t end) {
    if (end <= std::max(begin, end_)) return;
    total_ += end - std::max(begin, end_);
    end_ = end;
  }
  int64_t total() const { return total_; }

 private:
  int64_t end_ = std::numeric_limits<int64_t>::min();
  int64_t total_ = 0;
};

// A union that answers how much of [begin, end) it covers, in O(log n). 16 bytes for each maximal
// interval.
class IntervalSet {
 public:
  // Room for so many maximal intervals; more may come.
  void Reserve(size_t spans) { spans_.reserve(spans); }
  // In order of begin; touching intervals become one.
  void Add(int64_t begin, int64_t end) {
    if (end <= begin) return;
    if (spans_.empty() || begin > end_) {
      spans_.push_back({begin, covered_});
      end_ = begin;
    }
    if (end <= end_) return;
    covered_ += end - end_;
    end_ = end;
  }
  // `near`: where the search begins; a caller that asks in order of time hands in the same variable
  // again, 0 at first, and then does not search the whole set each time.
  int64_t Overlap(int64_t begin, int64_t end, size_t* near) const {
    return Before(end, near) - Before(std::min(begin, end), near);
  }
  int64_t Overlap(int64_t begin, int64_t end) const {
    size_t near = spans_.size() / 2;
    return Overlap(begin, end, &near);
  }
  size_t size() const { return spans_.size(); }
  // Where the last maximal interval begins of those that begin by t; none: INT64_MIN.
  int64_t LastBeginBy(int64_t t) const;

  // How far it has been filled; what was added since can be taken back.
  struct Mark {
    size_t spans;
    int64_t end, covered;
  };
  Mark mark() const { return {spans_.size(), end_, covered_}; }
  void TakeBack(const Mark& mark) {
    spans_.resize(mark.spans);
    end_ = mark.end;
    covered_ = mark.covered;
  }
  // Forgets where what lies before the last of `asked` (ascending, one at least) was covered, but
  // for how much of it lies between each two of them and before the first. What is added later
  // begins at the last of them or after.
  void Coarsen(const std::vector<int64_t>& asked);

 private:
  struct Span {
    int64_t begin;
    int64_t before;  // covered by the spans to the left of this one
  };
  int64_t Before(int64_t t, size_t* near) const;  // covered below t

  std::vector<Span> spans_;
  int64_t end_ = 0;      // of the last span
  int64_t covered_ = 0;  // by all
};

// std::partition_point from `near` outwards: its position in `items`, of which those that are
// `before` come first. O(log distance).
template <typename Items, typename Before>
size_t PartitionNear(const Items& items, size_t near, Before before) {
  size_t low = 0, high = items.size();  // the answer is in [low, high]
  near = std::min(near, high);
  if (near < high && before(items[near])) {
    low = near + 1;
    for (size_t step = 1; low + step <= high; step *= 2) {
      if (!before(items[low + step - 1])) {
        high = low + step - 1;
        break;
      }
      low += step;
    }
  } else {
    high = near;
    for (size_t step = 1; step <= high; step *= 2) {
      if (before(items[high - step])) {
        low = high - step + 1;
        break;
      }
      high -= step;
    }
  }
  while (low < high) {
    const size_t middle = low + (high - low) / 2;
    if (before(items[middle])) {
      low = middle + 1;
    } else {
      high = middle;
    }
  }
  return low;
}

// Disjoint pieces in order of time, each with an id (what that is, the owner knows). Where pieces
// overlap, the one that began first keeps the time.
class Lane {
 public:
  struct Piece {
    int64_t begin, end;
    int32_t id;
  };

  void Add(int64_t begin, int64_t end, int32_t id);  // in order of begin
  const std::vector<Piece>& pieces() const { return pieces_; }
  // The piece that contains t (begin <= t < end) or ended last before it; null: none began by t.
  // `near`: as in IntervalSet::Overlap().
  const Piece* AtOrBefore(int64_t t, size_t* near) const {
    const size_t after =
        PartitionNear(pieces_, *near, [t](const Piece& piece) { return piece.begin <= t; });
    *near = after;
    return after == 0 ? nullptr : &pieces_[after - 1];
  }
  const Piece* AtOrBefore(int64_t t) const {
    size_t near = pieces_.size() / 2;
    return AtOrBefore(t, &near);
  }

 private:
  std::vector<Piece> pieces_;
};

// Reads a lane in order of time: each call's begin must not lie before the previous call's.
// Amortised O(1) a piece.
class LaneReader {
 public:
  LaneReader() = default;
  explicit LaneReader(const Lane* lane) : lane_(lane) {}

  // Cuts [begin, end) at the lane's pieces and calls f(begin, end, id) for each part in order; id
  // -1: no piece there. A default-constructed reader has no pieces.
  template <typename F>
  void Split(int64_t begin, int64_t end, F&& f) {
    while (begin < end) {
      const Lane::Piece* piece = Next(begin);
      if (piece == nullptr || piece->begin >= end) return f(begin, end, -1);
      if (piece->begin > begin) f(begin, piece->begin, -1);
      const int64_t from = std::max(begin, piece->begin), to = std::min(end, piece->end);
      f(from, to, piece->id);
      begin = to;
    }
  }

 private:
  const Lane::Piece* Next(int64_t t) {  // first piece that ends after t
    if (lane_ == nullptr) return nullptr;
    const auto& pieces = lane_->pieces();
    while (position_ < pieces.size() && pieces[position_].end <= t) ++position_;
    return position_ < pieces.size() ? &pieces[position_] : nullptr;
  }

  const Lane* lane_ = nullptr;
  size_t position_ = 0;
};

}  // namespace gpuprobe::tools

#endif  // GPUPROBE_TOOLS_TIMELINE_INTERVAL_SET_H_
