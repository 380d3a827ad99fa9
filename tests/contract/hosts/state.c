// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Prints everything of the process that a library could have changed before main, one line a fact.
// Two runs, with and without the library, have to print the same.
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fenv.h>
#include <limits.h>
#include <locale.h>
#include <malloc.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <unistd.h>

static void PrintSignals(void) {
  for (int number = 1; number < NSIG; ++number) {
    struct sigaction action;
    memset(&action, 0, sizeof action);
    if (sigaction(number, NULL, &action) != 0) continue;
    printf("signal %d: handler %d flags %x\n", number, action.sa_handler == SIG_IGN,
           (unsigned)action.sa_flags);
  }
  sigset_t mask, pending;
  sigprocmask(SIG_BLOCK, NULL, &mask);
  sigpending(&pending);
  for (int number = 1; number < NSIG; ++number) {
    if (sigismember(&mask, number) == 1) printf("signal %d: blocked\n", number);
    if (sigismember(&pending, number) == 1) printf("signal %d: pending\n", number);
  }
  stack_t stack;
  sigaltstack(NULL, &stack);
  printf("alternate stack: flags %d\n", stack.ss_flags);
}

static void PrintLimits(void) {
  for (int i = 0; i < RLIMIT_NLIMITS; ++i) {
    struct rlimit limit;
    if (getrlimit((__rlimit_resource_t)i, &limit) != 0) continue;
    printf("limit %d: %lld %lld\n", i, (long long)limit.rlim_cur, (long long)limit.rlim_max);
  }
}

static void PrintDescriptors(void) {
  for (int fd = 0; fd < 4096; ++fd) {
    struct stat s;
    if (fstat(fd, &s) == 0) printf("descriptor %d: mode %o\n", fd, s.st_mode & S_IFMT);
  }
}

static int CountEntries(const char* path) {
  int count = 0;
  DIR* directory = opendir(path);
  if (directory == NULL) return -1;
  for (struct dirent* e = readdir(directory); e != NULL; e = readdir(directory))
    count += e->d_name[0] != '.';
  closedir(directory);
  return count;
}

// Files that are mapped; addresses differ from run to run.
static void PrintMaps(void) {
  char line[PATH_MAX + 256], last[PATH_MAX] = "";
  FILE* maps = fopen("/proc/self/maps", "r");
  while (maps != NULL && fgets(line, sizeof line, maps) != NULL) {
    char* path = strchr(line, '/');
    if (path == NULL || strcmp(path, last) == 0) continue;
    strcpy(last, path);
    printf("map %s", path);
  }
  if (maps != NULL) fclose(maps);
}

int main(int argc, char** argv) {
  const int error = errno;
  char cwd[PATH_MAX], name[32] = "";
  struct itimerval timer;
  cpu_set_t cpus;
  printf("errno: %d\n", error);
  printf("arguments: %d %s\n", argc, argc > 1 ? argv[1] : "");
  printf("cwd: %s\n", getcwd(cwd, sizeof cwd) != NULL ? cwd : "?");
  printf("locale: %s\n", setlocale(LC_ALL, NULL));
  const mode_t mask = umask(0);
  umask(mask);
  printf("umask: %o\n", mask);
  errno = 0;
  printf("nice: %d\n", getpriority(PRIO_PROCESS, 0));
  printf("scheduler: %d\n", sched_getscheduler(0));
  sched_getaffinity(0, sizeof cpus, &cpus);
  printf("cpus: %d\n", CPU_COUNT(&cpus));
  printf("personality: %d\n", personality(0xffffffff));
  prctl(PR_GET_NAME, name, 0, 0, 0);
  printf("name: %s dumpable: %d subreaper: - death signal: -\n", name,
         prctl(PR_GET_DUMPABLE, 0, 0, 0, 0));
  for (int which = ITIMER_REAL; which <= ITIMER_PROF; ++which) {
    getitimer((__itimer_which_t)which, &timer);
    printf("timer %d: %ld %ld\n", which, (long)timer.it_value.tv_sec,
           (long)timer.it_interval.tv_sec);
  }
  printf("rounding: %d exceptions: %d\n", fegetround(), fetestexcept(FE_ALL_EXCEPT));
  printf("random: %d %ld\n", rand(), random());
  printf("session: %d group: %d\n", getsid(0) == getpid(), getpgid(0) == getpid());
  printf("threads: %d\n", CountEntries("/proc/self/task"));
  PrintSignals();
  PrintLimits();
  PrintDescriptors();
  PrintMaps();
  extern char** environ;
  for (char** e = environ; *e != NULL; ++e) printf("environment %s\n", *e);
  return 0;
}
