// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "inject/nvtx.h"

#include <dlfcn.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "inject/config.h"
#include "inject/session.h"

namespace gpuprobe::inject {
namespace {

// Modules with NVTX in one process before CUDA is initialised: frameworks have a handful.
constexpr size_t kMostWaiting = 64;

struct Waiting {
  std::atomic<void*> get_export_table{nullptr};
  void* module = nullptr;  // written before the table is published
  std::atomic<bool> taken{false};
};
constinit Waiting g_waiting[kMostWaiting];

// Base address of the object that an address lies in; nullptr: in none.
void* ModuleOf(void* address) {
  Dl_info info;
  return dladdr(address, &info) != 0 ? info.dli_fbase : nullptr;
}

bool Wait(void* get_export_table) {
  for (Waiting& place : g_waiting) {
    // relaxed: the flag only reserves the place; the table is published below.
    if (place.taken.exchange(true, std::memory_order_relaxed)) continue;
    place.module = ModuleOf(get_export_table);
    // seq_cst, as the session's phase is looked at next: either AttachWaitingNvtx finds the table,
    // or its owner finds the session active.
    place.get_export_table.store(get_export_table, std::memory_order_seq_cst);
    return true;
  }
  return false;
}

}  // namespace

int AttachNvtx(void* get_export_table) {
  Config config;
  Warnings warnings = {};
  LoadConfig(&config, &warnings);
  const uint32_t only_pid = TheRun().only_pid;
  const bool ours = only_pid == 0 || only_pid == static_cast<uint32_t>(getpid());
  if (!config.nvtx || !config.capture || !ours) return 0;
  const Session& session = TheSession();
  switch (session.phase()) {
    case Phase::kIdle:
    case Phase::kStarting:
      if (!Wait(get_export_table)) return 0;
      std::atomic_thread_fence(std::memory_order_seq_cst);  // partner: AttachWaitingNvtx
      if (session.phase() == Phase::kActive) AttachWaitingNvtx(session.api());
      return 1;
    case Phase::kActive:
      // Not in a forked child: CUPTI cannot be used there.
      if (!session.Mine() || session.api().InitializeInjectionNvtx2 == nullptr) return 0;
      return session.api().InitializeInjectionNvtx2(get_export_table);
    case Phase::kOff:
    case Phase::kFinished:
      return 0;
  }
  return 0;
}

void AttachWaitingNvtx(const cupti::CuptiApi& api) {
  if (api.InitializeInjectionNvtx2 == nullptr) return;
  std::atomic_thread_fence(std::memory_order_seq_cst);  // partner: AttachNvtx
  for (Waiting& place : g_waiting) {
    // acquire: partner is Wait's store, the module with it. The exchange gives each table to one.
    void* table = place.get_export_table.exchange(nullptr, std::memory_order_acquire);
    if (table != nullptr && ModuleOf(table) == place.module) api.InitializeInjectionNvtx2(table);
  }
}

}  // namespace gpuprobe::inject
