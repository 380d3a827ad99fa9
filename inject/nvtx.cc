// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "inject/nvtx.h"

#include <dlfcn.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>

#include "inject/config.h"
#include "inject/process/environment.h"
#include "inject/session.h"

namespace gpuprobe::inject {
namespace {

// Modules with NVTX in one process before CUDA is initialised: frameworks have a handful.
constexpr size_t kMostWaiting = 64;

struct Waiting {
  std::atomic<void*> get_export_table{nullptr};
  std::atomic<bool> taken{false};
};
constinit Waiting g_waiting[kMostWaiting];
constinit std::atomic<uint32_t> g_refused{0};

// Keeps the module that an address lies in from being unloaded, for good: its table is called long
// after its own call, when another module may lie at its address. False: it cannot be kept. Not
// needed for code in no module (made at run time), nor for the program itself, which is never
// unloaded and which dlopen does not know by its name.
bool Keep(void* address) {
  Dl_info module, program;
  if (dladdr(address, &module) == 0 || module.dli_fname == nullptr) return true;
  if (dlopen(module.dli_fname, RTLD_NOLOAD | RTLD_LAZY) != nullptr) return true;
  const void* headers = reinterpret_cast<const void*>(getauxval(AT_PHDR));
  return dladdr(headers, &program) != 0 && program.dli_fbase == module.dli_fbase;
}

// glibc's own stat has a version that is newer than 2.28.
bool FileOf(const char* path, struct stat* file) { return syscall(SYS_stat, path, file) == 0; }

bool Wait(void* get_export_table) {
  if (!Keep(get_export_table)) {
    g_refused.fetch_add(1, std::memory_order_relaxed);  // a count
    return false;
  }
  for (Waiting& place : g_waiting) {
    // relaxed: the flag only reserves the place; the table is published below.
    if (place.taken.exchange(true, std::memory_order_relaxed)) continue;
    // seq_cst, as the session's phase is looked at next: either AttachWaitingNvtx finds the table,
    // or its owner finds the session active.
    place.get_export_table.store(get_export_table, std::memory_order_seq_cst);
    return true;
  }
  g_refused.fetch_add(1, std::memory_order_relaxed);  // a count
  return false;
}

// On whichever thread loads a module: the settings are too large for a small stack.
bool Wanted() {
  struct Settings {
    Config config;
    Warnings warnings;
  };
  void* memory =
      mmap(nullptr, sizeof(Settings), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return false;
  auto* settings = new (memory) Settings;
  settings->warnings.count = 0;
  LoadConfig(&settings->config, &settings->warnings);
  const bool wanted = settings->config.nvtx && settings->config.capture;
  munmap(memory, sizeof(Settings));
  return wanted;
}

}  // namespace

uint32_t NvtxModulesRefused() { return g_refused.load(std::memory_order_relaxed); }

const char* WhyNvtxPassesUsBy() {
  const char* path = GetEnv("NVTX_INJECTION64_PATH");
  if (path == nullptr) return "NVTX_INJECTION64_PATH is not set; the preload sets it";
  Dl_info own;
  struct stat theirs_file, own_file;
  const bool same = FileOf(path, &theirs_file) &&
                    dladdr(reinterpret_cast<void*>(&AttachNvtx), &own) != 0 &&
                    FileOf(own.dli_fname, &own_file) && theirs_file.st_ino == own_file.st_ino &&
                    theirs_file.st_dev == own_file.st_dev;
  return same ? nullptr : "NVTX_INJECTION64_PATH names another tool";
}

int AttachNvtx(void* get_export_table) {
  if (!Wanted()) return 0;
  const uint32_t only_pid = TheRun().only_pid;
  const bool ours = only_pid == 0 || only_pid == static_cast<uint32_t>(getpid());
  if (!ours) return 0;
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
    // acquire: partner is Wait's store. The exchange gives each table to one.
    void* table = place.get_export_table.exchange(nullptr, std::memory_order_acquire);
    if (table != nullptr) api.InitializeInjectionNvtx2(table);
  }
}

}  // namespace gpuprobe::inject
