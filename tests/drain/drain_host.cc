// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// drain_host SCENARIO: a process with the session and the drain thread of libgpuprobe.so, as they
// are, on FakeCupti. A session has process lifetime, so each scenario is a process; drain_test runs
// them and reads the traces. What the trace must hold is printed at the end, as "name value" lines.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <fstream>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "cupti/cupti_api.h"
#include "inject/clients/foreign_client.h"
#include "inject/session.h"
#include "tests/drain/fake_cupti.h"

namespace gpuprobe::inject {

// doors.cc is not linked: no constructor, no environment to prepare.
const RunFacts& TheRun() {
  static const RunFacts* const facts = [] {
    auto* run = new RunFacts{};
    std::snprintf(run->directory, sizeof run->directory, "%s", std::getenv("GPUPROBE_OUT"));
    run->preloaded = true;
    return run;
  }();
  return *facts;
}

// Never called where the library was preloaded.
int InterceptLoadedClients() { std::abort(); }

}  // namespace gpuprobe::inject

namespace gpuprobe::drain_test {
namespace {

using inject::Phase;
using inject::TakingCall;
using inject::TheSession;

constexpr size_t kProducers = 4;
constexpr uint32_t kSteadyLaunches = 10'000;
constexpr int32_t kKernelKind = 10;  // CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL
constexpr char kOtherName[] = "libother_profiler.so";

// Launches of a slot that were recorded by somebody; numbered from 1.
std::atomic<uint32_t> g_taken[kProducers];
std::atomic<bool> g_stop{false};
std::atomic<bool> g_slow_atexit{false};

void Nap() { std::this_thread::sleep_for(std::chrono::milliseconds(1)); }

// Waits for what must come; a scenario that hangs fails instead.
template <typename Condition>
void WaitUntil(const char* what, Condition condition) {
  for (int i = 0; i < 60'000; ++i) {
    if (condition()) return;
    Nap();
  }
  std::fprintf(stderr, "drain_host: never came: %s\n", what);
  std::_Exit(99);
}

bool LaunchOnce(size_t slot) {
  const uint32_t number = g_taken[slot].load() + 1;
  if (!FakeCupti::Get().Launch(slot, static_cast<uint32_t>(slot << 24) | number)) return false;
  g_taken[slot].store(number);
  return true;
}

// Until `launches` are taken.
void Produce(size_t slot, uint32_t launches) {
  while (g_taken[slot].load() < launches) {
    if (!LaunchOnce(slot)) std::this_thread::yield();
  }
}

// Until g_stop, with pauses: what runs for as long as something else takes must not pile up.
void ProduceOn(size_t slot) {
  while (!g_stop.load()) {
    for (int i = 0; i < 20; ++i) LaunchOnce(slot);
    Nap();
  }
}

std::vector<std::thread> StartProducers(uint32_t launches) {
  std::vector<std::thread> threads;
  for (size_t slot = 0; slot < kProducers; ++slot) threads.emplace_back(Produce, slot, launches);
  return threads;
}

std::vector<std::thread> StartEndlessProducers() {
  std::vector<std::thread> threads;
  for (size_t slot = 0; slot < kProducers; ++slot) threads.emplace_back(ProduceOn, slot);
  return threads;
}

void Join(std::vector<std::thread>* threads) {
  for (std::thread& thread : *threads) thread.join();
}

uint32_t LeastTaken() {
  uint32_t least = UINT32_MAX;
  for (const auto& taken : g_taken) least = std::min(least, taken.load());
  return least;
}

// As often as somebody listens.
void WaitForLaunches(uint32_t more) {
  const uint32_t wanted = LeastTaken() + more;
  WaitUntil("launches", [wanted] { return LeastTaken() >= wanted; });
}

void PrintTaken() {
  for (size_t slot = 0; slot < kProducers; ++slot) {
    std::printf("taken%zu %u\n", slot, g_taken[slot].load());
  }
}

// Runs after the session's own exit handler, which was registered later.
void PrintCounters() {
  FakeCupti& cupti = FakeCupti::Get();
  std::printf("refused %llu\n", static_cast<unsigned long long>(cupti.refused_requests()));
  std::printf("dropped %llu\n", static_cast<unsigned long long>(cupti.dropped_records()));
  std::printf("registrations %u\n", cupti.registrations());
  std::printf("kinds_enabled %u\n", cupti.kinds_enabled());
  std::printf("forbidden_calls %u\n", cupti.forbidden_calls());
  std::printf("finished %d\n", TheSession().phase() == Phase::kFinished);
  std::printf("off %d\n", TheSession().phase() == Phase::kOff);
  std::fflush(stdout);
}

// ---- Another CUPTI client ----

constexpr size_t kOtherBufferBytes = 8192;
constexpr size_t kPairBytes = 40 + 216;

struct OtherClient {
  std::mutex mutex;
  std::set<uint8_t*> inside;           // its buffers that CUPTI has
  std::vector<uint32_t> correlations;  // of the kernels that it was given
  uint32_t foreign_buffers = 0;        // that were given to it and are not its own
};

OtherClient& Other() {
  static OtherClient* const other = new OtherClient;
  return *other;
}

void OtherRequested(uint8_t** buffer, size_t* size, size_t* max_records) {
  *buffer = new uint8_t[kOtherBufferBytes];
  *size = kOtherBufferBytes;
  *max_records = 0;
  const std::lock_guard<std::mutex> lock(Other().mutex);
  Other().inside.insert(*buffer);
}

void OtherCompleted(void*, uint32_t, uint8_t* buffer, size_t, size_t valid_bytes) {
  const std::lock_guard<std::mutex> lock(Other().mutex);
  if (Other().inside.erase(buffer) == 0) {
    ++Other().foreign_buffers;
    return;
  }
  constexpr size_t kCallCorrelation = 32;
  for (size_t at = 0; at + kPairBytes <= valid_bytes; at += kPairBytes) {
    uint32_t correlation;
    std::memcpy(&correlation, buffer + at + kCallCorrelation, sizeof correlation);
    Other().correlations.push_back(correlation);
  }
  delete[] buffer;
}

// A clock that is not CUPTI's: three ticks a nanosecond since boot.
uint64_t Ticks() {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return 3 *
         (static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec));
}

// What foreign_client.cc does around the calls of a profiler that records for a while.
void ProfileForAWhile(TakingCall first_call, cupti::TimestampFn timestamp) {
  FakeCupti& cupti = FakeCupti::Get();
  const cupti::CuptiApi api = cupti.Api();
  TheSession().NoteForeignCall(0);
  TheSession().StepAside(kOtherName, first_call);
  cupti.OtherClientHasIt(true);
  if (first_call == TakingCall::kRegisterTimestampCallback) {
    cupti.SetTimestampCallback(timestamp);
    TheSession().ForeignClock(timestamp);
  }
  api.ActivityRegisterCallbacks(&OtherRequested, &OtherCompleted);
  api.ActivityEnable(kKernelKind);
  TheSession().NoteForeignCall(1);
  WaitForLaunches(50);
  api.ActivityDisable(kKernelKind);
  TheSession().NoteForeignCall(0);
  api.ActivityFlushAll(1);
  cupti.OtherClientHasIt(false);
  TheSession().ComeBack();
}

void WriteOthersCorrelations() {
  const std::lock_guard<std::mutex> lock(Other().mutex);
  std::ofstream out(std::getenv("GPUPROBE_TEST_OTHER"), std::ios::binary);
  for (const uint32_t correlation : Other().correlations) out << correlation << '\n';
  std::printf("foreign_buffers %u\n", Other().foreign_buffers);
}

// ---- Scenarios; each returns the exit status ----

// Two threads come through the doors at once; four launch.
int Steady() {
  std::thread second([] { TheSession().Start("second"); });
  TheSession().Start("first");
  second.join();
  WaitUntil("the start", [] { return TheSession().phase() == Phase::kActive; });
  auto producers = StartProducers(kSteadyLaunches);
  Join(&producers);
  PrintTaken();
  return 0;
}

// The drain thread is held in a flush until every producer was refused a buffer.
int PoolExhausted() {
  FakeCupti& cupti = FakeCupti::Get();
  cupti.HoldFlushes(true);
  TheSession().Start("test");
  WaitUntil("a flush", [&cupti] { return cupti.held_flushes() == 1; });
  std::atomic<uint32_t> refused{0};
  std::vector<std::thread> producers;
  for (size_t slot = 0; slot < kProducers; ++slot) {
    producers.emplace_back([slot, &cupti, &refused] {
      while (LaunchOnce(slot)) {
      }
      if (refused.fetch_add(1) + 1 == kProducers) cupti.HoldFlushes(false);
      Produce(slot, g_taken[slot].load() + 500);
    });
  }
  Join(&producers);
  PrintTaken();
  return 0;
}

int TakenByAnotherClient() {
  constexpr int kWindows = 20;
  TheSession().Start("test");
  auto producers = StartEndlessProducers();
  std::thread client([] {
    FakeCupti::BecomeOtherClient();
    for (int i = 0; i < kWindows; ++i) {
      // The first one takes it before a frame was written. Later ones change the clock, and the
      // last changes it back.
      const bool clock = i == 5 || i == kWindows - 1;
      ProfileForAWhile(
          clock ? TakingCall::kRegisterTimestampCallback : TakingCall::kRegisterCallbacks,
          i == 5 ? &Ticks : nullptr);
      WaitForLaunches(200);
    }
  });
  client.join();
  g_stop.store(true);
  Join(&producers);
  std::printf("windows %d\n", kWindows);
  PrintTaken();
  WriteOthersCorrelations();
  return 0;
}

// The other client never comes back: it ends CUPTI.
int Finalized() {
  TheSession().Start("test");
  auto producers = StartProducers(1000);
  Join(&producers);
  std::thread client([] {
    FakeCupti::BecomeOtherClient();
    TheSession().GiveUpCupti(kOtherName);
    FakeCupti::Get().Finalize();
    TheSession().ComeBack();
  });
  client.join();
  PrintTaken();
  return 0;
}

int ExitsWhileThreadsLaunch() {
  TheSession().Start("test");
  auto producers = StartEndlessProducers();
  for (std::thread& producer : producers) producer.detach();
  WaitForLaunches(2000);
  PrintTaken();
  std::exit(7);
}

int ExitsDuringAFlushThatHangs() {
  FakeCupti& cupti = FakeCupti::Get();
  TheSession().Start("test");
  auto producers = StartProducers(1000);
  Join(&producers);
  // The frame of a flush is written before the next flush begins.
  const uint32_t flushes = cupti.flushes();
  WaitUntil("two flushes", [&cupti, flushes] { return cupti.flushes() >= flushes + 2; });
  cupti.HoldFlushes(true);
  WaitUntil("a flush", [&cupti] { return cupti.held_flushes() == 1; });
  PrintTaken();
  return 7;
}

// A host whose gpuprobe is off: everything still may be called, and nothing happens.
int GoOnWithoutGpuprobe() {
  TheSession().Start("again");
  TheSession().StepAside(kOtherName, TakingCall::kEnable);
  TheSession().ComeBack();
  TheSession().GiveUpCupti(kOtherName);
  for (size_t slot = 0; slot < kProducers; ++slot) LaunchOnce(slot);
  PrintTaken();
  return 5;
}

int Missing() {
  FakeCupti::Get().SetMissing();
  TheSession().Start("test");
  return GoOnWithoutGpuprobe();
}

int UnknownVersion() {
  FakeCupti::Get().SetVersion(5);
  TheSession().Start("test");
  return GoOnWithoutGpuprobe();
}

int SlotTaken() {
  FakeCupti::Get().SetSubscribeResult(39);  // CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED
  TheSession().Start("test");
  return GoOnWithoutGpuprobe();
}

int SwitchedOff() {
  TheSession().Start("test");
  return GoOnWithoutGpuprobe();
}

// The first frame cannot be written.
int Unwritable() {
  TheSession().Start("test");
  WaitUntil("off", [] { return TheSession().phase() == Phase::kOff; });
  return GoOnWithoutGpuprobe();
}

// ... and that is found out while Start is still at work.
int UnwritableDuringStart() {
  g_slow_atexit.store(true);
  TheSession().Start("test");
  g_slow_atexit.store(false);
  return GoOnWithoutGpuprobe();
}

int Run(const std::string& scenario) {
  const std::map<std::string, int (*)()> scenarios = {
      {"steady", &Steady},
      {"pool_exhausted", &PoolExhausted},
      {"other_client", &TakenByAnotherClient},
      {"finalized", &Finalized},
      {"exit_while_launching", &ExitsWhileThreadsLaunch},
      {"exit_in_hanging_flush", &ExitsDuringAFlushThatHangs},
      {"missing", &Missing},
      {"unknown_version", &UnknownVersion},
      {"slot_taken", &SlotTaken},
      {"switched_off", &SwitchedOff},
      {"unwritable", &Unwritable},
      {"unwritable_during_start", &UnwritableDuringStart},
  };
  const auto found = scenarios.find(scenario);
  if (found == scenarios.end()) {
    std::fprintf(stderr, "drain_host: no scenario '%s'\n", scenario.c_str());
    return 98;
  }
  return found->second();
}

}  // namespace
}  // namespace gpuprobe::drain_test

// The build wraps atexit (-Wl,--wrap): the last thing that Start calls before it is through.
extern "C" int __real_atexit(void (*handler)());
extern "C" int __wrap_atexit(void (*handler)()) {
  using namespace gpuprobe;  // NOLINT: a name for the linker cannot be in the namespace
  if (drain_test::g_slow_atexit.load()) {
    drain_test::WaitUntil("off",
                          [] { return inject::TheSession().phase() == inject::Phase::kOff; });
  }
  return __real_atexit(handler);
}

int main(int argc, char** argv) {
  std::atexit(&gpuprobe::drain_test::PrintCounters);
  return gpuprobe::drain_test::Run(argc > 1 ? argv[1] : "");
}
