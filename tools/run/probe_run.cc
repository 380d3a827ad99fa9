// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// probe-run: sets the environment, runs the command, prints the report. See kHelp in options.cc.
#include <fcntl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string>
#include <vector>

#include "gpuprobe_version.h"
#include "tools/run/child.h"
#include "tools/run/options.h"
#include "tools/run/places.h"
#include "tools/run/preload.h"

namespace gpuprobe::run {
namespace {

// As env(1), nohup(1) and timeout(1) use them, so that scripts can tell our failures from the
// command's.
constexpr int kOwnFailure = 125;
constexpr int kCannotRun = 126;
constexpr int kNotFound = 127;

void Say(const std::string& sentence) { std::fprintf(stderr, "probe-run: %s\n", sentence.c_str()); }

// What the command will see for a variable: -e before our own environment.
std::string Lookup(const Options& options, const char* name) {
  for (auto it = options.variables.rbegin(); it != options.variables.rend(); ++it) {
    if (it->first == name) return it->second;
  }
  const char* value = std::getenv(name);
  return value == nullptr ? "" : value;
}

bool FindLibrary(const Options& options, std::string* library, std::string* error) {
  const bool named = !options.library.empty();
  const std::string candidate =
      named ? options.library : ExecutableFolder() + "/../lib/" + kLibraryName;
  char resolved[PATH_MAX];
  if (realpath(candidate.c_str(), resolved) == nullptr || access(resolved, R_OK) != 0) {
    *error = candidate + ": " + std::strerror(errno) + (named ? "" : " (--lib names another)");
    return false;
  }
  *library = resolved;
  return true;
}

// Adds the door's variable to `variables`. `alias` must outlive the command.
bool OpenDoor(const Options& options, const std::string& library, PreloadAlias* alias,
              std::vector<std::pair<std::string, std::string>>* variables, std::string* error) {
  if (options.door == Door::kInjection) {
    const std::string other = Lookup(options, "CUDA_INJECTION64_PATH");
    if (!other.empty() && other != library) {
      *error = "CUDA_INJECTION64_PATH is taken: " + other + "; use --door preload";
      return false;
    }
    variables->emplace_back("CUDA_INJECTION64_PATH", library);
    return true;
  }
  std::string entry = library;
  if (!FitsInPreload(library)) {
    if (!alias->Create(library, error)) return false;
    entry = alias->path();
  }
  variables->emplace_back("LD_PRELOAD", AddToPreload(Lookup(options, "LD_PRELOAD"), entry));
  return true;
}

std::string OutputDirectory(const Options& options) {
  if (!options.output.empty()) return Absolute(options.output);
  const std::string inherited = Lookup(options, "GPUPROBE_OUT");
  return Absolute(inherited.empty() ? RunDirectoryName(time(nullptr), getpid()) : inherited);
}

// Opened before the command runs, so that a bad name is known at once and not after hours.
int OpenReportTarget(const Options& options, std::string* error) {
  if (options.report_to == "stderr") return fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3);
  if (options.report_to == "stdout") return fcntl(STDOUT_FILENO, F_DUPFD_CLOEXEC, 3);
  const int fd = open(options.report_to.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
  if (fd < 0) *error = options.report_to + ": " + std::strerror(errno);
  return fd;
}

// Only a file that was named to us: where stderr leads is not ours to cut.
void EmptyReportFile(const Options& options, int target) {
  if (options.report_to == "stderr" || options.report_to == "stdout") return;
  // Pipes and devices refuse, and that is all right.
  [[maybe_unused]] const int result = ftruncate(target, 0);
}

void Report(const std::string& directory, size_t older_traces, int target, SignalGate* gate) {
  if (older_traces > 0) {
    Say(directory + " held " + std::to_string(older_traces) +
        " trace files before; the report covers them, too");
  }
  ChildSpec spec;
  spec.arguments = {ExecutableFolder() + "/probe-report", directory};
  if (access(spec.arguments[0].c_str(), X_OK) != 0) spec.arguments[0] = "probe-report";
  spec.standard_output = target;
  const ChildResult result = gate->Run(spec);
  if (result.exec_errno != 0) {
    Say("cannot run probe-report: " + std::string(std::strerror(result.exec_errno)) +
        "; the trace is in " + directory);
  }
}

int ExecFailure(const std::string& program, int exec_errno) {
  const bool found = exec_errno != ENOENT;
  Say(program + ": " + (found ? std::strerror(exec_errno) : "command not found"));
  return found ? kCannotRun : kNotFound;
}

int Fail(const std::string& error) {
  Say(error);
  return kOwnFailure;
}

// Returns only on failure; otherwise ends the process as the command ended.
int Main(const std::vector<std::string>& arguments) {
  SignalGate gate;
  Options options;
  std::string error;
  if (!ParseOptions(arguments, &options, &error)) return Fail(error + "; see probe-run --help");
  if (options.help || options.version) {
    std::fputs(options.help ? kHelp : (std::string("probe-run ") + kVersion + "\n").c_str(),
               stdout);
    return std::fflush(stdout) == 0 ? 0 : kOwnFailure;
  }

  std::string library;
  PreloadAlias alias;
  ChildSpec command;
  command.arguments = options.command;
  command.variables = options.variables;
  if (!FindLibrary(options, &library, &error) ||
      !OpenDoor(options, library, &alias, &command.variables, &error)) {
    return Fail(error);
  }
  const std::string directory = OutputDirectory(options);
  if (directory.empty()) return Fail("the working directory is gone");
  // The library makes it when there is something to write; what can be known before is said before.
  struct stat there;
  if (stat(directory.c_str(), &there) == 0 && !S_ISDIR(there.st_mode)) {
    return Fail(directory + ": " + std::strerror(ENOTDIR));
  }
  command.variables.emplace_back("GPUPROBE_OUT", directory);
  const size_t older_traces = CountTraces(directory);
  const int target = options.report ? OpenReportTarget(options, &error) : -1;
  if (!error.empty()) return Fail(error);

  const ChildResult result = gate.Run(command);
  if (result.exec_errno != 0) return ExecFailure(options.command[0], result.exec_errno);
  alias.Remove();

  if (CountTraces(directory) == older_traces) {
    if (!options.quiet) {
      Say("nothing was recorded: no process of the command initialised CUDA, "
          "none could write to " +
          directory + ", or what was written was removed");
    }
  } else if (target >= 0) {
    EmptyReportFile(options, target);
    Report(directory, options.quiet ? 0 : older_traces, target, &gate);
  } else if (!options.quiet) {
    Say("the trace is in " + directory);
  }
  gate.EndAs(result.wait_status);
}

}  // namespace
}  // namespace gpuprobe::run

int main(int argc, char** argv) {
  return gpuprobe::run::Main(std::vector<std::string>(argv + 1, argv + argc));
}
