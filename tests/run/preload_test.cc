// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "tools/run/preload.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

namespace gpuprobe::run {
namespace {

constexpr char kOurs[] = "/opt/gpuprobe/lib/libgpuprobe.so";

TEST(AddToPreloadTest, EmptyListHoldsOursAlone) { EXPECT_EQ(AddToPreload("", kOurs), kOurs); }

TEST(AddToPreloadTest, OthersStayInFrontAndUntouched) {
  EXPECT_EQ(AddToPreload("/usr/lib/libasan.so.8", kOurs),
            "/usr/lib/libasan.so.8:/opt/gpuprobe/lib/libgpuprobe.so");
  EXPECT_EQ(AddToPreload("a.so b.so:c.so", kOurs),
            "a.so b.so:c.so:/opt/gpuprobe/lib/libgpuprobe.so");
}

TEST(AddToPreloadTest, OurEntryIsReplacedWhereItStands) {
  EXPECT_EQ(AddToPreload("a.so b.so:libgpuprobe.so:c.so", kOurs),
            "a.so b.so:/opt/gpuprobe/lib/libgpuprobe.so:c.so");
  EXPECT_EQ(AddToPreload("/old/lib/libgpuprobe.so c.so", kOurs),
            "/opt/gpuprobe/lib/libgpuprobe.so c.so");
  EXPECT_EQ(AddToPreload(kOurs, kOurs), kOurs);
}

TEST(AddToPreloadTest, SimilarNamesAreNotOurs) {
  EXPECT_EQ(AddToPreload("/x/notlibgpuprobe.so", kOurs),
            "/x/notlibgpuprobe.so:/opt/gpuprobe/lib/libgpuprobe.so");
  EXPECT_EQ(AddToPreload("/x/libgpuprobe.so.bak", kOurs),
            "/x/libgpuprobe.so.bak:/opt/gpuprobe/lib/libgpuprobe.so");
  EXPECT_EQ(AddToPreload("/libgpuprobe.so/x", kOurs),
            "/libgpuprobe.so/x:/opt/gpuprobe/lib/libgpuprobe.so");
}

TEST(AddToPreloadTest, EmptyEntriesAndSeparatorsAtTheEdgesAreKept) {
  EXPECT_EQ(AddToPreload(" a.so::b.so ", kOurs), " a.so::b.so :/opt/gpuprobe/lib/libgpuprobe.so");
  EXPECT_EQ(AddToPreload(":", kOurs), "::/opt/gpuprobe/lib/libgpuprobe.so");
}

TEST(FitsInPreloadTest, WhatTheLoaderSplitsOrExpandsDoesNotFit) {
  EXPECT_TRUE(FitsInPreload("/opt/gpuprobe-1.0/lib/libgpuprobe.so"));
  EXPECT_FALSE(FitsInPreload("/opt/my tools/libgpuprobe.so"));
  EXPECT_FALSE(FitsInPreload("/opt/a:b/libgpuprobe.so"));
  EXPECT_FALSE(FitsInPreload("/opt/$LIB/libgpuprobe.so"));
}

TEST(PreloadAliasTest, LeadsToTheTargetAndLeavesNothingBehind) {
  std::string link;
  {
    PreloadAlias alias;
    std::string error;
    ASSERT_TRUE(alias.Create("/some where/libgpuprobe.so", &error)) << error;
    link = alias.path();
    EXPECT_TRUE(FitsInPreload(link));
    EXPECT_EQ(std::filesystem::read_symlink(link), "/some where/libgpuprobe.so");
  }
  EXPECT_FALSE(std::filesystem::exists(std::filesystem::path(link).parent_path()));
}

}  // namespace
}  // namespace gpuprobe::run
