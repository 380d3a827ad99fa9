// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// ActivitySource against a table of functions that note every call and fail on request.
#include "cupti/activity_source.h"

#include <cupti.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "cupti/api_calls.h"

namespace gpuprobe::cupti {
namespace {

// What the fake library was asked and what it is like. Precondition: one test at a time.
struct FakeCupti {
  std::vector<std::string> calls;  // without the per-call filters
  std::set<int32_t> enabled;       // kinds
  std::set<int32_t> ever_enabled;
  std::set<uint32_t> runtime_off, driver_off;
  std::map<int32_t, Result> kind_answers;
  int fail_call = -1;  // position in `calls` that gets `failure`
  Result failure = CUPTI_SUCCESS;
  uint8_t zeroed = 0;
  size_t preallocated = 3;
  int32_t thread_id_type = CUPTI_ACTIVITY_THREAD_ID_TYPE_DEFAULT;
  bool subscribed = false;
  bool latency = false;
  BufferRequestedFn requested = nullptr;
  size_t dropped = 0;

  Result Note(const std::string& call) {
    calls.push_back(call);
    return static_cast<int>(calls.size()) - 1 == fail_call ? failure : CUPTI_SUCCESS;
  }
};
FakeCupti* fake;

CuptiApi MakeApi() {
  CuptiApi api;
  api.Subscribe = [](void** subscriber, void* callback, void*) -> Result {
    EXPECT_NE(callback, nullptr);
    const Result result = fake->Note("Subscribe");
    if (result == CUPTI_SUCCESS) {
      fake->subscribed = true;
      *subscriber = fake;
    }
    return result;
  };
  api.Unsubscribe = [](void* subscriber) -> Result {
    EXPECT_EQ(subscriber, fake);
    const Result result = fake->Note("Unsubscribe");
    if (result == CUPTI_SUCCESS) fake->subscribed = false;
    return result;
  };
  api.ActivityGetAttribute = [](int32_t attribute, size_t* size, void* value) -> Result {
    EXPECT_EQ(attribute, CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER);
    EXPECT_EQ(*size, 1u);
    const Result result = fake->Note("GetAttribute");
    if (result == CUPTI_SUCCESS) memcpy(value, &fake->zeroed, 1);
    return result;
  };
  api.ActivitySetAttribute = [](int32_t attribute, size_t* size, void* value) -> Result {
    const Result result = fake->Note("SetAttribute " + std::to_string(attribute));
    if (result != CUPTI_SUCCESS) return result;
    if (attribute == CUPTI_ACTIVITY_ATTR_ZEROED_OUT_ACTIVITY_BUFFER) {
      EXPECT_EQ(*size, sizeof(fake->zeroed));
      memcpy(&fake->zeroed, value, *size);
    } else {
      EXPECT_EQ(attribute, CUPTI_ACTIVITY_ATTR_DEVICE_BUFFER_PRE_ALLOCATE_VALUE);
      EXPECT_EQ(*size, sizeof(fake->preallocated));
      memcpy(&fake->preallocated, value, *size);
    }
    return result;
  };
  api.GetThreadIdType = [](int32_t* type) -> Result {
    *type = fake->thread_id_type;
    return fake->Note("GetThreadIdType");
  };
  api.SetThreadIdType = [](int32_t type) -> Result {
    const Result result = fake->Note("SetThreadIdType " + std::to_string(type));
    if (result == CUPTI_SUCCESS) fake->thread_id_type = type;
    return result;
  };
  api.ActivityEnableLatencyTimestamps = [](uint8_t enable) -> Result {
    const Result result = fake->Note("Latency " + std::to_string(enable));
    if (result == CUPTI_SUCCESS) fake->latency = enable != 0;
    return result;
  };
  api.ActivityEnableHwTrace = [](uint8_t enable) -> Result {
    return fake->Note("HwTrace " + std::to_string(enable));
  };
  api.ActivityRegisterCallbacks = [](BufferRequestedFn requested, BufferCompletedFn) -> Result {
    const Result result = fake->Note("RegisterCallbacks");
    if (result == CUPTI_SUCCESS) fake->requested = requested;
    return result;
  };
  api.ActivityEnable = [](int32_t kind) -> Result {
    fake->ever_enabled.insert(kind);
    Result result = fake->Note("Enable " + std::to_string(kind));
    if (fake->kind_answers.count(kind)) result = fake->kind_answers[kind];
    if (result == CUPTI_SUCCESS) fake->enabled.insert(kind);
    if (kind == CUPTI_ACTIVITY_KIND_RUNTIME) fake->runtime_off.clear();
    if (kind == CUPTI_ACTIVITY_KIND_DRIVER) fake->driver_off.clear();
    return result;
  };
  api.ActivityDisable = [](int32_t kind) -> Result {
    const Result result = fake->Note("Disable " + std::to_string(kind));
    if (result == CUPTI_SUCCESS) fake->enabled.erase(kind);
    return result;
  };
  api.ActivityFlushAll = [](uint32_t flag) -> Result {
    return fake->Note("FlushAll " + std::to_string(flag));
  };
  api.ActivityGetNumDroppedRecords = [](void* context, uint32_t stream, size_t* dropped) -> Result {
    EXPECT_EQ(context, nullptr);
    EXPECT_EQ(stream, 0u);
    const Result result = fake->Note("GetNumDropped");
    *dropped = fake->dropped;
    fake->dropped = 0;
    return result;
  };
  api.ActivityEnableRuntimeApi = [](uint32_t cbid, uint8_t enable) -> Result {
    EXPECT_EQ(enable, 0);
    fake->runtime_off.insert(cbid);
    return CUPTI_SUCCESS;
  };
  api.ActivityEnableDriverApi = [](uint32_t cbid, uint8_t enable) -> Result {
    EXPECT_EQ(enable, 0);
    fake->driver_off.insert(cbid);
    return CUPTI_SUCCESS;
  };
  return api;
}

void Requested(uint8_t**, size_t*, size_t*) {}
void Completed(void*, uint32_t, uint8_t*, size_t, size_t) {}

class ActivitySourceTest : public ::testing::Test {
 protected:
  ActivitySourceTest() : api_(MakeApi()) { fake = &fake_; }
  ~ActivitySourceTest() override {
    EXPECT_EQ(fake_.ever_enabled.count(CUPTI_ACTIVITY_KIND_KERNEL), 0u) << "serialises all kernels";
  }

  bool Start(const ActivityOptions& options = {}) {
    return source_.Start(&api_, options, &Requested, &Completed, why_, sizeof(why_));
  }
  bool Called(const std::string& call) const { return PositionOf(call) >= 0; }
  int PositionOf(const std::string& call) const {
    const auto found = std::find(fake_.calls.begin(), fake_.calls.end(), call);
    return found == fake_.calls.end() ? -1 : static_cast<int>(found - fake_.calls.begin());
  }
  Result OutcomeOf(const std::string& name) const {
    size_t count = 0;
    const Outcome* outcomes = source_.outcomes(&count);
    for (size_t i = 0; i < count; ++i) {
      if (name == outcomes[i].name) return outcomes[i].result;
    }
    outcomes = source_.attributes(&count);
    for (size_t i = 0; i < count; ++i) {
      if (name == outcomes[i].name) return outcomes[i].result;
    }
    ADD_FAILURE() << "no outcome named " << name;
    return -2;
  }

  FakeCupti fake_;
  CuptiApi api_;
  ActivitySource source_;
  char why_[512] = {};
};

TEST_F(ActivitySourceTest, StartEnablesTheKindsOneByOneInOrder) {
  ASSERT_TRUE(Start()) << why_;
  EXPECT_TRUE(source_.active());
  const std::vector<std::string> expected = {
      "Subscribe",         "Unsubscribe",       "GetAttribute", "SetAttribute 5", "GetThreadIdType",
      "SetThreadIdType 1", "RegisterCallbacks", "Enable 1",     "Enable 2",       "Enable 22",
      "Enable 10",         "Enable 5",          "Enable 4",     "Enable 38",      "Enable 8",
      "Enable 9",          "Enable 37",         "Enable 36",    "Enable 17",      "Enable 51"};
  EXPECT_EQ(fake_.calls, expected);
  EXPECT_FALSE(fake_.subscribed);
  EXPECT_EQ(fake_.zeroed, 1);
  EXPECT_EQ(fake_.requested, &Requested);
  size_t kinds = 0;
  source_.outcomes(&kinds);
  EXPECT_EQ(kinds, 13u);
}

TEST_F(ActivitySourceTest, ChatterIsSwitchedOffAfterTheKindsAndNothingElseIs) {
  ASSERT_TRUE(Start());
  for (const ApiDomain domain : {ApiDomain::kRuntime, ApiDomain::kDriver}) {
    const auto& off = domain == ApiDomain::kRuntime ? fake_.runtime_off : fake_.driver_off;
    size_t count = 0, chatter = 0;
    const ApiCall* calls = ApiCalls(domain, &count);
    for (size_t i = 0; i < count; ++i) {
      EXPECT_EQ(off.count(calls[i].cbid), calls[i].recorded ? 0u : 1u) << calls[i].name;
      chatter += !calls[i].recorded;
    }
    EXPECT_EQ(off.size(), chatter) << "calls beyond the table stay on";
  }
  EXPECT_EQ(OutcomeOf("RUNTIME_API_FILTER"), CUPTI_SUCCESS);
  EXPECT_EQ(OutcomeOf("DRIVER_API_FILTER"), CUPTI_SUCCESS);
}

TEST_F(ActivitySourceTest, AllApiCallsLeavesTheFiltersAlone) {
  ActivityOptions options;
  options.all_api_calls = true;
  ASSERT_TRUE(Start(options));
  EXPECT_TRUE(fake_.runtime_off.empty());
  EXPECT_TRUE(fake_.driver_off.empty());
}

TEST_F(ActivitySourceTest, OptionsDecideWhichKindsAreAskedFor) {
  ActivityOptions options;
  options.runtime_api = options.driver_api = options.synchronization = options.overhead = false;
  options.graph_nodes = true;
  options.peer_copies = false;
  options.zeroed_buffers = false;
  options.latency_timestamps = true;
  options.device_buffers_preallocated = 16;
  ASSERT_TRUE(Start(options));
  EXPECT_EQ(fake_.enabled, (std::set<int32_t>{1, 2, 10, 8, 9, 37}));
  EXPECT_FALSE(Called("SetAttribute 5"));
  EXPECT_EQ(fake_.preallocated, 16u);
  EXPECT_TRUE(fake_.latency);
  EXPECT_LT(PositionOf("Latency 1"), PositionOf("RegisterCallbacks"));
}

TEST_F(ActivitySourceTest, HardwareTraceIsAskedForOnceBeforeAnyKindAndNotTakenBack) {
  ASSERT_TRUE(Start());
  EXPECT_FALSE(Called("HwTrace 1"));
  source_.Pause();
  ActivityOptions options;
  options.hw_trace = true;
  fake_.calls.clear();
  ActivitySource other;
  ASSERT_TRUE(other.Start(&api_, options, &Requested, &Completed, why_, sizeof why_));
  EXPECT_LT(PositionOf("HwTrace 1"), PositionOf("RegisterCallbacks"));
  other.Pause();
  ASSERT_TRUE(other.Resume());
  EXPECT_EQ(std::count(fake_.calls.begin(), fake_.calls.end(), "HwTrace 1"), 1);
  EXPECT_FALSE(Called("HwTrace 0"));
}

TEST_F(ActivitySourceTest, AGpuWithoutHardwareTraceIsRecordedTheOtherWay) {
  api_.ActivityEnableHwTrace = [](uint8_t) -> Result { return CUPTI_ERROR_NOT_SUPPORTED; };
  ActivityOptions options;
  options.hw_trace = true;
  ASSERT_TRUE(Start(options)) << why_;
  EXPECT_EQ(OutcomeOf("HW_TRACE"), CUPTI_ERROR_NOT_SUPPORTED);
  EXPECT_TRUE(fake_.enabled.contains(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL));
}

TEST_F(ActivitySourceTest, MissingOptionalFunctionsAreNotedAndDoNotMatter) {
  api_.SetThreadIdType = nullptr;
  api_.GetThreadIdType = nullptr;
  api_.ActivityGetAttribute = nullptr;
  api_.ActivitySetAttribute = nullptr;
  api_.ActivityEnableRuntimeApi = nullptr;
  api_.ActivityEnableDriverApi = nullptr;
  api_.ActivityEnableLatencyTimestamps = nullptr;
  api_.ActivityEnableHwTrace = nullptr;
  ActivityOptions options;
  options.latency_timestamps = true;
  options.hw_trace = true;
  options.device_buffers_preallocated = 8;
  ASSERT_TRUE(Start(options)) << why_;
  for (const char* name :
       {"THREAD_ID_TYPE_SYSTEM", "ATTR_ZEROED_OUT_ACTIVITY_BUFFER", "LATENCY_TIMESTAMPS",
        "HW_TRACE", "ATTR_DEVICE_BUFFER_PRE_ALLOCATE_VALUE", "RUNTIME_API_FILTER",
        "DRIVER_API_FILTER"}) {
    EXPECT_EQ(OutcomeOf(name), kNoSuchFunction) << name;
  }
  source_.Pause();
  EXPECT_TRUE(source_.Resume());
}

TEST_F(ActivitySourceTest, NothingElseIsCalledWhenTheSlotIsTaken) {
  for (const Result result : {39, 12, 2, 999}) {
    FakeCupti fresh;
    fake = &fresh;
    fresh.fail_call = 0;
    fresh.failure = result;
    ActivitySource source;
    EXPECT_FALSE(source.Start(&api_, {}, &Requested, &Completed, why_, sizeof(why_)));
    EXPECT_EQ(fresh.calls, std::vector<std::string>{"Subscribe"}) << result;
    EXPECT_NE(std::string(why_).find("cuptiSubscribe"), std::string::npos) << why_;
    EXPECT_FALSE(source.Resume());
    source.Pause();
    EXPECT_EQ(fresh.calls.size(), 1u) << "never started, so nothing to pause or resume";
  }
}

TEST_F(ActivitySourceTest, SlotTakenIsExplained) {
  fake_.fail_call = 0;
  fake_.failure = CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
  EXPECT_FALSE(Start());
  EXPECT_NE(std::string(why_).find("another profiler"), std::string::npos) << why_;
  EXPECT_NE(std::string(why_).find("MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED"), std::string::npos);
}

TEST_F(ActivitySourceTest, MissingPrivilegeForSubscribingIsNoObstacle) {
  fake_.fail_call = 0;
  fake_.failure = CUPTI_ERROR_INSUFFICIENT_PRIVILEGES;
  EXPECT_TRUE(Start()) << why_;
  EXPECT_EQ(OutcomeOf("SUBSCRIBE_PROBE"), CUPTI_ERROR_INSUFFICIENT_PRIVILEGES);
  EXPECT_FALSE(Called("Unsubscribe"));
}

TEST_F(ActivitySourceTest, MissingPrivilegeNamesBothRemedies) {
  for (const int32_t kind : {1, 2, 22, 10, 51}) {
    fake_.kind_answers[kind] = CUPTI_ERROR_INSUFFICIENT_PRIVILEGES;
  }
  EXPECT_FALSE(Start());
  const std::string why = why_;
  EXPECT_NE(why.find("CAP_SYS_ADMIN"), std::string::npos) << why;
  EXPECT_NE(why.find("NVreg_RestrictProfilingToAdminUsers=0"), std::string::npos) << why;
  EXPECT_TRUE(fake_.enabled.empty());
}

TEST_F(ActivitySourceTest, EachKindMayBeRefusedAlone) {
  for (const int32_t refused : {1, 2, 22, 10, 5, 4, 38, 8, 9, 37, 36, 17, 51}) {
    FakeCupti fresh;
    fake = &fresh;
    fresh.kind_answers[refused] = CUPTI_ERROR_NOT_SUPPORTED;
    ActivitySource source;
    EXPECT_TRUE(source.Start(&api_, {}, &Requested, &Completed, why_, sizeof(why_))) << refused;
    EXPECT_EQ(fresh.enabled.size(), 12u);
    EXPECT_EQ(fresh.enabled.count(refused), 0u);
    size_t count = 0, noted = 0;
    const Outcome* outcomes = source.outcomes(&count);
    for (size_t i = 0; i < count; ++i) {
      noted += outcomes[i].id == refused && outcomes[i].result == CUPTI_ERROR_NOT_SUPPORTED;
    }
    EXPECT_EQ(noted, 1u) << refused;
    source.Pause();
    EXPECT_TRUE(fresh.enabled.empty());
    EXPECT_EQ(
        std::count(fresh.calls.begin(), fresh.calls.end(), "Disable " + std::to_string(refused)),
        0);
  }
}

TEST_F(ActivitySourceTest, WithoutAnyGpuWorkItFailsAndLeavesCuptiAsItWas) {
  for (const int32_t kind : {1, 2, 22, 10, 51}) {
    fake_.kind_answers[kind] = CUPTI_ERROR_NOT_SUPPORTED;
  }
  ActivityOptions options;
  options.latency_timestamps = true;
  EXPECT_FALSE(Start(options));
  EXPECT_FALSE(source_.active());
  EXPECT_TRUE(fake_.enabled.empty());
  EXPECT_EQ(fake_.zeroed, 0);
  EXPECT_EQ(fake_.thread_id_type, CUPTI_ACTIVITY_THREAD_ID_TYPE_DEFAULT);
  EXPECT_FALSE(fake_.latency);
  EXPECT_NE(std::string(why_).find("CUPTI_ERROR_NOT_SUPPORTED"), std::string::npos) << why_;
}

TEST_F(ActivitySourceTest, PauseFlushesDisablesFlushesAndPutsTheAttributesBack) {
  ASSERT_TRUE(Start());
  fake_.calls.clear();
  source_.Pause();
  EXPECT_FALSE(source_.active());
  ASSERT_EQ(fake_.calls.size(), 17u);
  EXPECT_EQ(fake_.calls.front(), "FlushAll 1");
  for (size_t i = 1; i <= 13; ++i) EXPECT_EQ(fake_.calls[i].rfind("Disable ", 0), 0u);
  EXPECT_EQ(fake_.calls[14], "FlushAll 1");
  EXPECT_TRUE(fake_.enabled.empty());
  EXPECT_EQ(fake_.zeroed, 0) << "the other client's buffers are not zeroed";
  EXPECT_EQ(fake_.thread_id_type, CUPTI_ACTIVITY_THREAD_ID_TYPE_DEFAULT);
  source_.Pause();
  EXPECT_EQ(fake_.calls.size(), 17u);
}

TEST_F(ActivitySourceTest, ResumeRegistersAgainAndEnablesTheSameKindsAndFilters) {
  ActivityOptions options;
  options.graph_nodes = true;
  ASSERT_TRUE(Start(options));
  const std::set<int32_t> before = fake_.enabled;
  const std::set<uint32_t> filtered = fake_.runtime_off;
  source_.Pause();
  fake_.requested = nullptr;
  fake_.calls.clear();
  ASSERT_TRUE(source_.Resume());
  EXPECT_TRUE(source_.active());
  EXPECT_EQ(fake_.enabled, before);
  EXPECT_EQ(fake_.runtime_off, filtered);
  EXPECT_EQ(fake_.requested, &Requested);
  EXPECT_EQ(fake_.zeroed, 1);
  EXPECT_EQ(fake_.thread_id_type, CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM);
  EXPECT_FALSE(Called("Subscribe"));
  EXPECT_FALSE(source_.graph_level_given_up());
  fake_.calls.clear();
  EXPECT_TRUE(source_.Resume());
  EXPECT_TRUE(fake_.calls.empty());
}

TEST_F(ActivitySourceTest, GraphTraceIsNeverEnabledASecondTime) {
  ASSERT_TRUE(Start());
  EXPECT_FALSE(source_.graph_level_given_up());
  std::set<int32_t> expected = fake_.enabled;
  ASSERT_EQ(expected.erase(CUPTI_ACTIVITY_KIND_GRAPH_TRACE), 1u);
  for (int round = 0; round < 2; ++round) {
    source_.Pause();
    EXPECT_TRUE(source_.graph_level_given_up());
    ASSERT_TRUE(source_.Resume());
    EXPECT_EQ(fake_.enabled, expected);
  }
}

TEST_F(ActivitySourceTest, RefusedResumeEnablesNothingAndCanBeTriedAgain) {
  ASSERT_TRUE(Start());
  source_.Pause();
  fake_.calls.clear();
  fake_.fail_call = 4;  // after the attributes: RegisterCallbacks
  fake_.failure = CUPTI_ERROR_UNKNOWN;
  EXPECT_FALSE(source_.Resume());
  EXPECT_EQ(fake_.calls[4], "RegisterCallbacks");
  EXPECT_FALSE(source_.active());
  EXPECT_TRUE(fake_.enabled.empty());
  EXPECT_EQ(fake_.zeroed, 0);
  fake_.fail_call = -1;
  EXPECT_TRUE(source_.Resume());
}

TEST_F(ActivitySourceTest, DroppedRecordsAreTakenOnceAndRefusalsAreSeen) {
  EXPECT_EQ(source_.TakeDropped(), 0u) << "before Start";
  EXPECT_EQ(source_.Flush(false), kNoSuchFunction);
  ASSERT_TRUE(Start());
  fake_.dropped = 17;
  EXPECT_EQ(source_.TakeDropped(), 17u);
  EXPECT_EQ(source_.TakeDropped(), 0u);
  fake_.dropped = 5;
  fake_.fail_call = static_cast<int>(fake_.calls.size());
  fake_.failure = CUPTI_ERROR_INVALID_CONTEXT;
  EXPECT_EQ(source_.TakeDropped(), 0u);
  EXPECT_EQ(source_.dropped_result(), CUPTI_ERROR_INVALID_CONTEXT);
}

TEST_F(ActivitySourceTest, FlushPassesTheForcedFlag) {
  ASSERT_TRUE(Start());
  EXPECT_EQ(source_.Flush(false), CUPTI_SUCCESS);
  EXPECT_TRUE(Called("FlushAll 0"));
  EXPECT_EQ(source_.Flush(true), CUPTI_SUCCESS);
  EXPECT_TRUE(Called("FlushAll 1"));
}

// Every call of Start fails in turn with every error. Either it carries on without that piece, or
// nothing is left behind; and after a subscribe that leaves the slot in doubt nothing is called.
TEST_F(ActivitySourceTest, EveryCallMayFailWithEveryError) {
  ActivityOptions options;
  options.latency_timestamps = true;
  options.device_buffers_preallocated = 4;
  ASSERT_TRUE(Start(options));
  const std::vector<std::string> sequence = fake_.calls;
  ASSERT_EQ(sequence[0], "Subscribe");
  for (size_t k = 0; k < sequence.size(); ++k) {
    for (const Result error : {1, 2, 7, 15, 35, 36, 38, 39, 999}) {
      FakeCupti fresh;
      fake = &fresh;
      fresh.fail_call = static_cast<int>(k);
      fresh.failure = error;
      ActivitySource source;
      const bool started = source.Start(&api_, options, &Requested, &Completed, why_, sizeof(why_));
      const bool subscribe_failed = k == 0 && error != 35;
      const bool register_failed = sequence[k] == "RegisterCallbacks";
      EXPECT_EQ(started, !subscribe_failed && !register_failed) << sequence[k] << " " << error;
      EXPECT_EQ(started, why_[0] == '\0');
      EXPECT_EQ(started, source.active());
      if (subscribe_failed) {
        EXPECT_EQ(fresh.calls.size(), 1u);
      }
      if (!started) {
        EXPECT_TRUE(fresh.enabled.empty());
        EXPECT_EQ(fresh.zeroed, 0);
        EXPECT_EQ(fresh.thread_id_type, CUPTI_ACTIVITY_THREAD_ID_TYPE_DEFAULT);
        EXPECT_FALSE(fresh.latency);
        EXPECT_FALSE(source.Resume());
      }
      source.Pause();
      EXPECT_TRUE(fresh.enabled.empty());
    }
  }
}

TEST_F(ActivitySourceTest, AShortWhyIsCutAndNoWhyIsAllowed) {
  fake_.fail_call = 0;
  fake_.failure = CUPTI_ERROR_UNKNOWN;
  char tiny[8];
  EXPECT_FALSE(source_.Start(&api_, {}, &Requested, &Completed, tiny, sizeof(tiny)));
  EXPECT_EQ(strnlen(tiny, sizeof(tiny)), sizeof(tiny) - 1);
  fake_.fail_call = 1;
  EXPECT_FALSE(source_.Start(&api_, {}, &Requested, &Completed, nullptr, 0));
}

}  // namespace
}  // namespace gpuprobe::cupti
