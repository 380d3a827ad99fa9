// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// State of the CUPTI stand-in that its files share, the link to libcuda (found with dlopen, as
// NVIDIA's library does) and the bookkeeping around every exported function.
#ifndef GPUPROBE_TESTS_SIM_LIB_CUPTI_STATE_H_
#define GPUPROBE_TESTS_SIM_LIB_CUPTI_STATE_H_

#include <cupti.h>
#include <sys/types.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <shared_mutex>

#include "tests/sim/lib/seam.h"

namespace gpuprobe::sim {

// libcuda's functions for its siblings.
struct DriverLink {
  static const DriverLink*
  Get();  // nullptr: there is no driver. Attaches our hooks the first time.

  decltype(&gpusim_internal_attach) attach;
  decltype(&gpusim_internal_callback) callback;
  decltype(&gpusim_internal_violation) violation;
  decltype(&gpusim_internal_cupti_call) cupti_call;
  decltype(&gpusim_internal_tally) tally;
  decltype(&gpusim_internal_devices) devices;
  decltype(&gpusim_internal_contexts) contexts;
  decltype(&gpusim_internal_initialised) initialised;
  int64_t (*now)();
  void (*advance)(int64_t);
};

inline constexpr uint32_t kMaxKind = 256;
inline constexpr uint32_t kMaxCbid = 2048;
inline constexpr uint32_t kMaxAttribute = 16;

struct CuptiState {
  static CuptiState& Get();  // process lifetime

  std::array<std::atomic<bool>, kMaxKind> kind_enabled{};
  // By Domain: which calls give records (activity), which give callbacks.
  std::array<std::array<std::atomic<bool>, kMaxCbid>, 2> api_recorded{};
  std::array<std::array<std::atomic<bool>, kMaxCbid>, CUPTI_CB_DOMAIN_SIZE> callback_enabled{};

  std::atomic<CUpti_BuffersCallbackRequestFunc> request{nullptr};
  std::atomic<CUpti_BuffersCallbackCompleteFunc> complete{nullptr};

  std::atomic<CUpti_TimestampCallbackFunc> timestamp{nullptr};
  std::atomic<int64_t> timestamp_first_sim{0};  // pair taken at registration
  std::atomic<uint64_t> timestamp_first_client{0};

  std::atomic<CUpti_CallbackFunc> subscriber_callback{nullptr};
  std::atomic<void*> subscriber_data{nullptr};
  std::atomic<bool> subscribed{false};

  std::atomic<uint64_t> attributes[kMaxAttribute];
  std::atomic<int> thread_id_type{CUPTI_ACTIVITY_THREAD_ID_TYPE_DEFAULT};
  std::atomic<bool> latency_timestamps{false};
  std::atomic<bool> finalized{false};

  bool AnyKindEnabled() const;
  // CUPTI's record clock.
  uint64_t Timestamp() const;

 private:
  CuptiState();
};

// Around a client's callback: notes it for the rule checks and takes the global lock where asked
// for (GPUSIM_CUPTI_LOCK=global: one read-write lock held around every callback and taken
// exclusively by FlushAll, GetTimestamp and GetNumDroppedRecords, the shape of the driver's lock in
// known deadlocks).
enum class CallbackKind : uint8_t { kBuffer, kApi, kResource };
class CallbackSection {
 public:
  CallbackSection(CallbackKind kind, const char* what);
  ~CallbackSection();
  CallbackSection(const CallbackSection&) = delete;
  CallbackSection& operator=(const CallbackSection&) = delete;
  static bool Inside(CallbackKind kind);

 private:
  CallbackKind kind_;
};

class GlobalLock {
 public:
  explicit GlobalLock(bool exclusive);
  ~GlobalLock();
  GlobalLock(const GlobalLock&) = delete;
  GlobalLock& operator=(const GlobalLock&) = delete;

 private:
  enum class Held : uint8_t { kNothing, kShared, kExclusive };
  Held held_ = Held::kNothing;
};

// One call of an exported function: counts it, applies faults, logs it in the truth.
class CuptiCall {
 public:
  CuptiCall(const char* name, int64_t argument);
  ~CuptiCall();
  CuptiCall(const CuptiCall&) = delete;
  CuptiCall& operator=(const CuptiCall&) = delete;

  bool over() const { return over_; }
  bool null_handle() const {
    return null_handle_;
  }  // fault "null": success, but with a null handle
  CUptiResult result() const { return result_; }
  CUptiResult Done(CUptiResult result) { return result_ = result; }

 private:
  const char* name_;
  int64_t argument_;
  bool over_ = false, null_handle_ = false;
  CUptiResult result_ = CUPTI_SUCCESS;
};

void Violation(const char* text);
void Count(Tally tally, uint32_t kind, uint64_t n);
extern const Hooks kHooks;  // cupti_hooks.cc
const char* CallbackName(CUpti_CallbackDomain domain,
                         uint32_t cbid);  // nullptr: unknown; cupti_names.cc

}  // namespace gpuprobe::sim

// First line of an exported function: declares `call` and returns when a fault has decided it.
#define CUPTI_ENTRY(argument)                                                \
  ::gpuprobe::sim::CuptiCall call(__func__, static_cast<int64_t>(argument)); \
  if (call.over()) return call.result()

#endif  // GPUPROBE_TESTS_SIM_LIB_CUPTI_STATE_H_
