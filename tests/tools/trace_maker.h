// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Writes trace files as the shipped writer does, from what a test states: the precondition of
// loader and command-line tests. One object is one process; its clock stands at the latest time
// that was given to it.
#ifndef GPUPROBE_TESTS_TOOLS_TRACE_MAKER_H_
#define GPUPROBE_TESTS_TOOLS_TRACE_MAKER_H_

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "proto/packet_builder.h"
#include "proto/sample_encoder.h"
#include "proto/trace_writer.h"
#include "ringbuf/records.h"

namespace gpuprobe::tools {

struct MadeProcess {
  uint32_t pid = 4711;
  std::string host = "node1", boot_id = "boot-a", executable = "/usr/bin/python3.11";
  std::vector<std::string> command_line = {"python", "train.py"};
  int32_t rank = -1;
  int64_t begin_ns = 1'000'000'000'000;  // first clock reading
  int64_t trace_minus_monotonic_ns = 900'000'000'000;
  uint64_t file_id = 1;
  uint32_t parent_pid = 1;
  uint64_t start_ticks = 0;
  bool with_capture = true;        // CaptureInfo: runtime calls and synchronisation captured
  int32_t kernel_kind_result = 0;  // CUPTI's answer to the kernel kind
  std::string off_reason;
};

// Values of proto's ApiClass.
enum class MadeClass : uint32_t {
  kOther = 0,
  kLaunch = 1,
  kCopy = 2,
  kCopyBlocking = 3,
  kSync = 4,
  kAlloc = 7
};

struct MadeUsage {
  int64_t wall_ns = 0, user_cpu_ns = 0, system_cpu_ns = 0, children_cpu_ns = 0;
};

// A piece of host samples, as the sampler makes one.
class PieceMaker {
 public:
  explicit PieceMaker(int64_t begin_ns);
  PieceMaker(const PieceMaker&) = delete;
  PieceMaker& operator=(const PieceMaker&) = delete;
  ~PieceMaker();

  void Process(const proto::SampledProcessFacts& facts);
  // Frames: "train.py:27 next" (Python), "/usr/lib/libc.so.6+0x1234" (native).
  uint32_t Stack(std::initializer_list<std::string_view> innermost_first);
  uint32_t Text(std::string_view text) { return encoder_.InternText(text); }
  void Sample(uint32_t pid, uint32_t tid, const proto::SampleRecord& sample);
  void NameThread(uint32_t pid, uint32_t tid, const std::string& name, bool main = false);
  void Module(std::string_view path, std::string_view build_id);
  std::string Seal(int64_t end_ns, const proto::SamplerTotals& totals = {});

 private:
  void* memory_;
  proto::SampleEncoder encoder_;
  std::map<std::string, uint32_t, std::less<>> locations_;  // frame -> caller id
};

class TraceMaker {
 public:
  explicit TraceMaker(MadeProcess process = {});
  TraceMaker(const TraceMaker&) = delete;
  TraceMaker& operator=(const TraceMaker&) = delete;
  ~TraceMaker();

  // From now on the clock goes on only if told to, whatever times the records have.
  void HoldClock() { clock_held_ = true; }
  // `uuid`: all 16 bytes.
  void Device(uint32_t device, uint8_t uuid, const std::string& name);
  void Kernel(const std::string& name, int64_t start_ns, int64_t end_ns, uint32_t correlation,
              uint32_t device = 0, uint32_t stream = 7, Timing timing = Timing::kValid);
  void Copy(uint8_t copy_kind, uint8_t src_kind, uint8_t dst_kind, uint64_t bytes, int64_t start_ns,
            int64_t end_ns, uint32_t correlation);
  void Set(uint64_t bytes, int64_t start_ns, int64_t end_ns, uint32_t correlation);
  void Graph(uint32_t graph_id, int64_t start_ns, int64_t end_ns, uint32_t correlation);
  void Call(const std::string& name, MadeClass api_class, int64_t start_ns, int64_t end_ns,
            uint32_t correlation, uint32_t thread = 4711, ApiDomain domain = ApiDomain::kRuntime,
            int32_t result = 0);
  void Sync(uint8_t type, int64_t start_ns, int64_t end_ns, uint32_t correlation,
            uint32_t stream = 7);
  void CudaEvent(uint32_t event, uint32_t correlation, uint32_t stream = 7);
  void Overhead(uint32_t kind, int64_t start_ns, int64_t end_ns, uint32_t thread = 0);
  // An end of an NVTX range: flags 2 begin, 4 end.
  void Marker(uint8_t flags, uint32_t id, int64_t time_ns, uint32_t thread,
              const std::string& name = "", const std::string& domain = "");
  void Loss(LossCause cause, uint64_t count, int64_t begin_ns, int64_t end_ns);
  void Blind(int64_t begin_ns, int64_t end_ns, const std::string& who, const std::string& reason);

  // Into the frame that is closed next.
  void Piece(std::string sealed) { pieces_.push_back(std::move(sealed)); }
  void Usage(const MadeUsage& usage) { usage_ = usage; }  // into all frames from now on

  void CloseFrame();
  // Everything written so far; `Finish` adds the End packet.
  void Finish(uint32_t buffers_outstanding = 0);
  const std::string& bytes() const { return bytes_; }
  // Where each frame begins in bytes().
  const std::vector<size_t>& frames() const { return frames_; }
  void Save(const std::string& path) const;

 private:
  void Advance(int64_t to_ns);
  const char* Keep(const std::string& text) { return kept_.insert(text).first->c_str(); }
  void AddPackets(proto::PacketBuilder* out);
  void AddSamplerPackets(proto::PacketBuilder* out);

  MadeProcess process_;
  int64_t now_ns_;
  bool clock_held_ = false;
  void* memory_ = nullptr;
  proto::TraceWriter writer_;
  std::set<std::string> kept_;  // stable addresses
  std::map<std::pair<ApiDomain, uint32_t>, std::pair<std::string, uint32_t>>
      symbols_;  // cbid -> name, class
  std::map<std::pair<ApiDomain, std::string>, uint32_t> cbids_;
  std::vector<std::string> pieces_;
  MadeUsage usage_;
  std::string bytes_;
  std::vector<size_t> frames_;
};

}  // namespace gpuprobe::tools

#endif  // GPUPROBE_TESTS_TOOLS_TRACE_MAKER_H_
