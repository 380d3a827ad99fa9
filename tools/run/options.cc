// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "tools/run/options.h"

#include <cstddef>
#include <string_view>

namespace gpuprobe::run {

const char kHelp[] =
    R"(usage: probe-run [options] [--] command [argument]...

Runs the command with gpuprobe watching it, then prints why its GPU was idle.

  -o, --output DIR          where the trace files go (default: GPUPROBE_OUT, else
                            ./gpuprobe-<UTC date>T<time>-<pid>); made when there is something to write
  -e, --env NAME=VALUE      set a variable for the command, e.g. a GPUPROBE_* setting; repeatable
      --door preload        LD_PRELOAD, behind the entries that are there already (default)
      --door injection      CUDA_INJECTION64_PATH: for hosts that do not stand a preload
      --lib FILE            the library (default: ../lib/libgpuprobe.so beside this program)
      --report-to WHERE     stderr (default), stdout or a file
      --no-report           record only
  -q, --quiet               say nothing of our own; the report is still printed
  -h, --help                this text
      --version             the version

The exit status is the command's; a command that a signal ended ends probe-run by the same signal.
125: probe-run could not do its part; 126: the command cannot be run; 127: it was not found.

SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1 and SIGUSR2 sent to probe-run are passed on to the command.
What the terminal sends (Ctrl-C) reaches the command anyway and is not passed on a second time.
)";

namespace {

// One option of the table below: a long name, maybe a letter, and whether it takes a value.
struct Spec {
  char letter;  // 0: none
  std::string_view name;
  bool takes_value;
};

constexpr Spec kSpecs[] = {
    {'o', "output", true}, {'e', "env", true},     {0, "door", true},
    {0, "lib", true},      {0, "report-to", true}, {0, "no-report", false},
    {'q', "quiet", false}, {'h', "help", false},   {0, "version", false},
};

const Spec* FindByName(std::string_view name) {
  for (const Spec& spec : kSpecs) {
    if (spec.name == name) return &spec;
  }
  return nullptr;
}

const Spec* FindByLetter(char letter) {
  for (const Spec& spec : kSpecs) {
    if (spec.letter != 0 && spec.letter == letter) return &spec;
  }
  return nullptr;
}

bool Apply(const Spec& spec, const std::string& value, Options* options, std::string* error) {
  if (spec.takes_value && value.empty()) {
    *error = "--" + std::string(spec.name) + " needs a value";
    return false;
  }
  if (spec.name == "output") options->output = value;
  if (spec.name == "lib") options->library = value;
  if (spec.name == "report-to") options->report_to = value;
  if (spec.name == "no-report") options->report = false;
  if (spec.name == "quiet") options->quiet = true;
  if (spec.name == "help") options->help = true;
  if (spec.name == "version") options->version = true;
  if (spec.name == "env") {
    const size_t equals = value.find('=');
    if (equals == std::string::npos || equals == 0) {
      *error = "-e wants NAME=VALUE, not \"" + value + "\"";
      return false;
    }
    options->variables.emplace_back(value.substr(0, equals), value.substr(equals + 1));
  }
  if (spec.name == "door") {
    if (value != "preload" && value != "injection") {
      *error = "--door is preload or injection, not \"" + value + "\"";
      return false;
    }
    options->door = value == "preload" ? Door::kPreload : Door::kInjection;
  }
  return true;
}

// Splits one argument into its option and the value attached to it (--name=value, -ovalue).
const Spec* Recognise(const std::string& argument, std::string* value, bool* has_value) {
  *has_value = false;
  if (argument.starts_with("--")) {
    const size_t equals = argument.find('=');
    *has_value = equals != std::string::npos;
    if (*has_value) *value = argument.substr(equals + 1);
    return FindByName(
        std::string_view(argument).substr(2, *has_value ? equals - 2 : argument.npos));
  }
  const Spec* spec = FindByLetter(argument[1]);
  if (argument.size() > 2) {
    *has_value = true;
    *value = argument.substr(2);
  }
  return spec;
}

}  // namespace

bool ParseOptions(const std::vector<std::string>& arguments, Options* options, std::string* error) {
  size_t i = 0;
  for (; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    if (argument == "--") {
      ++i;
      break;
    }
    if (argument.size() < 2 || argument[0] != '-') break;
    std::string value;
    bool has_value;
    const Spec* spec = Recognise(argument, &value, &has_value);
    if (spec == nullptr || (has_value && !spec->takes_value)) {
      *error = "unknown option " + argument;
      return false;
    }
    if (spec->takes_value && !has_value) {
      if (i + 1 == arguments.size()) {
        *error = argument + " needs a value";
        return false;
      }
      value = arguments[++i];
    }
    if (!Apply(*spec, value, options, error)) return false;
    if (options->help || options->version) return true;
  }
  options->command.assign(arguments.begin() + static_cast<std::ptrdiff_t>(i), arguments.end());
  if (options->command.empty()) {
    *error = "no command";
    return false;
  }
  return true;
}

}  // namespace gpuprobe::run
