// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Arithmetic on half-open intervals [begin, end) of int64 nanoseconds. Everything is exact; an
// interval with end <= begin is empty and adds nothing.
#ifndef GPUPROBE_TOOLS_INTERVAL_SET_H_
#define GPUPROBE_TOOLS_INTERVAL_SET_H_

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

// A union that answers how much of [begin, end) it covers, in O(log n). 24 bytes for each maximal
// interval.
class IntervalSet {
 public:
  // In order of begin; touching intervals become one.
  void Add(int64_t begin, int64_t end);
  int64_t Overlap(int64_t begin, int64_t end) const {
    return Before(end) - Before(std::min(begin, end));
  }
  size_t size() const { return spans_.size(); }

 private:
  struct Span {
    int64_t begin, end;
    int64_t before;  // covered by the spans to the left of this one
  };
  int64_t Before(int64_t t) const;  // covered below t

  std::vector<Span> spans_;
};

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
  const Piece* AtOrBefore(int64_t t) const;

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

#endif  // GPUPROBE_TOOLS_INTERVAL_SET_H_
