// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "tools/format/syscall_names.h"

#include <algorithm>
#include <iterator>

namespace gpuprobe::tools {
namespace {

struct Syscall {
  int32_t number;
  const char* name;
};

// By number. Those that never block (getpid and its like) cannot be what a thread is blocked in.
constexpr Syscall kSyscalls[] = {
    {0, "read"},
    {1, "write"},
    {2, "open"},
    {3, "close"},
    {4, "stat"},
    {5, "fstat"},
    {6, "lstat"},
    {7, "poll"},
    {9, "mmap"},
    {10, "mprotect"},
    {11, "munmap"},
    {16, "ioctl"},
    {17, "pread64"},
    {18, "pwrite64"},
    {19, "readv"},
    {20, "writev"},
    {23, "select"},
    {24, "sched_yield"},
    {25, "mremap"},
    {26, "msync"},
    {28, "madvise"},
    {34, "pause"},
    {35, "nanosleep"},
    {40, "sendfile"},
    {42, "connect"},
    {43, "accept"},
    {44, "sendto"},
    {45, "recvfrom"},
    {46, "sendmsg"},
    {47, "recvmsg"},
    {56, "clone"},
    {57, "fork"},
    {58, "vfork"},
    {59, "execve"},
    {60, "exit"},
    {61, "wait4"},
    {65, "semop"},
    {69, "msgsnd"},
    {70, "msgrcv"},
    {72, "fcntl"},
    {73, "flock"},
    {74, "fsync"},
    {75, "fdatasync"},
    {76, "truncate"},
    {77, "ftruncate"},
    {78, "getdents"},
    {82, "rename"},
    {83, "mkdir"},
    {84, "rmdir"},
    {85, "creat"},
    {86, "link"},
    {87, "unlink"},
    {88, "symlink"},
    {89, "readlink"},
    {128, "rt_sigtimedwait"},
    {130, "rt_sigsuspend"},
    {149, "mlock"},
    {150, "munlock"},
    {151, "mlockall"},
    {162, "sync"},
    {165, "mount"},
    {187, "readahead"},
    {202, "futex"},
    {208, "io_getevents"},
    {217, "getdents64"},
    {219, "restart_syscall"},
    {220, "semtimedop"},
    {221, "fadvise64"},
    {230, "clock_nanosleep"},
    {231, "exit_group"},
    {232, "epoll_wait"},
    {242, "mq_timedsend"},
    {243, "mq_timedreceive"},
    {247, "waitid"},
    {257, "openat"},
    {258, "mkdirat"},
    {262, "newfstatat"},
    {263, "unlinkat"},
    {264, "renameat"},
    {267, "readlinkat"},
    {269, "faccessat"},
    {270, "pselect6"},
    {271, "ppoll"},
    {275, "splice"},
    {276, "tee"},
    {277, "sync_file_range"},
    {278, "vmsplice"},
    {279, "move_pages"},
    {281, "epoll_pwait"},
    {282, "signalfd"},
    {285, "fallocate"},
    {288, "accept4"},
    {295, "preadv"},
    {296, "pwritev"},
    {299, "recvmmsg"},
    {306, "syncfs"},
    {307, "sendmmsg"},
    {310, "process_vm_readv"},
    {311, "process_vm_writev"},
    {316, "renameat2"},
    {317, "seccomp"},
    {318, "getrandom"},
    {322, "execveat"},
    {323, "userfaultfd"},
    {324, "membarrier"},
    {325, "mlock2"},
    {326, "copy_file_range"},
    {327, "preadv2"},
    {328, "pwritev2"},
    {332, "statx"},
    {333, "io_pgetevents"},
    {426, "io_uring_enter"},
    {434, "pidfd_open"},
    {435, "clone3"},
    {437, "openat2"},
    {439, "faccessat2"},
    {440, "process_madvise"},
    {441, "epoll_pwait2"},
    {449, "futex_waitv"},
    {454, "futex_wake"},
    {455, "futex_wait"},
};
static_assert(std::is_sorted(std::begin(kSyscalls), std::end(kSyscalls),
                             [](const Syscall& a, const Syscall& b) {
                               return a.number < b.number;
                             }));

}  // namespace

std::string SyscallName(int32_t number) {
  if (number < 0) return "";
  const auto at = std::lower_bound(
      std::begin(kSyscalls), std::end(kSyscalls), number,
      [](const Syscall& syscall, int32_t wanted) { return syscall.number < wanted; });
  if (at != std::end(kSyscalls) && at->number == number) return at->name;
  return "syscall " + std::to_string(number);
}

}  // namespace gpuprobe::tools
