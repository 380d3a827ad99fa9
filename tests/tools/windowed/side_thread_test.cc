// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "tools/windowed/side_thread.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

namespace gpuprobe::tools {
namespace {

TEST(SideThread, DoesEachPieceOnceBeforeWaitReturns) {
  for (const bool wanted : {true, false}) {
    SideThread side(wanted);
    int done = 0;
    for (int i = 0; i < 1'000; ++i) {
      side.Begin([&done] { ++done; });
      side.Wait();
      ASSERT_EQ(done, i + 1);
    }
    side.Wait();
    EXPECT_EQ(done, 1'000);
  }
}

TEST(SideThread, WorksBesideItsCaller) {
  SideThread side(true);
  std::atomic<bool> begun = false, go_on = false;
  side.Begin([&] {
    begun = true;
    while (!go_on) std::this_thread::yield();
  });
  while (!begun) std::this_thread::yield();
  go_on = true;
  side.Wait();
}

TEST(SideThread, WithoutAThreadWorksWhereItIsWaitedFor) {
  SideThread side(false);
  std::thread::id worker;
  side.Begin([&worker] { worker = std::this_thread::get_id(); });
  EXPECT_EQ(worker, std::thread::id());
  side.Wait();
  EXPECT_EQ(worker, std::this_thread::get_id());
}

TEST(SideThread, FinishesWhatWasBegunBeforeItGoes) {
  int done = 0;
  {
    SideThread side(true);
    side.Begin([&done] { ++done; });
  }
  EXPECT_EQ(done, 1);
}

}  // namespace
}  // namespace gpuprobe::tools
