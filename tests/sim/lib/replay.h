// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Delivery of a recording (GPUSIM_REPLAY, a .cuptibuf file, gzip or not, with its .names file
// beside it): each recorded buffer goes, record by record and in the recorded order, into buffers
// that the client hands out, split only at record boundaries when the client's are smaller. Nothing
// in a record changes except `name` pointers, which point to strings of this process (null where
// the recording has none). CUPTI's time is then the recording's: it begins at the earliest time in
// the file when the library is first asked, and runs on with the monotonic clock.
#ifndef GPUPROBE_TESTS_SIM_LIB_REPLAY_H_
#define GPUPROBE_TESTS_SIM_LIB_REPLAY_H_

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

namespace gpuprobe::sim {

class Replay {
 public:
  static Replay&
  Get();  // process lifetime; reads the files on first use where GPUSIM_REPLAY is set

  // The recording's time; false: not replaying.
  bool Now(int64_t* ns) const;
  // See gpusim_replay() in gpusim.h for the result.
  int Deliver();

 private:
  Replay();
  bool Load(const std::string& path);
  void LoadNames(const std::string& path);
  bool FindFirstTime();
  void PatchName(uint8_t* record, uint32_t kind) const;
  int DeliverBuffer(const uint8_t* data, size_t bytes);

  std::vector<std::vector<uint8_t>> buffers_;
  std::unordered_map<uint64_t, const std::string*> names_;
  bool asked_for_ = false, usable_ = false;
  int64_t first_ns_ = 0, loaded_monotonic_ns_ = 0;
};

}  // namespace gpuprobe::sim

#endif  // GPUPROBE_TESTS_SIM_LIB_REPLAY_H_
