// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "tests/sim/lib/faults.h"

#include <time.h>
#include <unistd.h>

#include <cstdlib>

namespace gpuprobe::sim {
namespace {

struct Known {
  const char* target;  // "" : any function
  const char* what;
};

constexpr Known kKnown[] = {
    {"", "fail"},
    {"", "hang"},
    {"", "sleep"},
    {"", "silent"},
    {"", "null"},
    {"", "crash"},
    {"buffers", "late"},
    {"buffers", "thread"},
    {"buffers", "at_exit"},
    {"buffers", "drop"},
    {"buffers", "oversize"},
    {"buffers", "tail"},
    {"buffers", "empty"},
    {"buffers", "twice"},
    {"buffers", "foreign"},
    {"buffers", "scribble"},
    {"records", "zero"},
    {"records", "sentinel"},
    {"records", "skew"},
    {"records", "early"},
    {"records", "unknown"},
    {"records", "missing"},
    {"names", "null"},
    {"names", "unmapped"},
    {"names", "garbage"},
    {"names", "long"},
    {"names", "empty"},
    {"callbacks", "exit_first"},
    {"callbacks", "enter_only"},
};

bool IsFunction(std::string_view target) {
  return target.starts_with("cupti") || target.starts_with("cu");
}

std::vector<std::string> Split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  size_t begin = 0;
  while (true) {
    const size_t end = text.find(separator, begin);
    parts.emplace_back(text.substr(begin, end - begin));
    if (end == std::string_view::npos) return parts;
    begin = end + 1;
  }
}

void SleepMs(int64_t ms) {
  timespec left{static_cast<time_t>(ms / 1000), static_cast<long>(ms % 1000 * 1'000'000)};
  while (nanosleep(&left, &left) != 0) {
  }
}

}  // namespace

int64_t Fault::Arg(size_t i, int64_t otherwise) const {
  if (i >= args.size() || args[i].empty()) return otherwise;
  return strtoll(args[i].c_str(), nullptr, 0);
}

const Faults& Faults::Get() {
  static const Faults* faults = new Faults;  // process lifetime
  return *faults;
}

Faults::Faults() {
  const char* text = getenv("GPUSIM_FAULT");
  if (text == nullptr) return;
  for (const std::string& item : Split(text, ';')) {
    if (!item.empty()) Parse(item);
  }
}

void Faults::Parse(std::string_view item) {
  std::vector<std::string> parts = Split(item, ':');
  if (parts.size() >= 2) {
    for (const Known& known : kKnown) {
      const bool target_fits =
          *known.target == '\0' ? IsFunction(parts[0]) : parts[0] == known.target;
      if (!target_fits || parts[1] != known.what) continue;
      auto fault = std::make_unique<Fault>();
      fault->target = parts[0];
      fault->what = parts[1];
      fault->args.assign(parts.begin() + 2, parts.end());
      faults_.push_back(std::move(fault));
      return;
    }
  }
  errors_.push_back("GPUSIM_FAULT not understood: " + std::string(item));
}

const Fault* Faults::Find(std::string_view target, std::string_view what) const {
  for (const auto& fault : faults_) {
    if (fault->target == target && fault->what == what) return fault.get();
  }
  return nullptr;
}

// Arguments of a function fault: fail:CODE, sleep:MS, hang, silent, null, crash, each followed by
// [:K][:A] K: only the K-th matching call (0 or absent: every one); A: only calls with this
// argument.
int Faults::OnCall(std::string_view function, int64_t argument) const {
  for (const auto& fault : faults_) {
    if (fault->target != function) continue;
    const bool has_value = fault->what == "fail" || fault->what == "sleep";
    const size_t at = has_value ? 1 : 0;
    const int64_t only_argument = fault->Arg(at + 1, INT64_MIN);
    if (only_argument != INT64_MIN && only_argument != argument) continue;
    const int64_t call = fault->calls.fetch_add(1, std::memory_order_relaxed) + 1;
    const int64_t only_call = fault->Arg(at, 0);
    if (only_call != 0 && only_call != call) continue;
    if (fault->what == "fail") return static_cast<int>(fault->Arg(0, 999));
    if (fault->what == "silent") return kSilent;
    if (fault->what == "null") return kNull;
    if (fault->what == "sleep") SleepMs(fault->Arg(0, 1000));
    if (fault->what == "crash") abort();
    if (fault->what == "hang") {
      while (true) pause();
    }
  }
  return 0;
}

}  // namespace gpuprobe::sim
