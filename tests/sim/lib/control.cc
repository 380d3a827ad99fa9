// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// The parts of libcuda that are not the driver API: the way of an API call through clients, script
// and truth; the control interface (gpusim.h); what the sibling libraries need (seam.h); fork and
// exit.
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>

#include "tests/sim/gpusim.h"
#include "tests/sim/lib/clock.h"
#include "tests/sim/lib/engine.h"
#include "tests/sim/lib/faults.h"
#include "tests/sim/lib/seam.h"
#include "tests/sim/lib/settings.h"
#include "tests/sim/lib/truth.h"

namespace gpuprobe::sim {
namespace {

std::atomic<const Hooks*> g_clients[kMaxClients];
std::atomic<uint32_t> g_next_correlation{1};
std::atomic<bool> g_dead_after_fork{false};  // CUDA does not survive fork: every call then fails

thread_local ApiCall* t_call = nullptr;
thread_local int t_callback_depth = 0;
thread_local const char* t_callback_name = "";

void AfterForkInChild() {
  if (EngineState::Get().initialised()) g_dead_after_fork = true;
}

void EarlyExitHandler() {
  if (g_dead_after_fork) return;
  ForEachClient([](const Hooks& hooks) {
    if (hooks.at_exit != nullptr) hooks.at_exit();
  });
}

// libcuda is loaded before a preloaded library's constructor when the program links it: this
// handler then is older than any handler of a CUPTI client and runs after it.
__attribute__((constructor)) void OnLoad() {
  pthread_atfork(nullptr, nullptr, AfterForkInChild);
  atexit(EarlyExitHandler);
  for (const std::string& error : Faults::Get().errors()) Truth::Get().Violation(error);
}

__attribute__((destructor)) void OnUnload() { Truth::Get().WriteAtExit(); }

}  // namespace

const ApiCall* CurrentCall() { return t_call; }

const Hooks* ClientHooks(int index) {
  return g_clients[index].load(std::memory_order_acquire);  // with the release in attach
}

}  // namespace gpuprobe::sim

using gpuprobe::sim::ApiCall;
using gpuprobe::sim::Clock;
using gpuprobe::sim::Domain;
using gpuprobe::sim::EngineState;
using gpuprobe::sim::Hooks;
using gpuprobe::sim::Settings;
using gpuprobe::sim::Truth;
namespace sim = gpuprobe::sim;

// ---- seam ----

GPUSIM_EXPORT void gpusim_internal_attach(const Hooks* hooks) {
  for (auto& slot : sim::g_clients) {
    const Hooks* expected = nullptr;
    if (slot.compare_exchange_strong(expected, hooks,
                                     std::memory_order_release,  // with ClientHooks
                                     std::memory_order_relaxed)) {
      return;
    }
  }
  Truth::Get().Violation("more than four copies of libcupti in one process");
}

GPUSIM_EXPORT int gpusim_internal_api_enter(ApiCall* call, int works_before_init) {
  call->outer = sim::t_call;
  sim::t_call = call;
  const bool below_runtime = call->outer != nullptr && call->outer->domain == Domain::kRuntime &&
                             call->domain == Domain::kDriver;
  call->correlation = below_runtime
                          ? call->outer->correlation
                          : sim::g_next_correlation.fetch_add(1, std::memory_order_relaxed);
  if (sim::Context* context = EngineState::current()) {
    call->context = context;
    call->context_id = context->id;
  }
  call->start_ns = Clock::Get().Now();
  if (sim::g_dead_after_fork) return CUDA_ERROR_NOT_INITIALIZED;
  if (sim::t_callback_depth > 0) {
    Truth::Get().Violation(std::string(call->name) + " called from inside " + sim::t_callback_name);
  }
  sim::ForEachClient([call](const Hooks& hooks) { hooks.api_enter(call); });
  Clock::Get().Spend(Settings::Get().CostNs(call->name));
  if (!works_before_init && !EngineState::Get().initialised()) return CUDA_ERROR_NOT_INITIALIZED;
  if (sim::InHostFunction()) return CUDA_ERROR_NOT_PERMITTED;
  return sim::Faults::Get().OnCall(call->name, -1);
}

GPUSIM_EXPORT void gpusim_internal_api_exit(ApiCall* call) {
  call->end_ns = Clock::Get().Now();
  sim::t_call = call->outer;
  if (sim::g_dead_after_fork) return;
  sim::ForEachClient([call](const Hooks& hooks) { hooks.api_exit(call); });
  Truth::Get().Api(*call, sim::ThreadId());
}

GPUSIM_EXPORT void gpusim_internal_callback(int delta, const char* what) {
  sim::t_callback_depth += delta;
  if (delta > 0) sim::t_callback_name = what;
}

GPUSIM_EXPORT void gpusim_internal_violation(const char* text) { Truth::Get().Violation(text); }

GPUSIM_EXPORT void gpusim_internal_cupti_call(const char* name, int64_t argument, int result) {
  Truth::Get().CuptiCall(name, argument, result);
}

GPUSIM_EXPORT void gpusim_internal_tally(uint32_t tally, uint32_t record_kind, uint64_t n) {
  Truth::Get().Records(static_cast<sim::Tally>(tally), record_kind, n);
}

GPUSIM_EXPORT int gpusim_internal_devices(sim::DeviceInfo* out, int capacity) {
  if (!EngineState::Get().initialised()) return 0;
  sim::DeviceModel& model = EngineState::Get().model();
  const int n = model.device_count() < capacity ? model.device_count() : capacity;
  for (int i = 0; i < n; ++i) {
    const sim::Device* device = model.device(i);
    out[i].device = device->index;
    std::copy(device->uuid.begin(), device->uuid.end(), out[i].uuid);
    out[i].name = device->name.c_str();
    out[i].memory_bytes = static_cast<uint64_t>(Settings::Get()[sim::Setting::kDeviceMemoryBytes]);
  }
  return n;
}

GPUSIM_EXPORT int gpusim_internal_contexts(sim::ContextInfo* out, int capacity) {
  if (!EngineState::Get().initialised()) return 0;
  int n = 0;
  for (sim::Context* c : EngineState::Get().model().Contexts()) {
    if (n == capacity) break;
    out[n++] = {c->id, static_cast<uint32_t>(c->device->index), c->null_stream.id, c};
  }
  return n;
}

GPUSIM_EXPORT int gpusim_internal_initialised() { return EngineState::Get().initialised(); }

// ---- gpusim.h ----

GPUSIM_EXPORT int64_t gpusim_now() { return Clock::Get().Now(); }
GPUSIM_EXPORT int gpusim_is_virtual() { return Clock::Get().is_virtual(); }
GPUSIM_EXPORT void gpusim_advance(int64_t ns) { Clock::Get().Spend(ns); }

GPUSIM_EXPORT int gpusim_set(const char* key, int64_t value) {
  return Settings::Get().Set(key, value) ? 0 : -1;
}
GPUSIM_EXPORT int64_t gpusim_get(const char* key) { return Settings::Get().Find(key); }
GPUSIM_EXPORT void gpusim_define_kernel(const char* name, int64_t duration_ns) {
  Settings::Get().DefineKernel(name, duration_ns);
}
GPUSIM_EXPORT void gpusim_next_duration(int64_t duration_ns) {
  EngineState::ScriptNextDuration(duration_ns);
}
GPUSIM_EXPORT void gpusim_set_cost(const char* api_name, int64_t ns) {
  Settings::Get().SetCost(api_name, ns);
}

GPUSIM_EXPORT const void* gpusim_kernel(const char* name) {
  return EngineState::Get().InternName(name);
}

GPUSIM_EXPORT const char* gpusim_internal_kernel_name(const void* func) {
  return EngineState::Get().NameOfKernel(func);
}

GPUSIM_EXPORT void gpusim_overhead(uint32_t kind, int64_t ns) {
  const int64_t start = Clock::Get().Now();
  Clock::Get().Spend(ns);
  const int64_t end = Clock::Get().Now();
  sim::ForEachClient([=](const Hooks& hooks) { hooks.overhead(kind, start, end); });
}

GPUSIM_EXPORT int gpusim_write_truth() { return Truth::Get().Write(nullptr); }
GPUSIM_EXPORT int gpusim_write_truth_to(const char* path) { return Truth::Get().Write(path); }
GPUSIM_EXPORT int64_t gpusim_count(const char* what) { return Truth::Get().Count(what); }
GPUSIM_EXPORT int64_t gpusim_violations() { return Truth::Get().violations(); }
GPUSIM_EXPORT const char* gpusim_violation(int64_t i) { return Truth::Get().violation(i); }

GPUSIM_EXPORT int gpusim_replay() {
  const Hooks* hooks = sim::ClientHooks(0);
  return hooks == nullptr ? -1 : hooks->replay();
}
