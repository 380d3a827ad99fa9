// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// What really happened, kept independently of CUPTI: every GPU operation, API call and wait (only
// when GPUSIM_TRUTH names a file or detail was asked for; storms would fill the memory), and always
// the totals, the calls into the CUPTI stand-in and the rules that its client broke. Any thread.
#ifndef GPUPROBE_TESTS_SIM_LIB_TRUTH_H_
#define GPUPROBE_TESTS_SIM_LIB_TRUTH_H_

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "tests/sim/lib/seam.h"

namespace gpuprobe::sim {

struct WaitTruth {
  const char* type;  // "stream", "event", "context", "copy", "free", "staging"
  uint32_t context, stream, event, correlation, thread;
  int64_t start_ns, end_ns;
};

class Truth {
 public:
  static Truth& Get();  // process lifetime

  void Own();  // the calling process has initialised CUDA: its truth is written at exit
  void Op(const GpuOp& op);
  void Api(const ApiCall& call, uint32_t thread);
  void Wait(const WaitTruth& wait);
  void Violation(std::string text);
  void CuptiCall(const char* name, int64_t argument, int result);
  void Records(Tally tally, uint32_t record_kind, uint64_t n);

  int Write(const char* path);  // nullptr: GPUSIM_TRUTH; 0: written
  void WriteAtExit();           // nothing unless owned by this process and GPUSIM_TRUTH is set
  int64_t Count(std::string_view what) const;
  int64_t violations() const { return violation_count_.load(std::memory_order_relaxed); }
  const char* violation(int64_t i) const;

 private:
  struct CuptiCallTruth {
    std::string name;
    int64_t argument;
    int result;
    int64_t time_ns;
    uint32_t thread;
  };
  Truth();
  void WriteJson(FILE* out) const;
  void WriteCounts(FILE* out) const;

  bool detailed_ = false;
  std::string path_;
  std::atomic<pid_t> owner_{0};
  std::atomic<bool> exiting_{false};
  // Totals are independent of each other and read after the fact: relaxed throughout.
  std::atomic<int64_t> ops_[6] = {};
  std::atomic<int64_t> api_calls_{0}, violation_count_{0};
  std::atomic<int64_t> tallies_[7] = {};
  static constexpr uint32_t kMaxRecordKind = 256;  // larger kinds are counted in the last slot
  std::atomic<int64_t> emitted_[kMaxRecordKind] = {}, delivered_[kMaxRecordKind] = {},
                       dropped_[kMaxRecordKind] = {};
  mutable std::mutex mu_;
  std::vector<GpuOp> op_list_;
  std::vector<std::pair<ApiCall, uint32_t>> api_list_;
  std::vector<WaitTruth> wait_list_;
  std::vector<std::string*> violation_list_;
  std::vector<CuptiCallTruth> cupti_list_;
  std::map<std::string, int64_t, std::less<>> cupti_counts_;
};

uint32_t ThreadId();  // Linux tid of the caller

}  // namespace gpuprobe::sim

#endif  // GPUPROBE_TESTS_SIM_LIB_TRUTH_H_
