// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// The built probe-report as its users meet it. Each run has a deadline, so that a hang is a failure
// and not a stuck test.
#ifndef GPUPROBE_TESTS_TOOLS_REPORT_CLI_RUN_H_
#define GPUPROBE_TESTS_TOOLS_REPORT_CLI_RUN_H_

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <thread>
#include <vector>

#include "tests/tools/temp_folder.h"
#include "tests/tools/trace_maker.h"

extern char** environ;

namespace gpuprobe::tools {

inline constexpr int64_t kT = 1'000'000'000'000;
inline constexpr auto kDeadline = std::chrono::seconds(60);  // sanitizer builds on a busy machine

inline std::string ReadAll(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string{std::istreambuf_iterator<char>(file), {}};
}

struct Result {
  int exit_code = -1;  // -signal if it was killed; -999: it hung
  std::string out, err;
};

class CliTest : public ::testing::Test {
 protected:
  CliTest() { unsetenv("COLUMNS"); }

  // `stdout_fd`: -1: collected in Result::out.
  Result Report(const std::vector<std::string>& arguments, int stdout_fd = -1) {
    const std::string out = folder_.Path("stdout"), err = folder_.Path("stderr");
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    if (stdout_fd < 0) {
      posix_spawn_file_actions_addopen(&actions, 1, out.c_str(), O_WRONLY | O_CREAT | O_TRUNC,
                                       0600);
    } else {
      posix_spawn_file_actions_adddup2(&actions, stdout_fd, 1);
    }
    posix_spawn_file_actions_addopen(&actions, 2, err.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
    std::vector<std::string> words = {PROBE_REPORT_PATH};
    words.insert(words.end(), arguments.begin(), arguments.end());
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    pid_t pid = 0;
    EXPECT_EQ(posix_spawn(&pid, argv[0], &actions, nullptr, argv.data(), environ), 0);
    posix_spawn_file_actions_destroy(&actions);
    Result result;
    result.exit_code = Wait(pid);
    result.out = stdout_fd < 0 ? ReadAll(out) : "";
    result.err = ReadAll(err);
    return result;
  }

  static int Wait(pid_t pid) {
    const auto until = std::chrono::steady_clock::now() + kDeadline;
    int status = 0;
    while (waitpid(pid, &status, WNOHANG) == 0) {
      if (std::chrono::steady_clock::now() > until) {
        kill(pid, SIGKILL);
        waitpid(pid, &status, 0);
        return -999;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
  }

  std::string Write(const std::string& name, const std::string& bytes) {
    std::ofstream(folder_.Path(name), std::ios::binary) << bytes;
    return folder_.Path(name);
  }

  // 30 frames of 20 kernels each, closed in order.
  static const std::string& GoodTrace() {
    static const std::string bytes = [] {
      TraceMaker trace;
      trace.Device(0, 0xab, "NVIDIA H200");
      uint32_t correlation = 1;
      for (int frame = 0; frame < 30; ++frame) {
        for (int i = 0; i < 20; ++i) {
          const int64_t start = kT + frame * 1'000'000 + i * 40'000;
          trace.Call("cudaLaunchKernel", MadeClass::kLaunch, start, start + 4'000, correlation);
          trace.Kernel("_Z3addPf", start + 5'000, start + 25'000, correlation++);
        }
        trace.CloseFrame();
      }
      trace.Finish();
      return trace.bytes();
    }();
    return bytes;
  }

  TempFolder folder_;
};

}  // namespace gpuprobe::tools

#endif  // GPUPROBE_TESTS_TOOLS_REPORT_CLI_RUN_H_
