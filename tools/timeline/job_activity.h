// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// How busy the rest of a job was at a time: the other threads of a process and the processes below
// it. Tells a thread that waits for its own helpers from one that waits for the outside world.
#ifndef GPUPROBE_TOOLS_TIMELINE_JOB_ACTIVITY_H_
#define GPUPROBE_TOOLS_TIMELINE_JOB_ACTIVITY_H_

#include <cstdint>
#include <vector>

#include "tools/timeline/interval_set.h"
#include "tools/timeline/timeline.h"

namespace gpuprobe::tools {

// Is `process` below `ancestor`? By Process::parent; false for itself.
bool IsBelow(const Timeline& timeline, int32_t process, int32_t ancestor);

// What a sample's interval counts as work: on a CPU, ready for one, or waiting for storage.
int64_t WorkNs(const HostSample& sample);

class JobActivity {
 public:
  explicit JobActivity(const Timeline& timeline);

  // Was the process under the sampler's eyes at `ns`? Only then is silence idleness.
  bool Sampled(int32_t process, int64_t ns) const;
  // Work in [begin, end), in ns of one core. Each sample's work is spread evenly over its interval.
  double OwnWork(int32_t process, int64_t begin, int64_t end) const {
    return own_[process].Between(begin, end);
  }
  double WorkBelow(int32_t process, int64_t begin, int64_t end) const {
    return below_[process].Between(begin, end);
  }

 private:
  // Integral of a step function.
  class Curve {
   public:
    void Add(int64_t begin, int64_t end, double rate);
    void Finish();
    double Between(int64_t begin, int64_t end) const { return Until(end) - Until(begin); }

   private:
    struct Step {
      int64_t at;
      double rate;    // while building: by how much it changes; then: from here on
      double before;  // integral up to here
    };
    double Until(int64_t ns) const;
    std::vector<Step> steps_;
  };

  std::vector<Curve> own_, below_;  // by process
  std::vector<Lane> sampled_;       // by process
};

}  // namespace gpuprobe::tools

#endif  // GPUPROBE_TOOLS_TIMELINE_JOB_ACTIVITY_H_
