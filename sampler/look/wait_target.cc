// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "sampler/look/wait_target.h"

#include <sys/poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstring>

namespace gpuprobe::sampler {
namespace {

// How a system call names what it waits for.
enum class Form : uint8_t {
  kFixed,       // always the same: `text`
  kDescriptor,  // first argument
  kSocket,      // the same, and nothing but a socket
  kPollArray,   // array of struct pollfd, its length
  kSelectSets,  // highest descriptor + 1, three bit sets
};

struct Call {
  int32_t number;  // x86-64
  Form form;
  const char* text;
};

constexpr Call kCalls[] = {
    {0, Form::kDescriptor, ""},       // read
    {1, Form::kDescriptor, ""},       // write
    {7, Form::kPollArray, ""},        // poll
    {16, Form::kDescriptor, ""},      // ioctl
    {17, Form::kDescriptor, ""},      // pread64
    {18, Form::kDescriptor, ""},      // pwrite64
    {19, Form::kDescriptor, ""},      // readv
    {20, Form::kDescriptor, ""},      // writev
    {23, Form::kSelectSets, ""},      // select
    {34, Form::kFixed, "signal"},     // pause
    {35, Form::kFixed, "nanosleep"},  // nanosleep
    {42, Form::kSocket, ""},          // connect
    {43, Form::kSocket, ""},          // accept
    {44, Form::kSocket, ""},          // sendto
    {45, Form::kSocket, ""},          // recvfrom
    {46, Form::kSocket, ""},          // sendmsg
    {47, Form::kSocket, ""},          // recvmsg
    {61, Form::kFixed, "child"},      // wait4
    {65, Form::kFixed, "semaphore"},  // semop
    {70, Form::kFixed, "message"},    // msgrcv
    {72, Form::kDescriptor, ""},      // fcntl
    {73, Form::kDescriptor, ""},      // flock
    {74, Form::kDescriptor, ""},      // fsync
    {75, Form::kDescriptor, ""},      // fdatasync
    {128, Form::kFixed, "signal"},    // rt_sigtimedwait
    {130, Form::kFixed, "signal"},    // rt_sigsuspend
    {kFutexCall, Form::kFixed, "futex"},
    {208, Form::kFixed, "aio"},        // io_getevents
    {220, Form::kFixed, "semaphore"},  // semtimedop
    {230, Form::kFixed, "nanosleep"},  // clock_nanosleep
    {232, Form::kDescriptor, ""},      // epoll_wait
    {247, Form::kFixed, "child"},      // waitid
    {270, Form::kSelectSets, ""},      // pselect6
    {271, Form::kPollArray, ""},       // ppoll
    {275, Form::kDescriptor, ""},      // splice
    {281, Form::kDescriptor, ""},      // epoll_pwait
    {288, Form::kSocket, ""},          // accept4
    {295, Form::kDescriptor, ""},      // preadv
    {296, Form::kDescriptor, ""},      // pwritev
    {299, Form::kSocket, ""},          // recvmmsg
    {426, Form::kFixed, "io_uring"},   // io_uring_enter
    {441, Form::kDescriptor, ""},      // epoll_pwait2
    {449, Form::kFixed, "futex"},      // futex_waitv
};

// Descriptors of one poll or select that are looked at: all of the same kind is the usual case, and
// servers hold thousands.
constexpr size_t kMaxDescriptors = 8;

void Put(const char* text, char* out) {
  size_t n = std::strlen(text);
  if (n >= kWaitTargetBytes) n = kWaitTargetBytes - 1;
  std::memcpy(out, text, n);
  out[n] = '\0';
}

// Sockets carry the name of their protocol as an attribute. A UNIX socket's peer is on this
// machine, and mostly of the same job; that of any other is taken for the outside. False: no
// socket, or a file system that has no such attribute.
bool DescribeSocket(const char* path, char* out) {
  char protocol[32];
  ++TheProcCounters().links;
  const long n = syscall(SYS_getxattr, path, "system.sockprotoname", protocol, sizeof protocol);
  if (n <= 0) return false;
  Put(n >= 4 && std::memcmp(protocol, "UNIX", 4) == 0 ? "unix socket" : "socket", out);
  return true;
}

// Through the thread, not the process: it may have a table of its own, and the main thread may have
// ended.
void DescribeDescriptor(uint32_t pid, uint32_t tid, uint64_t fd, bool socket, char* out) {
  char path[kTaskPathBytes], link[kWaitTargetBytes];
  char leaf[24] = "fd/";
  PutDecimal(fd, leaf + 3);
  ProcPath(pid, tid, leaf, path);
  if (socket && DescribeSocket(path, out)) return;
  ++TheProcCounters().links;
  const ssize_t n = readlink(path, link, sizeof link - 1);
  link[n > 0 ? n : 0] = '\0';
  DescribeLink(link, out);
  if (!socket && std::strcmp(out, "socket") == 0) DescribeSocket(path, out);
}

// The kind that all of them have in common, or "several".
void DescribeSeveral(uint32_t pid, uint32_t tid, const int* fds, size_t count, bool more,
                     char* out) {
  for (size_t i = 0; i < count; ++i) {
    char next[kWaitTargetBytes];
    DescribeDescriptor(pid, tid, static_cast<uint64_t>(fds[i]), false, next);
    if (i == 0) Put(next, out);
    if (std::strcmp(next, out) != 0) return Put("several", out);
  }
  if (more && count == 0) Put("several", out);
}

void DescribePoll(uint32_t pid, uint32_t tid, uint64_t address, uint64_t count,
                  const ProcessMemory& memory, char* out) {
  struct pollfd entries[kMaxDescriptors];
  const size_t known = count < kMaxDescriptors ? count : kMaxDescriptors;
  if (known == 0) return Put("timeout", out);
  if (!memory.Read(address, entries, known * sizeof entries[0])) return;
  int fds[kMaxDescriptors];
  size_t n = 0;
  for (size_t i = 0; i < known; ++i) {
    if (entries[i].fd >= 0) fds[n++] = entries[i].fd;
  }
  DescribeSeveral(pid, tid, fds, n, count > known, out);
}

void DescribeSelect(uint32_t pid, uint32_t tid, const SyscallFile& call,
                    const ProcessMemory& memory, char* out) {
  uint64_t bits[16] = {}, set[16];  // the 1024 descriptors that select() can name
  const uint64_t limit = call.args[0] < 1024 ? call.args[0] : 1024;
  const size_t bytes = (limit + 63) / 64 * 8;
  for (int i = 1; i <= 3; ++i) {
    if (call.args[i] == 0 || bytes == 0 || !memory.Read(call.args[i], set, bytes)) continue;
    for (size_t k = 0; k < bytes / 8; ++k) bits[k] |= set[k];
  }
  int fds[kMaxDescriptors];
  size_t n = 0;
  bool more = false;
  for (uint64_t fd = 0; fd < limit; ++fd) {
    if ((bits[fd / 64] >> fd % 64 & 1) == 0) continue;
    if (n == kMaxDescriptors) {
      more = true;
      break;
    }
    fds[n++] = static_cast<int>(fd);
  }
  if (n == 0) return Put("timeout", out);
  DescribeSeveral(pid, tid, fds, n, more, out);
}

}  // namespace

void DescribeLink(const char* link, char* out) {
  constexpr struct {
    const char* begin;
    const char* kind;
  } kKinds[] = {{"pipe:", "pipe"},
                {"socket:", "socket"},
                {"anon_inode:[eventfd]", "eventfd"},
                {"anon_inode:[eventpoll]", "epoll"},
                {"anon_inode:[timerfd]", "timerfd"},
                {"anon_inode:[signalfd]", "signal"},
                {"anon_inode:inotify", "inotify"},
                {"anon_inode:[pidfd]", "child"}};
  for (const auto& known : kKinds) {
    if (std::strncmp(link, known.begin, std::strlen(known.begin)) == 0) return Put(known.kind, out);
  }
  Put(link, out);
}

void DescribeWait(uint32_t pid, uint32_t tid, const SyscallFile& call, const ProcessMemory* memory,
                  char* out) {
  out[0] = '\0';
  for (const Call& known : kCalls) {
    if (known.number != call.number) continue;
    switch (known.form) {
      case Form::kFixed:
        return Put(known.text, out);
      case Form::kDescriptor:
      case Form::kSocket:
        return DescribeDescriptor(pid, tid, call.args[0] & 0xffffffff, known.form == Form::kSocket,
                                  out);
      case Form::kPollArray:
        if (memory != nullptr) DescribePoll(pid, tid, call.args[0], call.args[1], *memory, out);
        return;
      case Form::kSelectSets:
        if (memory != nullptr) DescribeSelect(pid, tid, call, *memory, out);
        return;
    }
  }
}

}  // namespace gpuprobe::sampler
