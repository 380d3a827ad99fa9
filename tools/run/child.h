// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Runs a program as a child and waits for it, handing on the signals that were meant for it.
//
// The child stays in our process group, so that the terminal's job control (Ctrl-C, Ctrl-Z, fg, bg)
// works as without us. Signals sent by the kernel (the terminal) thus reach it directly and are not
// passed on; signals sent by a process (kill, a batch system, docker stop) are. A sender that
// addresses the whole group (kill -PGID) reaches the child directly as well, and the child sees
// that signal twice: the two cases cannot be told apart, and losing a signal would be worse.
//
// Single-threaded; one child at a time.
#ifndef GPUPROBE_TOOLS_RUN_CHILD_H_
#define GPUPROBE_TOOLS_RUN_CHILD_H_

#include <signal.h>

#include <string>
#include <utility>
#include <vector>

namespace gpuprobe::run {

struct ChildSpec {
  std::vector<std::string> arguments;  // [0]: the program, searched in PATH as a shell does
  std::vector<std::pair<std::string, std::string>> variables;  // set in the child, in order
  int standard_output = -1;                                    // becomes its descriptor 1; -1: ours
};

struct ChildResult {
  int exec_errno = 0;   // not 0: it could not be started; then the rest is meaningless
  int wait_status = 0;  // as waitpid gives it
};

// Blocks the signals that are passed on, and makes children waitable. Construct it first thing in
// main, before anybody can have sent a signal to a child that is not there yet; children get the
// state from before.
class SignalGate {
 public:
  SignalGate();
  SignalGate(const SignalGate&) = delete;
  SignalGate& operator=(const SignalGate&) = delete;

  ChildResult Run(const ChildSpec& spec);

  // Ends this process as the child ended: same exit code, or same signal (without another core
  // file).
  [[noreturn]] void EndAs(int wait_status);

 private:
  [[noreturn]] void BecomeChild(const ChildSpec& spec, int error_pipe);
  int WaitFor(pid_t child);

  sigset_t waited_for_;
  sigset_t original_mask_;
  struct sigaction original_sigchld_;
};

}  // namespace gpuprobe::run

#endif  // GPUPROBE_TOOLS_RUN_CHILD_H_
