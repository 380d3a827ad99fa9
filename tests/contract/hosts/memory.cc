// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Counts what the library takes of the host's memory: this program's malloc and mmap stand in front
// of libc's for every library of the process.
//   contract_memory THREADS LAUNCHES [WAVES [PAUSE_MS]]
// Every thread launches LAUNCHES kernels on a stream of its own, with a pause after each, and stays
// until all are done.
// Before them come WAVES times as many threads that launch as much on one stream and end at once.
// Prints
//   mallocs_by_library     calls whose caller is in libgpuprobe.so
//   mallocs_on_its_thread  calls on its thread through libc (fopen, ...)
//   mallocs_by_others      the rest: shows that counting works
//   mapped, resident       bytes that libgpuprobe.so has mapped, and of those the ones in memory
//   now process_resident       of the whole process
#include <dirent.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <barrier>
#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include "tests/contract/hosts/cuda_host.h"

extern "C" {
void* __libc_malloc(size_t);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void __libc_free(void*);
void* __libc_memalign(size_t, size_t);
}

namespace {

struct Range {
  std::atomic<uintptr_t> begin{0}, end{0};
  bool Holds(const void* address) const {
    const uintptr_t a = reinterpret_cast<uintptr_t>(address);
    return a >= begin && a < end;
  }
};

struct Mapping {
  void* address;
  size_t bytes;
};

constexpr size_t kMostMappings = 256;
// Constant-initialised: used before any constructor has run.
constinit Range g_library, g_libc;
constinit std::atomic<int64_t> g_by_library{0}, g_on_thread{0}, g_by_others{0};
constinit std::atomic<long> g_library_thread{0};
constinit std::atomic<bool> g_counting{false};
constinit std::atomic<size_t> g_mapping_count{0};
constinit Mapping g_mappings[kMostMappings] = {};

void Count(const void* caller) {
  if (!g_counting.load(std::memory_order_relaxed)) return;
  if (g_library.Holds(caller)) {
    ++g_by_library;
  } else if (syscall(SYS_gettid) == g_library_thread && g_libc.Holds(caller)) {
    ++g_on_thread;
  } else {
    ++g_by_others;
  }
}

int NoteObject(dl_phdr_info* info, size_t, void*) {
  Range* range = strstr(info->dlpi_name, "/libgpuprobe.so") != nullptr ? &g_library
                 : strstr(info->dlpi_name, "/libc.so.6") != nullptr    ? &g_libc
                                                                       : nullptr;
  if (range == nullptr) return 0;
  uintptr_t end = 0;
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    const ElfW(Phdr)& p = info->dlpi_phdr[i];
    if (p.p_type == PT_LOAD && p.p_vaddr + p.p_memsz > end) end = p.p_vaddr + p.p_memsz;
  }
  range->begin = info->dlpi_addr;
  range->end = info->dlpi_addr + end;
  return 0;
}

void FindLibraryThread() {
  DIR* tasks = opendir("/proc/self/task");
  while (const dirent* entry = readdir(tasks)) {
    char path[300], name[32] = "";
    snprintf(path, sizeof path, "/proc/self/task/%s/comm", entry->d_name);
    FILE* file = fopen(path, "r");
    if (file == nullptr) continue;
    if (fgets(name, sizeof name, file) != nullptr && strcmp(name, "gpuprobe\n") == 0) {
      g_library_thread = atol(entry->d_name);
    }
    fclose(file);
  }
  closedir(tasks);
}

size_t Resident(const Mapping& mapping) {
  const size_t page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  const size_t pages = (mapping.bytes + page - 1) / page;
  std::vector<unsigned char> there(pages);
  if (mincore(mapping.address, mapping.bytes, there.data()) != 0) return 0;
  size_t count = 0;
  for (unsigned char p : there) count += p & 1;
  return count * page;
}

size_t ProcessResident() {
  size_t total = 0, resident = 0;
  FILE* file = fopen("/proc/self/statm", "r");
  if (file == nullptr) return 0;
  const int read = fscanf(file, "%zu %zu", &total, &resident);
  fclose(file);
  return read == 2 ? resident * static_cast<size_t>(sysconf(_SC_PAGESIZE)) : 0;
}

}  // namespace

extern "C" {

void* malloc(size_t size) {
  Count(__builtin_return_address(0));
  return __libc_malloc(size);
}
void* calloc(size_t count, size_t size) {
  Count(__builtin_return_address(0));
  return __libc_calloc(count, size);
}
void* realloc(void* memory, size_t size) {
  Count(__builtin_return_address(0));
  return __libc_realloc(memory, size);
}
void free(void* memory) { __libc_free(memory); }
int posix_memalign(void** memory, size_t alignment, size_t size) {
  Count(__builtin_return_address(0));
  *memory = __libc_memalign(alignment, size);
  return *memory == nullptr ? ENOMEM : 0;
}
void* aligned_alloc(size_t alignment, size_t size) {
  Count(__builtin_return_address(0));
  return __libc_memalign(alignment, size);
}

void* mmap(void* address, size_t bytes, int protection, int flags, int fd, off_t offset) noexcept {
  const long result = syscall(SYS_mmap, address, bytes, protection, flags, fd, offset);
  void* memory = reinterpret_cast<void*>(result);  // NOLINT(performance-no-int-to-ptr)
  // The library may not be known yet when it maps in its constructor: asked for every time.
  if (g_library.begin == 0) dl_iterate_phdr(&NoteObject, nullptr);
  if (memory != MAP_FAILED && g_library.Holds(__builtin_return_address(0))) {
    const size_t i = g_mapping_count.fetch_add(1);
    if (i < kMostMappings) g_mappings[i] = {memory, bytes};
  }
  return memory;
}
void* mmap64(void* address, size_t bytes, int protection, int flags, int fd, off_t offset) noexcept
    __attribute__((alias("mmap")));

}  // extern "C"

int main(int argc, char** argv) {
  if (argc < 3) return 97;
  const int waves = argc > 3 ? atoi(argv[3]) : 0;
  const int thread_count = atoi(argv[1]);
  const int64_t launches = atoll(argv[2]);
  static gpuprobe::contract::Gpu gpu;
  gpu.Open();
  dl_iterate_phdr(&NoteObject, nullptr);
  // Its thread names itself when it first runs.
  for (int i = 0; i < 100 && g_library.begin != 0 && g_library_thread == 0; ++i) {
    gpuprobe::contract::SleepMs(20);
    FindLibraryThread();
  }
  const int pause_ms = argc > 4 ? atoi(argv[4]) : 0;
  const CUstream shared = gpu.NewStream();
  for (int wave = 0; wave < waves; ++wave) {
    std::vector<std::thread> short_lived;
    short_lived.reserve(static_cast<size_t>(thread_count));
    for (int i = 0; i < thread_count; ++i) {
      short_lived.emplace_back([&] { gpu.Launches(launches, shared); });
    }
    for (std::thread& thread : short_lived) thread.join();
    gpu.Synchronize(shared);
  }
  std::barrier start(thread_count + 1), done(thread_count + 1), leave(thread_count + 1);
  std::vector<std::thread> threads;
  threads.reserve(static_cast<size_t>(thread_count));
  for (int i = 0; i < thread_count; ++i) {
    threads.emplace_back([&] {
      const CUstream stream = gpu.NewStream();
      start.arrive_and_wait();
      for (int64_t launch = 0; launch < launches; ++launch) {
        gpu.Launches(1, stream);
        if (pause_ms != 0) gpuprobe::contract::SleepMs(pause_ms);
      }
      gpu.Synchronize(stream);
      done.arrive_and_wait();
      leave.arrive_and_wait();
    });
  }
  g_counting = true;
  start.arrive_and_wait();
  done.arrive_and_wait();
  gpuprobe::contract::SleepMs(700);  // at least one flush period with everything in it
  g_counting = false;
  size_t mapped = 0, resident = 0;
  const size_t count = g_mapping_count;
  for (size_t i = 0; i < count && i < kMostMappings; ++i) {
    mapped += g_mappings[i].bytes;
    resident += Resident(g_mappings[i]);
  }
  const size_t process_resident = ProcessResident();
  leave.arrive_and_wait();
  for (std::thread& thread : threads) thread.join();
  printf("mallocs_by_library=%" PRId64 " mallocs_on_its_thread=%" PRId64
         " mallocs_by_others=%" PRId64
         " its_thread=%d mappings=%zu mapped=%zu resident=%zu"
         " process_resident=%zu launched=%" PRId64 "\n",
         g_by_library.load(), g_on_thread.load(), g_by_others.load(), g_library_thread != 0, count,
         mapped, resident, process_resident, (1 + waves) * thread_count * launches);
  return 0;
}
