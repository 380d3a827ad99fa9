// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// What a reader remembers of a thread tells it where to read and never what is there: threads whose
// functions, frames and stacks are gone, or others at the same addresses, at each step. A step ends
// when the test says so, so that what the stack is at a look is known.
#include <signal.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "tests/sampler/python/python_fixture.h"

namespace gpuprobe::sampler {
namespace {

// wait(text): prints the text, and returns when the test has sent a signal.
constexpr char kWait[] =
    "import signal, sys, threading, time\n"
    "signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])\n"
    "sys.setrecursionlimit(20000)\n"
    "kind = type(lambda: 0)\n"
    "def wait(text):\n"
    "  print(text, flush=True)\n"
    "  signal.sigwait([signal.SIGUSR1])\n"
    "print('ready', flush=True)\n";

class PythonRemembered : public LivePython {
 protected:
  void Start(const std::string& script) { LivePython::Start(kWait + script); }
  void Step() { ASSERT_EQ(kill(child_->pid(), SIGUSR1), 0); }

  // The frames, innermost first, from the caller of wait on.
  void LookAt(pid_t tid, std::vector<TextFrame>* frames) {
    // It may be on its way from printing to waiting.
    Read read = Read::kTorn;
    for (int i = 0; i < 100 && read == Read::kTorn; ++i) {
      usleep(i > 0 ? 1'000 : 300);
      read = Look(tid);
    }
    ASSERT_EQ(read, Read::kOk);
    *frames = Frames();
    size_t wait = 0;
    while (wait < frames->size() && (*frames)[wait].function != "wait") ++wait;
    ASSERT_LT(wait, frames->size());
    frames->erase(frames->begin(), frames->begin() + static_cast<ptrdiff_t>(wait) + 1);
  }
};

TEST_P(PythonRemembered, AFunctionAtTheAddressOfAnotherIsItself) {
  Start(
      "base = compile('def f(wait, name):\\n  wait(name)\\n', 'x', 'exec').co_consts[0]\n"
      "i = 0\n"
      "while True:\n"
      "  i += 1\n"
      "  name = 'name%04d' % i\n"
      "  more = {'co_qualname': name} if hasattr(base, 'co_qualname') else {}\n"
      "  kind(base.replace(co_name=name, co_filename='file' + name, co_firstlineno=10 * i,\n"
      "                    **more), {})(wait, name)\n");
  for (uint32_t step = 1; step <= 200; ++step) {
    const std::string name = child_->Line();
    for (int look = 0; look < 4; ++look) {
      std::vector<TextFrame> frames;
      ASSERT_NO_FATAL_FAILURE(LookAt(child_->pid(), &frames)) << name;
      ASSERT_EQ(frames.size(), 2u) << name;
      ASSERT_EQ(frames[0], (TextFrame{name, "file" + name, 10 * step + 1})) << "look " << look;
      ASSERT_EQ(frames[1].function, "<module>");
    }
    Step();
  }
}

// A hundred functions that call each other, new ones at each step, in large files of their own; the
// memory of those before is given back.
TEST_P(PythonRemembered, AStackOfNewFunctionsIsTheirs) {
  Start(
      "def chain(step, count):\n"
      "  names = {'wait': wait}\n"
      "  for i in range(count):\n"
      "    called = 's%d_%d(text)' % (step, i - 1) if i else 'wait(text)'\n"
      "    filler = ' x = %r\\n' % ('x' * 3000 + str(i))\n"
      "    text = 'def s%d_%d(text):\\n' % (step, i) + filler + ' ' + called + '\\n x = 1\\n'\n"
      "    exec(compile(text, 'file%d_%d' % (step, i), 'exec'), names)\n"
      "  names['s%d_%d' % (step, count - 1)]('%d %d' % (step, count))\n"
      "  names.clear()\n"
      "step = 0\n"
      "while True:\n"
      "  step += 1\n"
      "  chain(step, 1 + step * 37 % 100)\n");
  for (int step = 1; step <= 40; ++step) {
    int number = 0, count = 0;
    ASSERT_EQ(sscanf(child_->Line().c_str(), "%d %d", &number, &count), 2);
    for (int look = 0; look < 3; ++look) {
      std::vector<TextFrame> frames;
      ASSERT_NO_FATAL_FAILURE(LookAt(child_->pid(), &frames)) << step;
      ASSERT_EQ(frames.size(), static_cast<size_t>(count) + 2);
      for (int i = 0; i < count; ++i) {
        const std::string which = std::to_string(number) + "_" + std::to_string(i);
        ASSERT_EQ(frames[static_cast<size_t>(i)], (TextFrame{"s" + which, "file" + which, 3}));
      }
    }
    Step();
  }
}

// From 3.11 on frames lie in chunks that are given back when they are left; before, each is an
// object.
TEST_P(PythonRemembered, AShallowStackAfterADeepOneIsWhole) {
  Start(
      "def down(n):\n"
      "  if n == 0:\n"
      "    return wait('deep')\n"
      "  down(n - 1)\n"
      "def shallow():\n"
      "  wait('shallow')\n"
      "while True:\n"
      "  down(5000)\n"
      "  shallow()\n");
  for (int step = 0; step < 12; ++step) {
    const bool deep = step % 2 == 0;
    ASSERT_EQ(child_->Line(), deep ? "deep" : "shallow");
    for (int look = 0; look < 3; ++look) {
      std::vector<TextFrame> frames;
      ASSERT_NO_FATAL_FAILURE(LookAt(child_->pid(), &frames)) << step;
      EXPECT_EQ(stack_.cut, deep);
      if (deep) {
        ASSERT_EQ(stack_.depth, kMaxStackDepth);
        ASSERT_GT(frames.size(), kMaxStackDepth - 10);
        for (const TextFrame& frame : frames) ASSERT_EQ(frame.function, "down");
      } else {
        ASSERT_EQ(frames.size(), 2u);
        ASSERT_EQ(frames[0].function, "shallow");
        ASSERT_EQ(frames[1].function, "<module>");
      }
    }
    Step();
  }
}

TEST_P(PythonRemembered, OfMoreThreadsThanArePlacesEachIsItself) {
  constexpr int kThreads = 80;
  Start(
      "stay = threading.Event()\n"
      "names = {'wait': stay.wait}\n"
      "for i in range(80):\n"
      "  exec('def wait%d():\\n wait()\\ndef outer%d():\\n wait%d()' % (i, i, i), names)\n"
      "threads = [threading.Thread(target=names['outer%d' % i], daemon=True) for i in range(80)]\n"
      "for t in threads: t.start()\n"
      "time.sleep(0.2)\n"
      "for t in threads: print(t.native_id, flush=True)\n"
      "wait('all')\n");
  std::vector<pid_t> tids;
  for (int i = 0; i < kThreads; ++i) tids.push_back(atoi(child_->Line().c_str()));
  ASSERT_EQ(child_->Line(), "all");
  for (int round = 0; round < 4; ++round) {
    for (int i = 0; i < kThreads; ++i) {
      ASSERT_EQ(Look(tids[static_cast<size_t>(i)]), Read::kOk);
      const std::vector<TextFrame> frames = Frames();
      size_t own = 0;
      while (own < frames.size() && frames[own].function != "wait" + std::to_string(i)) ++own;
      ASSERT_LT(own + 1, frames.size()) << i;
      ASSERT_EQ(frames[own + 1].function, "outer" + std::to_string(i));
      ASSERT_EQ(frames.back().function.substr(frames.back().function.rfind('.') + 1), "_bootstrap");
    }
  }
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(PythonRemembered);
INSTANTIATE_TEST_SUITE_P(, PythonRemembered, testing::ValuesIn(FindInterpreters()),
                         [](const auto& tested) { return NameOf(tested.param, tested.index); });

}  // namespace
}  // namespace gpuprobe::sampler
