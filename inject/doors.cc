// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// The two ways in. LD_PRELOAD: the constructor runs in every process and only edits the
// environment, so that the CUDA driver, should the process ever initialise it, opens the second
// door. That is CUDA_INJECTION64_PATH: the driver calls InitializeInjection inside cuInit. Both
// lead to Session::Start. A side door for NVTX is there where it was asked for (nvtx.h).
#include <dlfcn.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>

#include "inject/config.h"
#include "inject/nvtx.h"
#include "inject/process/environment.h"
#include "inject/process/process_facts.h"
#include "inject/session.h"

namespace gpuprobe::inject {
namespace {

constexpr char kLibraryName[] = "libgpuprobe.so";
constexpr char kInjectionVariable[] = "CUDA_INJECTION64_PATH";
constexpr char kOutVariable[] = "GPUPROBE_OUT";
// GPUPROBE_OUT of the children of a process that cannot make an absolute path of it: they would
// take the relative one from where they are, and write somewhere else.
constexpr char kNowhere[] = "/dev/null/GPUPROBE_OUT";
constexpr char kNvtxVariable[] = "NVTX_INJECTION64_PATH";
// Set by us. Children inherit the second door, which this process needs: they have to know that it
// is not theirs.
constexpr char kOnlyVariable[] = "GPUPROBE_ONLY_PID";

constinit RunFacts g_run = {};

const char* BaseName(const char* path) {
  const char* slash = std::strrchr(path, '/');
  return slash != nullptr ? slash + 1 : path;
}

// Absolute path of this library; false where it cannot be told.
bool OwnPath(char (&out)[PATH_MAX]) {
  Dl_info info;
  if (dladdr(reinterpret_cast<void*>(&OwnPath), &info) == 0 || info.dli_fname == nullptr)
    return false;
  return realpath(info.dli_fname, out) != nullptr;
}

bool SameFile(const char* a, const char* b) {
  struct stat x, y;
  return syscall(SYS_stat, a, &x) == 0 && syscall(SYS_stat, b, &y) == 0 && x.st_dev == y.st_dev &&
         x.st_ino == y.st_ino;
}

// The working directory, without a slash at its end (so empty for the root). False where there is
// none: it was removed, or lies outside of the process's root.
bool WorkingDirectory(char* out, size_t size) {
  if (getcwd(out, size) == nullptr || out[0] != '/') return false;
  if (out[1] == '\0') out[0] = '\0';
  return true;
}

// <working directory>/gpuprobe-<date>T<time>-<pid>, in UTC: no time zone file is read in a
// constructor.
bool DefaultDirectory(char* out, size_t size) {
  char cwd[PATH_MAX];
  if (!WorkingDirectory(cwd, sizeof cwd)) return false;
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  const int64_t days = now.tv_sec / 86400, second = now.tv_sec % 86400;
  // Days to civil date, by the 400-year cycle starting on 1 March of year 0.
  const int64_t shifted = days + 719468, era = shifted / 146097, day_of_era = shifted % 146097;
  const int64_t year_of_era =
      (day_of_era - day_of_era / 1460 + day_of_era / 36524 - day_of_era / 146096) / 365;
  const int64_t day_of_year =
      day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
  const int64_t month_from_march = (5 * day_of_year + 2) / 153;
  const int day = static_cast<int>(day_of_year - (153 * month_from_march + 2) / 5 + 1);
  const int month =
      static_cast<int>(month_from_march < 10 ? month_from_march + 3 : month_from_march - 9);
  const int year = static_cast<int>(year_of_era + era * 400 + (month <= 2 ? 1 : 0));
  const int n =
      std::snprintf(out, size, "%s/gpuprobe-%04d%02d%02dT%02d%02d%02d-%d", cwd, year, month, day,
                    static_cast<int>(second / 3600), static_cast<int>(second / 60 % 60),
                    static_cast<int>(second % 60), static_cast<int>(getpid()));
  return n > 0 && static_cast<size_t>(n) < size;
}

bool NoDirectory(const char* why) {
  g_run.directory[0] = '\0';
  g_run.no_directory = why;
  return false;
}

// The directory of the run as an absolute path; the variable may be relative to where the job
// started. Never cut: that would be another place.
bool SetDirectory(const char* value) {
  char cwd[PATH_MAX] = "";
  const bool absolute = value[0] == '/';
  if (!absolute && !WorkingDirectory(cwd, sizeof cwd)) {
    return NoDirectory("GPUPROBE_OUT is relative, and there is no working directory");
  }
  const int n = std::snprintf(g_run.directory, sizeof g_run.directory, "%s%s%s", cwd,
                              absolute ? "" : "/", value);
  if (n > 0 && static_cast<size_t>(n) < sizeof g_run.directory) return true;
  return NoDirectory("the path of GPUPROBE_OUT is too long");
}

void RememberStderr() {
  struct stat s;
  if (syscall(SYS_fstat, 2, &s) != 0) return;
  g_run.stderr_device = s.st_dev;
  g_run.stderr_inode = s.st_ino;
}

// What the environment says about this process, and what it has to say to the children.
void PrepareEnvironment() {
  // Called once, and a host's stack may be small (ulimit -s).
  static char path[PATH_MAX], preload[8192];
  char own_pid[16];
  EnvEntry changes[5];
  size_t count = 0;
  const bool have_path = OwnPath(path);
  const char* list = GetEnv("LD_PRELOAD");
  g_run.preloaded = list != nullptr && std::strstr(list, kLibraryName) != nullptr;
  const char* injection = GetEnv(kInjectionVariable);
  if (injection == nullptr || injection[0] == '\0') {
    // Only a preloaded copy opens the second door; an injected one has come through it.
    if (g_run.preloaded && have_path) changes[count++] = {kInjectionVariable, path};
  } else {
    g_run.injected = have_path && SameFile(injection, path);
  }
  // nvtx.h. Where another tool has NVTX, it keeps it.
  const char* nvtx = GetEnv("GPUPROBE_NVTX");
  bool want_nvtx = false;
  if (nvtx != nullptr && ParseBool(nvtx, &want_nvtx) && want_nvtx && have_path &&
      GetEnv(kNvtxVariable) == nullptr) {
    changes[count++] = {kNvtxVariable, path};
  }
  const char* out = GetEnv(kOutVariable);
  if (out == nullptr || out[0] == '\0') {
    if (DefaultDirectory(g_run.directory, sizeof g_run.directory)) {
      g_run.root = true;
      changes[count++] = {kOutVariable, g_run.directory};
    } else {
      NoDirectory("there is no working directory, and GPUPROBE_OUT is not set");
    }
  } else {
    const bool found = SetDirectory(out);
    if (out[0] != '/') changes[count++] = {kOutVariable, found ? g_run.directory : kNowhere};
  }
  const char* children = GetEnv("GPUPROBE_CHILDREN");
  bool keep = true;
  if (children != nullptr && !ParseBool(children, &keep)) keep = true;
  const bool alone = !keep;
  if (alone && list != nullptr &&
      RemoveFromPreloadList(list, kLibraryName, preload, sizeof preload) >= 0) {
    changes[count++] = {"LD_PRELOAD", preload};
  }
  const char* only = GetEnv(kOnlyVariable);
  if (only != nullptr) {
    const int64_t pid = ParseNumber(only);
    g_run.only_pid = pid > 0 ? static_cast<uint32_t>(pid) : 0;
  } else if (alone) {
    g_run.only_pid = static_cast<uint32_t>(getpid());
    std::snprintf(own_pid, sizeof own_pid, "%u", g_run.only_pid);
    changes[count++] = {kOnlyVariable, own_pid};
  }
  if (count != 0) SetEnv(changes, count);
}

// Before main errno is 0, and some hosts print it or test it without having failed.
__attribute__((constructor)) void OnLoad() {
  const int host_errno = errno;
  RememberStderr();
  PrepareEnvironment();
  errno = host_errno;
}

// Another copy of this library, loaded by LD_PRELOAD from another path, stands in front of CUPTI
// and must be the one that records: only it sees other clients.
void* PreloadedCopy(const char* entry) {
  // Not RTLD_DEFAULT: an object linked with -Bsymbolic finds itself there first.
  void* program = dlopen(nullptr, RTLD_LAZY | RTLD_NOLOAD);
  if (program == nullptr) return nullptr;
  void* symbol = dlsym(program, entry);
  dlclose(program);
  Dl_info info, own;
  if (symbol == nullptr || dladdr(symbol, &info) == 0 || info.dli_fname == nullptr) return nullptr;
  if (dladdr(reinterpret_cast<void*>(&OwnPath), &own) == 0 || info.dli_fbase == own.dli_fbase)
    return nullptr;
  if (std::strcmp(BaseName(info.dli_fname), kLibraryName) != 0) return nullptr;
  return symbol;
}

}  // namespace

const RunFacts& TheRun() { return g_run; }

}  // namespace gpuprobe::inject

// Called by the CUDA driver, on the thread that initialises CUDA, before cuInit returns. 1:
// success, as CUPTI's samples have it.
extern "C" __attribute__((visibility("default"))) int InitializeInjection() {
  using namespace gpuprobe::inject;
  if (void* other = PreloadedCopy("InitializeInjection")) {
    return reinterpret_cast<int (*)()>(other)();
  }
  const RunFacts& run = TheRun();
  TheSession().Start(!run.preloaded ? "injection" : run.injected ? "preload+injection" : "preload");
  return 1;
}

// Called by NVTX, on the thread that makes a module's first NVTX call; `get_export_table` is that
// module's nvtxGetExportTable. 0: NVTX stays without effect there.
extern "C" __attribute__((visibility("default"))) int InitializeInjectionNvtx2(
    void* get_export_table) {
  using namespace gpuprobe::inject;
  if (void* other = PreloadedCopy("InitializeInjectionNvtx2")) {
    return reinterpret_cast<int (*)(void*)>(other)(get_export_table);
  }
  return AttachNvtx(get_export_table);
}
