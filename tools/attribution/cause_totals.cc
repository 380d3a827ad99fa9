// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "tools/attribution/cause_totals.h"

#include <algorithm>

namespace gpuprobe::tools {

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
  if (detail < 0) return;
  const auto known = std::find_if(site.details.begin(), site.details.end(),
                                  [&](const auto& d) { return d.first == detail; });
  const int64_t length_ns = part.end_ns - part.begin_ns;
  if (known == site.details.end()) {
    site.details.emplace_back(detail, length_ns);
  } else {
    known->second += length_ns;
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
      if (most != site.details.end()) row.detail = details[most->first];
    }
    std::stable_sort(total.sites.begin(), total.sites.end(),
                     [](const auto& a, const auto& b) { return a.total_ns > b.total_ns; });
  }
  std::stable_sort(result.begin(), result.end(),
                   [](const auto& a, const auto& b) { return a.total_ns > b.total_ns; });
  return result;
}

}  // namespace gpuprobe::tools
