// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// What to do about a finding. Each sentence stands on something the trace shows; where it shows
// nothing the advice is empty. The table is in ATTRIBUTION.md, "Advice".
#ifndef GPUPROBE_TOOLS_ANALYSIS_ADVICE_H_
#define GPUPROBE_TOOLS_ANALYSIS_ADVICE_H_

#include <string>

#include "tools/analysis/analysis.h"
#include "tools/analysis/verdict_facts.h"
#include "tools/timeline/timeline.h"

namespace gpuprobe::tools {

// From here on workers count as busy: the work itself is what takes long.
inline constexpr double kBusyShare = 0.5;
// A copy to the host of no more than this, right before a wait, reads a result (a loss, a flag, a
// count), no data.
inline constexpr int64_t kReadBackBytes = 4096;

// What kept the helpers of a waiting thread from delivering. nullptr: none were seen.
const Meanwhile* Helpers(const CauseTotal* cause);
bool AreStarved(const Meanwhile& helpers);

std::string AdviceForInput(const CauseTotal* cause);
std::string AdviceForStarved(const Timeline& timeline, const CauseTotal* cause,
                             const Meanwhile* helpers);
std::string AdviceForHost(const SiteTotal& site);
// `why`: Process::python_unread.
std::string AdviceForUnreadPython(const std::string& why);
// The feeding thread was outside CUDA and no sample says what it did.
std::string AdviceForUnsampled(const Timeline& timeline);
// Most of the idle time has no cause that can be shown.
std::string AdviceForUnknown(const Timeline& timeline, const SiteTotal& site);
std::string AdviceForGil(const CauseTotal* cause);
std::string AdviceForSync(const Timeline& timeline, const SiteTotal& site);
std::string AdviceForBlockingApi(const Timeline& timeline, const SiteTotal& site);
std::string AdviceForPageableCopy(const SiteTotal& site);
std::string AdviceForStall(const StepGrowth& growth);

// The CUDA call behind a site; empty: not a call.
std::string ApiOf(const Timeline& timeline, const SiteTotal& site);

}  // namespace gpuprobe::tools

#endif  // GPUPROBE_TOOLS_ANALYSIS_ADVICE_H_
