// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "tools/run/child.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

namespace gpuprobe::run {
namespace {

constexpr int kPassedOn[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};

// si_code is positive (SI_KERNEL) for what the terminal driver sends to the foreground group.
bool SentByProcess(const siginfo_t& info) { return info.si_code <= 0; }

}  // namespace

SignalGate::SignalGate() {
  sigemptyset(&waited_for_);
  for (int signal : kPassedOn) sigaddset(&waited_for_, signal);
  sigaddset(&waited_for_, SIGCHLD);
  sigprocmask(SIG_BLOCK, &waited_for_, &original_mask_);
  // An inherited SIG_IGN would make the kernel reap the child, and its status would be lost.
  struct sigaction by_default = {};
  by_default.sa_handler = SIG_DFL;
  sigaction(SIGCHLD, &by_default, &original_sigchld_);
}

void SignalGate::BecomeChild(const ChildSpec& spec, int error_pipe) {
  for (const auto& [name, value] : spec.variables) setenv(name.c_str(), value.c_str(), 1);
  if (spec.standard_output >= 0) dup2(spec.standard_output, STDOUT_FILENO);
  std::vector<char*> arguments;
  arguments.reserve(spec.arguments.size() + 1);
  for (const std::string& argument : spec.arguments) {
    arguments.push_back(const_cast<char*>(argument.c_str()));
  }
  arguments.push_back(nullptr);
  sigaction(SIGCHLD, &original_sigchld_, nullptr);
  sigprocmask(SIG_SETMASK, &original_mask_, nullptr);
  execvp(arguments[0], arguments.data());
  const int error = errno;
  // An int is written at once or, when the parent is gone, not at all.
  [[maybe_unused]] const ssize_t written = write(error_pipe, &error, sizeof(error));
  _exit(127);
}

ChildResult SignalGate::Run(const ChildSpec& spec) {
  ChildResult result;
  int error_pipe[2];
  if (pipe2(error_pipe, O_CLOEXEC) != 0) return {.exec_errno = errno};
  const pid_t child = fork();
  if (child < 0) {
    result.exec_errno = errno;
    close(error_pipe[0]);
    close(error_pipe[1]);
    return result;
  }
  if (child == 0) BecomeChild(spec, error_pipe[1]);

  close(error_pipe[1]);
  // End of file, nothing read: the pipe was closed by a successful exec.
  ssize_t size;
  do {
    size = read(error_pipe[0], &result.exec_errno, sizeof(result.exec_errno));
  } while (size < 0 && errno == EINTR);
  close(error_pipe[0]);
  if (size != sizeof(result.exec_errno)) result.exec_errno = 0;
  result.wait_status = WaitFor(child);
  return result;
}

int SignalGate::WaitFor(pid_t child) {
  for (;;) {
    int status;
    pid_t pid;
    // -1, not child: as process 1 of a container we inherit orphans.
    while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
      if (pid == child) return status;
    }
    siginfo_t info;
    const int signal = sigwaitinfo(&waited_for_, &info);
    if (signal <= 0 || signal == SIGCHLD) continue;
    if (SentByProcess(info) && info.si_pid != child) kill(child, signal);
  }
}

void SignalGate::EndAs(int wait_status) {
  if (WIFSIGNALED(wait_status)) {
    const int signal = WTERMSIG(wait_status);
    // The command's core file, if any, is the one that is wanted.
    const struct rlimit no_core = {};
    setrlimit(RLIMIT_CORE, &no_core);
    struct sigaction by_default = {};
    by_default.sa_handler = SIG_DFL;
    sigaction(signal, &by_default, nullptr);
    sigset_t only;
    sigemptyset(&only);
    sigaddset(&only, signal);
    raise(signal);
    sigprocmask(SIG_UNBLOCK, &only, nullptr);
    // Process 1 of a container survives that.
    _exit(128 + signal);
  }
  _exit(WEXITSTATUS(wait_status));
}

}  // namespace gpuprobe::run
