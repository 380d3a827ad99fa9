// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "tools/attribution/cause_totals.h"

#include <algorithm>

namespace gpuprobe::tools {

void CauseTotals::Sum::Merge(const Sum& later) {
  if (later.count == 0) return;
  const bool same_gap = count > 0 && gap == later.first_gap;
  const int64_t before_ns = same_gap ? in_gap_ns : 0;
  longest_ns = std::max({longest_ns, later.longest_ns, before_ns + later.in_first_gap_ns});
  if (count == 0) {
    first_gap = later.first_gap;
    in_first_gap_ns = later.in_first_gap_ns;
  } else if (same_gap && count == 1) {
    in_first_gap_ns += later.in_first_gap_ns;
  }
  in_gap_ns = later.in_gap_ns + (later.count == 1 ? before_ns : 0);
  gap = later.gap;
  count += later.count - (same_gap ? 1 : 0);
  total_ns += later.total_ns;
  samples += later.samples;
  if (example_call == -1) example_call = later.example_call;
}

CauseTotals CauseTotals::Next() const {
  CauseTotals next;
  next.samples_ = samples_;
  return next;
}

void CauseTotals::Merge(const CauseTotals& later) {
  for (size_t c = 0; c < causes_.size(); ++c) {
    causes_[c].Merge(later.causes_[c]);
    if (sites_[c].size() < later.sites_[c].size()) sites_[c].resize(later.sites_[c].size());
    for (size_t s = 0; s < later.sites_[c].size(); ++s) {
      Site& site = sites_[c][s];
      site.Merge(later.sites_[c][s]);
      for (const auto& [detail, ns] : later.sites_[c][s].details) AddDetail(detail, ns, &site);
    }
  }
  samples_ = later.samples_;
}

bool CauseTotals::IsNewSample(size_t cause, size_t sample) {
  std::vector<bool>& counted = samples_[cause];
  if (counted.size() <= sample) counted.resize(sample + 1);
  const bool is_new = !counted[sample];
  counted[sample] = true;
  return is_new;
}

void CauseTotals::Add(uint32_t gap, const GapPart& part, int32_t detail, int32_t sample) {
  const auto cause = static_cast<size_t>(part.cause);
  causes_[cause].Add(gap, part);
  std::vector<Site>& sites = sites_[cause];
  if (sites.size() <= static_cast<size_t>(part.where)) sites.resize(part.where + 1);
  Site& site = sites[part.where];
  site.Add(gap, part);
  if (sample >= 0 && IsNewSample(cause, static_cast<size_t>(sample))) {
    ++causes_[cause].samples;
    ++site.samples;
  }
  if (detail >= 0) AddDetail(detail, part.end_ns - part.begin_ns, &site);
}

void CauseTotals::AddDetail(int32_t detail, int64_t ns, Site* site) {
  const auto known = std::find_if(site->details.begin(), site->details.end(),
                                  [&](const auto& d) { return d.first == detail; });
  if (known == site->details.end()) {
    site->details.emplace_back(detail, ns);
  } else {
    known->second += ns;
  }
}

std::vector<CauseTotal> CauseTotals::Take(const std::vector<std::string>& places,
                                          const std::vector<std::string>& details) {
  std::vector<CauseTotal> result;
  for (size_t c = 0; c < causes_.size(); ++c) {
    const Sum& sum = causes_[c];
    if (sum.count == 0) continue;
    CauseTotal& total = result.emplace_back();
    total.cause = static_cast<Cause>(c);
    total.total_ns = sum.total_ns;
    total.count = sum.count;
    total.longest_ns = sum.longest_ns;
    total.samples = sum.samples;
    for (size_t place = 0; place < sites_[c].size(); ++place) {
      const Site& site = sites_[c][place];
      if (site.count == 0) continue;
      SiteTotal& row = total.sites.emplace_back();
      row = {places[place], site.total_ns, site.count, site.longest_ns, site.example_call};
      row.samples = site.samples;
      const auto most = std::max_element(  // the first of equals
          site.details.begin(), site.details.end(),
          [](const auto& a, const auto& b) { return a.second < b.second; });
      if (most != site.details.end()) {
        row.detail = details[most->first];
        row.detail_ns = most->second;
      }
    }
    std::stable_sort(total.sites.begin(), total.sites.end(),
                     [](const auto& a, const auto& b) { return a.total_ns > b.total_ns; });
  }
  std::stable_sort(result.begin(), result.end(),
                   [](const auto& a, const auto& b) { return a.total_ns > b.total_ns; });
  return result;
}

}  // namespace gpuprobe::tools
