// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// What does one Python stack cost the sampler? For every interpreter at hand, a child 30
// different functions deep: blocked, computing in one function, and calling and returning without
// pause (on a processor of its own, where there are two); and with 32 threads for the look at the
// list. Printed: microseconds a look and a stack, and how many stacks were whole.
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "tests/sampler/python/python_child.h"

namespace gpuprobe::sampler {
namespace {

constexpr char kScript[] = R"py(
import sys, threading, time
for i in range(28):
    exec(f"def f{i}(a, b):\n    x = a, b\n    return f{i + 1}(b, x)")
def blocked():
    print("ready", flush=True)
    time.sleep(600)
def loop():
    print("ready", flush=True)
    x = 0
    while True:
        x += 1
        x ^= 5
def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)
def calls():
    print("ready", flush=True)
    while True:
        fib(15)
for i in range(int(sys.argv[2])):
    threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
f28 = lambda a, b: globals()[sys.argv[1]]()
f0(1, 2)
)py";

double NowUs() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) / 1e3;
}

// Reader and child share the machine's first two processors without sharing one.
void Pin(pid_t pid, int which) {
  cpu_set_t allowed, one;
  if (sched_getaffinity(getppid(), sizeof(allowed), &allowed) != 0) return;
  CPU_ZERO(&one);
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &allowed) && which-- == 0) {
      CPU_SET(cpu, &one);
      sched_setaffinity(pid, sizeof(one), &one);
      return;
    }
  }
}

void Measure(const Interpreter& interpreter, const std::string& script, const char* leaf,
             const char* threads, int samples) {
  ChildProcess child({interpreter.path, script, leaf, threads});
  if (child.Line() != "ready") return;
  Pin(0, 0);
  Pin(child.pid(), 1);
  AttachedReader attached;
  usleep(20'000);
  const double attach_begin = NowUs();
  if (attached.Attach(child.pid()) != PythonStatus::kReady) {
    printf("%-8s %s\n", interpreter.version.c_str(), attached.reader().reason());
    return;
  }
  const double attach_us = NowUs() - attach_begin;
  double look_us = 0, stack_us = 0, depth = 0;
  int whole = 0, partial = 0, torn = 0;
  static PythonStack stack;
  for (int i = 0; i < samples; ++i) {
    const double begin = NowUs();
    attached.reader().BeginLook();
    const double between = NowUs();
    const PythonReader::Read read =
        attached.reader().ReadStack(child.pid(), &attached.table(), &stack);
    const double end = NowUs();
    look_us += between - begin;
    stack_us += end - between;
    depth += static_cast<double>(stack.depth);
    if (read == PythonReader::Read::kTorn) ++torn;
    if (read == PythonReader::Read::kOk) ++(stack.partial ? partial : whole);
    usleep(200);
  }
  printf(
      "%-8s %-8s %2s more threads: attach %6.0f us, look %5.1f us, stack %5.1f us (depth %.1f), "
      "whole %5.1f %%, partial %5.1f %%, torn %5.1f %%\n",
      interpreter.version.c_str(), leaf, threads, attach_us, look_us / samples, stack_us / samples,
      depth / samples, 100.0 * whole / samples, 100.0 * partial / samples, 100.0 * torn / samples);
}

}  // namespace
}  // namespace gpuprobe::sampler

int main(int argc, char** argv) {
  using namespace gpuprobe::sampler;
  const bool smoke = argc > 1 && strcmp(argv[1], "--smoke") == 0;
  const int samples = smoke ? 20 : 2000;
  std::vector<Interpreter> interpreters = FindInterpreters();
  if (smoke && interpreters.size() > 1) interpreters.resize(1);
  if (interpreters.empty()) puts("no Python found");
  ScriptFolder folder;
  const std::string script = folder.Write("deep.py", kScript);
  printf("memory of one reader: %zu KiB\n", PythonReader::MemoryBytes() >> 10);
  for (const Interpreter& interpreter : interpreters) {
    for (const char* leaf : {"blocked", "loop", "calls"}) {
      Measure(interpreter, script, leaf, "0", samples);
    }
    Measure(interpreter, script, "blocked", "32", samples);
  }
  return 0;
}
