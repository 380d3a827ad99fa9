// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Stacks of live interpreters, compared with what the interpreter itself says.
#include <fcntl.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/sampler/python/python_fixture.h"

namespace gpuprobe::sampler {
namespace {

std::string ReadFile(const std::string& path) {
  std::string text;
  FILE* file = fopen(path.c_str(), "r");
  if (file == nullptr) return text;
  char buffer[4096];
  size_t got;
  while ((got = fread(buffer, 1, sizeof(buffer), file)) > 0) text.append(buffer, got);
  fclose(file);
  return text;
}

std::string FromHex(const std::string& hex) {
  std::string text;
  if (hex == "-") return text;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) {
    text += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  }
  return text;
}

// Whole characters within the table's limit.
std::string Cut(std::string text) {
  constexpr size_t kLimit = 1024;
  if (text.size() <= kLimit) return text;
  size_t end = kLimit;
  while ((static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return text.substr(0, end);
}

using PythonStacks = LivePython;

std::string SourceFolder() {
  const char* folder = getenv("GPUPROBE_TEST_SOURCE_DIR");
  return folder != nullptr ? folder : ".";
}

TEST_P(PythonStacks, AreWhatPythonSaysOfThreadsThatStandStill) {
  const std::string module_path =
      folder_.Write("python_scene_module.py", "import time\n\n\ntime.sleep(600)\n");
  const std::string script = folder_.Write(
      "scenes.py", ReadFile(SourceFolder() + "/tests/sampler/python/python_scenes.py"));
  ChildProcess child(
      {GetParam().path, "-B", script, module_path.substr(0, module_path.rfind('/'))});
  struct Thread {
    pid_t tid;
    std::string name;
    std::vector<TextFrame> frames;
  };
  std::vector<Thread> threads;
  while (true) {
    const std::string line = child.Line();
    if (line == "end") break;
    ASSERT_FALSE(line.empty()) << "the script ended";
    char kind[16], a[8192], b[8192];
    int number = 0;
    if (sscanf(line.c_str(), "thread %d %8191s", &number, a) == 2) {
      threads.push_back({number, a, {}});
      continue;
    }
    ASSERT_EQ(sscanf(line.c_str(), "%15s %8191s %8191s %d", kind, a, b, &number), 4) << line;
    threads.back().frames.push_back(
        {Cut(FromHex(a)), Cut(FromHex(b)), static_cast<uint32_t>(number)});
  }
  ASSERT_GE(threads.size(), 19u);
  ASSERT_EQ(attached_.Attach(child.pid()), PythonStatus::kReady) << attached_.reader().reason();
  for (const Thread& thread : threads) {
    SCOPED_TRACE(thread.name);
    ASSERT_EQ(Look(thread.tid), Read::kOk);
    std::vector<TextFrame> expected = thread.frames;
    const bool cut = expected.size() > kMaxStackDepth;
    if (cut) expected.resize(kMaxStackDepth);
    const std::vector<TextFrame> actual = Frames();
    ASSERT_EQ(actual.size(), expected.size());
    for (size_t i = 0; i < actual.size(); ++i) {
      EXPECT_EQ(actual[i].function, expected[i].function) << "frame " << i;
      EXPECT_EQ(actual[i].file, expected[i].file) << "frame " << i;
      EXPECT_EQ(actual[i].line, expected[i].line) << "frame " << i;
    }
    EXPECT_EQ(stack_.cut, cut);
    EXPECT_FALSE(stack_.partial);
    EXPECT_TRUE(stack_.in_c_function);  // all stand in a call of C
  }
}

int64_t CpuNs(pid_t pid) {
  clockid_t clock;
  timespec ran = {};
  if (clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &ran) != 0) return 0;
  return ran.tv_sec * 1'000'000'000LL + ran.tv_nsec;
}

TEST_P(PythonStacks, OfABusyThreadAreSpreadOverItsLinesAsItsTimeIs) {
  Start(
      "import itertools\n"
      "print('ready', flush=True)\n"
      "def hot():\n"
      "  many, few = range(3000), range(1000)\n"
      "  while True:\n"
      "    sum(many)\n"
      "    sum(few)\n"
      "hot()\n");
  std::map<uint32_t, int> lines;
  int in_c = 0, ok = 0;
  constexpr int kSamples = 500;
  // On a busy machine the child stands on one line for whole time slices: only looks between which
  // it has run are independent of each other.
  constexpr int64_t kRunBetweenNs = 300'000;
  int64_t ran_ns = 0;
  int looks = 0;
  for (int tries = 0; looks < kSamples && tries < 40 * kSamples; ++tries) {
    usleep(700);
    const int64_t now_ns = CpuNs(child_->pid());
    if (now_ns - ran_ns < kRunBetweenNs) continue;
    ran_ns = now_ns;
    ++looks;
    if (Look(child_->pid()) == Read::kOk) {
      ++ok;
      const std::vector<TextFrame> frames = Frames();
      if (frames[0].function == "hot") ++lines[frames[0].line];
      if (frames[0].line == 6 || frames[0].line == 7) in_c += stack_.in_c_function;
      EXPECT_LE(frames.size(), 2u);
    }
  }
  ASSERT_EQ(looks, kSamples);
  EXPECT_GT(ok, kSamples * 95 / 100);
  for (const auto& [line, count] : lines) EXPECT_TRUE(line >= 4 && line <= 7) << line;
  // 3 to 1, with six standard deviations of 500 samples on each side.
  EXPECT_GT(lines[6], lines[7] * 2);
  EXPECT_LT(lines[6], lines[7] * 5);
  EXPECT_GT(in_c, (lines[6] + lines[7]) * 9 / 10);
}

TEST_P(PythonStacks, NeverNameAFunctionThatHasBeenReplaced) {
  // Functions that live for one call; their name, file and lines belong together.
  Start(
      "print('ready', flush=True)\n"
      "def spin():\n"
      "  for _ in range(2000): pass\n"
      "i = 0\n"
      "base = compile('def f(spin):\\n  spin()\\n  spin()\\n', 'x', 'exec').co_consts[0]\n"
      "has_qualname = hasattr(base, 'co_qualname')\n"
      "kind = type(lambda: 0)\n"
      "while True:\n"
      "  i = (i + 1) % 900\n"
      "  name = 'name%03d' % i\n"
      "  more = {'co_qualname': name} if has_qualname else {}\n"
      "  code = base.replace(co_name=name, co_filename='file%03d' % i, co_firstlineno=10 * i + 1,\n"
      "                      **more)\n"
      "  kind(code, {})(spin)\n"
      "  if i % 7 == 0:\n"
      "    names = {}\n"
      "    exec(compile('\\n' * (10 * i) + 'def name%03d(spin):\\n spin()\\n spin()' % i,\n"
      "                 'file%03d' % i, 'exec'), names)\n"
      "    names['name%03d' % i](spin)\n"
      "    del names\n"
      "  del code\n");
  std::set<std::string> seen;
  int ok = 0;
  constexpr int kSamples = 4000;
  for (int i = 0; i < kSamples; ++i) {
    if (Look(child_->pid()) != Read::kOk) continue;
    ++ok;
    for (const TextFrame& frame : Frames()) {
      if (frame.function.rfind("name", 0) != 0) {
        ASSERT_TRUE(frame.function == "<module>" || frame.function == "spin") << frame.function;
        continue;
      }
      seen.insert(frame.function);
      const int number = std::stoi(frame.function.substr(4));
      ASSERT_EQ(frame.file, "file" + frame.function.substr(4));
      ASSERT_GE(frame.line, static_cast<uint32_t>(10 * number + 1));
      ASSERT_LE(frame.line, static_cast<uint32_t>(10 * number + 3));
    }
    if (i % 16 == 0) usleep(100);
  }
  EXPECT_GT(ok, kSamples / 2);
  EXPECT_GT(seen.size(), 20u);
}

TEST_P(PythonStacks, TellCallsOfCFromPython) {
  // Which line is executed says whether the thread is in C there.
  Start(
      "import sys, re, json, time, threading\n"
      "print('ready', flush=True)\n"
      "text = '[' + '1.5, ' * 20000 + '1]'\n"
      "pattern = re.compile('(a+)+$')\n"
      "def c_calls():\n"
      "  time.sleep(0.004)\n"
      "  json.loads(text)\n"
      "  pattern.match('a' * 16 + 'b')\n"
      "  kept = sorted(range(20000), key=str)\n"
      "def key(x):\n"
      "  y = x + 1\n"
      "  y = y * 2\n"
      "  y = y - 3\n"
      "  return y\n"
      "while True:\n"
      "  c_calls()\n"
      "  sorted(range(20000), key=key)\n");
  std::map<uint32_t, std::pair<int, int>> in_c_of_line;
  int of_key = 0;
  // Where the child really runs meanwhile, most stacks of `key` lack their innermost frame.
  for (int i = 0; i < 600 || (i < 8000 && of_key < 20); ++i) {
    if (Look(child_->pid()) == Read::kOk && !stack_.partial) {
      const TextFrame inner = Frames()[0];
      of_key += inner.function == "key" && inner.line >= 11;
      if (inner.function == "c_calls" || inner.function == "key") {
        auto& [in_c, all] = in_c_of_line[inner.line];
        in_c += stack_.in_c_function;
        ++all;
      }
    }
    usleep(700);
  }
  int python = 0;
  for (const auto& [line, counts] : in_c_of_line) {
    if (line == 6 || line == 8 || line == 9) {
      EXPECT_GE(counts.first, counts.second * 9 / 10) << "line " << line;
    }
    if (line >= 11) {
      EXPECT_EQ(counts.first, 0) << "line " << line;
      python += counts.second;
    }
  }
  EXPECT_GT(in_c_of_line[6].second, 5);
  EXPECT_GT(python, 5);
}

TEST_P(PythonStacks, TellCallsOfCWhileLinesAreTraced) {
  // The call comes back to the line where it began: there the opcode of line tracing stands for it.
  Start(
      "import sys, time\n"
      "def tracer(frame, event, argument):\n"
      "  return tracer\n"
      "def work():\n"
      "  print('ready', flush=True)\n"
      "  time.sleep(\n"
      "      600)\n"
      "sys.settrace(tracer)\n"
      "work()\n");
  for (int i = 0; i < 200; ++i) {
    ASSERT_EQ(Look(child_->pid()), Read::kOk);
    if (Frames()[0].line == 6 && stack_.in_c_function) return;
    usleep(10'000);
  }
  FAIL() << "line " << Frames()[0].line << " in " << Frames()[0].function;
}

TEST_P(PythonStacks, OfAnImportGoThroughItToTheLineThatNeedsTheModule) {
  // From 3.15 on that may be the first use of a module that was imported lazily.
  const bool lazy = GetParam().minor >= 15;
  Start(std::string("import importlib.util, sys, time\n"
                    "class Finder:\n"
                    "  def find_spec(self, name, path, target=None):\n"
                    "    if name == 'slow': return importlib.util.spec_from_loader(name, self)\n"
                    "  def create_module(self, spec): return None\n"
                    "  def exec_module(self, module):\n"
                    "    print('ready', flush=True)\n"
                    "    time.sleep(600)\n"
                    "sys.meta_path.insert(0, Finder())\n") +
        (lazy ? "lazy import slow\n"
                "def use():\n"
                "  return slow.anything\n"
              : "\n"
                "def use():\n"
                "  import slow\n") +
        "use()\n");
  usleep(50'000);
  ASSERT_EQ(Look(child_->pid()), Read::kOk);
  EXPECT_TRUE(stack_.in_c_function);
  const std::vector<TextFrame> frames = Frames();
  ASSERT_GE(frames.size(), 4u);
  EXPECT_EQ(frames[0].line, 8u);
  const TextFrame& user = frames[frames.size() - 2];
  EXPECT_TRUE(user.function == "use" && user.line == 12) << user.function << ":" << user.line;
  EXPECT_EQ(frames.back().line, 13u);
  for (size_t i = 1; i + 2 < frames.size(); ++i) {
    EXPECT_TRUE(frames[i].file.starts_with("<frozen importlib")) << frames[i].file;
  }
}

TEST_P(PythonStacks, OfDeepRecursionAreCut) {
  Start(
      "import sys, threading, time\n"
      "sys.setrecursionlimit(60000)\n"
      "threading.stack_size(1 << 30)\n"
      "def down(n):\n"
      "  if n == 0:\n"
      "    print('ready', flush=True)\n"
      "    time.sleep(600)\n"
      "  down(n - 1)\n"
      "t = threading.Thread(target=down, args=(50000,), daemon=True)\n"
      "t.start()\n"
      "t.join()\n");
  pid_t deep = 0;
  const std::string tasks = "/proc/" + std::to_string(child_->pid()) + "/task";
  DIR* folder = opendir(tasks.c_str());
  ASSERT_NE(folder, nullptr);
  while (const dirent* entry = readdir(folder)) {
    if (entry->d_name[0] != '.' && atoi(entry->d_name) != child_->pid()) deep = atoi(entry->d_name);
  }
  closedir(folder);
  usleep(50'000);
  ASSERT_EQ(Look(deep), Read::kOk);
  const std::vector<TextFrame> frames = Frames();
  ASSERT_EQ(frames.size(), kMaxStackDepth);
  EXPECT_TRUE(stack_.cut);
  EXPECT_EQ(frames[0].line, 7u);
  for (size_t i = 1; i < frames.size(); ++i) {
    EXPECT_EQ(frames[i].function, "down");
    EXPECT_EQ(frames[i].line, 8u);
  }
  ASSERT_EQ(Look(child_->pid()), Read::kOk);
  EXPECT_FALSE(stack_.cut);
}

TEST_P(PythonStacks, ComeWithWhoHoldsTheLockAndWhoWaitsForIt) {
  Start(
      "import threading\n"
      "def spin():\n"
      "  x = 0\n"
      "  while True:\n"
      "    x = x ^ 1\n"
      "for _ in range(3): threading.Thread(target=spin, daemon=True).start()\n"
      "print('ready', flush=True)\n"
      "threading.Event().wait()\n");
  std::set<pid_t> spinning;
  const std::string tasks = "/proc/" + std::to_string(child_->pid()) + "/task/";
  DIR* folder = opendir(tasks.c_str());
  ASSERT_NE(folder, nullptr);
  while (const dirent* entry = readdir(folder)) {
    if (entry->d_name[0] != '.') spinning.insert(atoi(entry->d_name));
  }
  closedir(folder);
  spinning.erase(child_->pid());
  ASSERT_EQ(spinning.size(), 3u);
  std::map<pid_t, int> held;
  size_t holders = 0;  // of those that spin
  int locked = 0, waiting = 0, samples = 0;
  constexpr int kSamples = 200, kMostSamples = 20'000;
  // On a busy machine it takes a while until each has had its turn.
  for (; samples < kSamples || (holders < 3 && samples < kMostSamples); ++samples) {
    ASSERT_TRUE(attached_.reader().BeginLook());
    const GilState& gil = attached_.reader().gil();
    ASSERT_TRUE(gil.known);
    locked += gil.locked;
    if (gil.holder_tid != 0 && ++held[gil.holder_tid] == 1) {
      holders += spinning.count(static_cast<pid_t>(gil.holder_tid));
    }
    for (const pid_t tid : spinning) {
      int number = -1;
      unsigned long address = 0;
      const std::string call = ReadFile(tasks + std::to_string(tid) + "/syscall");
      if (sscanf(call.c_str(), "%d %lx", &number, &address) == 2 && number == 202 &&
          address >= gil.begin_address && address < gil.end_address) {
        ++waiting;
      }
    }
    usleep(3000);
  }
  // Nobody holds it while the one that it was handed to waits for a core: a third of the time on
  // two cores with a load of seven.
  EXPECT_GT(locked, samples / 3);
  EXPECT_EQ(holders, 3u);
  // The main thread may still be on its way into the wait.
  EXPECT_LT(held[child_->pid()], locked / 2);
  held.erase(child_->pid());
  for (const auto& [tid, count] : held) EXPECT_TRUE(spinning.count(tid) == 1) << tid;
  EXPECT_GT(waiting, samples / 4);
}

TEST_P(PythonStacks, OfAForkedChildAreItsOwn) {
  Start(
      "import os, sys, time, threading\n"
      "def parent(): time.sleep(600)\n"
      "def child():\n"
      "  time.sleep(600)\n"
      "threading.Thread(target=parent, daemon=True).start()\n"
      "pid = os.fork()\n"
      "if pid == 0: child()\n"
      "time.sleep(0.3)\n"
      "print('ready', flush=True)\n"
      "print(pid, flush=True)\n"
      "parent()\n");
  const pid_t forked = std::stoi(child_->Line());
  AttachedReader other;
  ASSERT_EQ(other.Attach(forked), PythonStatus::kReady) << other.reader().reason();
  ASSERT_TRUE(other.reader().BeginLook());
  ASSERT_EQ(other.reader().ReadStack(forked, &other.table(), &stack_), Read::kOk);
  const std::vector<TextFrame> frames = other.Frames(stack_);
  ASSERT_EQ(frames.size(), 2u);
  EXPECT_EQ(frames[0].function, "child");
  EXPECT_EQ(frames[0].line, 4u);
  EXPECT_EQ(frames[1].line, 7u);
  // It may still be on its way out of print.
  std::string function;
  for (int i = 0; i < 200 && function != "parent"; ++i) {
    if (Look(child_->pid()) == Read::kOk) function = Frames()[0].function;
    usleep(10'000);
  }
  EXPECT_EQ(function, "parent");
  kill(forked, SIGKILL);
}

TEST_P(PythonStacks, AreNoneForAThreadWithoutPython) {
  Start(
      "import time\n"
      "print('ready', flush=True)\n"
      "time.sleep(600)\n");
  EXPECT_EQ(Look(child_->pid() + 1), Read::kNoPython);
  EXPECT_EQ(stack_.depth, 0u);
}

TEST_P(PythonStacks, FollowThreadsThatComeAndGo) {
  Start(
      "import threading\n"
      "def short(): sum(range(2000))\n"
      "print('ready', flush=True)\n"
      "while True:\n"
      "  t = [threading.Thread(target=short) for _ in range(3)]\n"
      "  for x in t: x.start()\n"
      "  for x in t: x.join()\n");
  int ok = 0;
  std::set<std::string> functions;
  constexpr int kSamples = 1000;
  for (int i = 0; i < kSamples; ++i) {
    if (Look(child_->pid()) == Read::kOk) {
      ++ok;
      functions.insert(Frames().back().function);
    }
    usleep(100);
  }
  EXPECT_GT(ok, kSamples * 8 / 10);
  EXPECT_EQ(functions, std::set<std::string>{"<module>"});
}

TEST_P(PythonStacks, EndWithTheInterpreter) {
  Start(
      "import atexit, sys, time\n"
      "class Last:\n"
      "  def __del__(self, sleep=time.sleep): sleep(600)\n"
      "print('ready', flush=True)\n"
      "time.sleep(0.2)\n"
      "last = Last()\n");
  for (int i = 0; i < 500; ++i) {
    attached_.reader().BeginLook();
    if (attached_.reader().status() == PythonStatus::kFinalizing) break;
    usleep(10'000);
  }
  EXPECT_EQ(attached_.reader().status(), PythonStatus::kFinalizing);
  EXPECT_FALSE(attached_.reader().BeginLook());
  EXPECT_EQ(attached_.reader().ReadStack(child_->pid(), &attached_.table(), &stack_),
            Read::kNoPython);
}

TEST_P(PythonStacks, AreReadWhenTheInterpretersFilesAreGone) {
  // Another name for the same file, unlinked while it runs.
  const std::string copy = folder_.Write("python_copy", "");
  ASSERT_EQ(system(("cp " + GetParam().path + " " + copy).c_str()), 0);
  ASSERT_EQ(chmod(copy.c_str(), 0755), 0);
  const std::string script =
      folder_.Write("s.py",
                    "import os, sys, time\nos.unlink(sys.argv[1])\nprint('ready', flush=True)\n"
                    "time.sleep(600)\n");
  const std::string prefix = GetParam().path.substr(0, GetParam().path.rfind("/bin/"));
  ChildProcess child({"/usr/bin/env", "PYTHONHOME=" + prefix, "LD_LIBRARY_PATH=" + prefix + "/lib",
                      copy, script, copy});
  if (child.Line() != "ready") GTEST_SKIP() << "a copy of this interpreter does not start";
  usleep(50'000);
  ASSERT_EQ(attached_.Attach(child.pid()), PythonStatus::kReady) << attached_.reader().reason();
  ASSERT_EQ(Look(child.pid()), Read::kOk);
  EXPECT_EQ(Frames()[0].line, 4u);
}

TEST_P(PythonStacks, NameTheirVersion) {
  Start("import time\nprint('ready', flush=True)\ntime.sleep(600)\n");
  const std::string version = attached_.reader().version();
  EXPECT_EQ(version, AtLeast(11) ? GetParam().version : "3." + std::to_string(GetParam().minor));
}

TEST_P(PythonStacks, OfSubinterpretersAreThoseOfTheInnermost) {
  Start(
      "import time\n"
      "try:\n"
      "  import _xxsubinterpreters as sub\n"
      "except ImportError:\n"
      "  import _interpreters as sub\n"
      "def enter():\n"
      "  i = sub.create()\n"
      "  print('ready', flush=True)\n"
      "  sub.run_string(i, '''\\nimport time\\ndef within():\\n  "
      "time.sleep(600)\\nwithin()\\n''')\n"
      "enter()\n");
  for (int i = 0; i < 300; ++i) {
    if (Look(child_->pid()) == Read::kOk && Frames()[0].function == "within") break;
    usleep(10'000);
  }
  const std::vector<TextFrame> frames = Frames();
  ASSERT_GE(frames.size(), 2u);
  EXPECT_EQ(frames[0].function, "within");
  EXPECT_EQ(frames[0].line, 4u);
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(PythonStacks);
INSTANTIATE_TEST_SUITE_P(, PythonStacks, testing::ValuesIn(FindInterpreters()),
                         [](const auto& tested) { return NameOf(tested.param, tested.index); });

}  // namespace
}  // namespace gpuprobe::sampler
