// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "tools/cause_totals.h"

#include <algorithm>

namespace gpuprobe::tools {

void CauseTotals::Sum::Add(uint32_t in_gap, const GapPart& part) {
  const int64_t length_ns = part.end_ns - part.begin_ns;
  if (gap != in_gap) {
    gap = in_gap;
    in_gap_ns = 0;
    ++count;
  }
  total_ns += length_ns;
  in_gap_ns += length_ns;
  longest_ns = std::max(longest_ns, in_gap_ns);
  if (example_call < 0) example_call = part.call;
}

void CauseTotals::Add(uint32_t gap, const GapPart& part) {
  const auto cause = static_cast<size_t>(part.cause);
  causes_[cause].Add(gap, part);
  std::vector<Sum>& sites = sites_[cause];
  if (sites.size() <= static_cast<size_t>(part.where)) sites.resize(part.where + 1);
  sites[part.where].Add(gap, part);
}

std::vector<CauseTotal> CauseTotals::Take(const std::vector<std::string>& places) {
  std::vector<CauseTotal> result;
  for (size_t c = 0; c < causes_.size(); ++c) {
    const Sum& sum = causes_[c];
    if (sum.count == 0) continue;
    CauseTotal& total = result.emplace_back();
    total.cause = static_cast<Cause>(c);
    total.total_ns = sum.total_ns;
    total.count = sum.count;
    total.longest_ns = sum.longest_ns;
    for (size_t place = 0; place < sites_[c].size(); ++place) {
      const Sum& site = sites_[c][place];
      if (site.count == 0) continue;
      total.sites.push_back(
          {places[place], site.total_ns, site.count, site.longest_ns, site.example_call});
    }
    std::stable_sort(total.sites.begin(), total.sites.end(),
                     [](const auto& a, const auto& b) { return a.total_ns > b.total_ns; });
  }
  std::stable_sort(result.begin(), result.end(),
                   [](const auto& a, const auto& b) { return a.total_ns > b.total_ns; });
  return result;
}

}  // namespace gpuprobe::tools
