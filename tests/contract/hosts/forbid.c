// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Runs a command without the system calls that sandboxes take away: they answer EPERM.
//   contract_forbid COMMAND...
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define FORBID(number)                                 \
  BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (number), 0, 1), \
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM)

int main(int argc, char** argv) {
  struct sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      FORBID(SYS_process_vm_readv),
      FORBID(SYS_process_vm_writev),
      FORBID(SYS_perf_event_open),
      FORBID(SYS_ptrace),
      FORBID(SYS_userfaultfd),
      FORBID(SYS_getrandom),
      FORBID(SYS_kcmp),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const struct sock_fprog program = {sizeof filter / sizeof filter[0], filter};
  if (argc < 2) return 97;
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
    perror("contract_forbid");
    return 77;
  }
  execv(argv[1], argv + 1);
  return 98;
}
