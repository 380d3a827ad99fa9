// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "tools/run/options.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace gpuprobe::run {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;

Options Parsed(const std::vector<std::string>& arguments) {
  Options options;
  std::string error;
  EXPECT_TRUE(ParseOptions(arguments, &options, &error)) << error;
  return options;
}

std::string Refused(const std::vector<std::string>& arguments) {
  Options options;
  std::string error;
  EXPECT_FALSE(ParseOptions(arguments, &options, &error));
  return error;
}

TEST(OptionsTest, CommandAloneGetsTheDefaults) {
  const Options options = Parsed({"python3", "train.py"});
  EXPECT_THAT(options.command, ElementsAre("python3", "train.py"));
  EXPECT_EQ(options.door, Door::kPreload);
  EXPECT_TRUE(options.report);
  EXPECT_EQ(options.report_to, "stderr");
  EXPECT_THAT(options.variables, IsEmpty());
}

TEST(OptionsTest, WhatFollowsTheCommandIsTheCommands) {
  EXPECT_THAT(Parsed({"-q", "ls", "-o", "x", "--", "--help"}).command,
              ElementsAre("ls", "-o", "x", "--", "--help"));
}

TEST(OptionsTest, DoubleDashEndsOptions) {
  EXPECT_THAT(Parsed({"--", "-odd-name", "--", "x"}).command, ElementsAre("-odd-name", "--", "x"));
}

TEST(OptionsTest, ValuesMayBeSeparateOrAttached) {
  EXPECT_EQ(Parsed({"-o", "a", "true"}).output, "a");
  EXPECT_EQ(Parsed({"-oa", "true"}).output, "a");
  EXPECT_EQ(Parsed({"--output", "a", "true"}).output, "a");
  EXPECT_EQ(Parsed({"--output=a=b", "true"}).output, "a=b");
  EXPECT_EQ(Parsed({"--report-to=stdout", "true"}).report_to, "stdout");
  EXPECT_EQ(Parsed({"--lib=/x/y.so", "true"}).library, "/x/y.so");
}

TEST(OptionsTest, VariablesKeepTheirOrderAndMayBeEmptyOrHoldEqualsSigns) {
  EXPECT_THAT(Parsed({"-e", "A=1", "--env=B=", "-eC=x=y", "true"}).variables,
              ElementsAre(Pair("A", "1"), Pair("B", ""), Pair("C", "x=y")));
}

TEST(OptionsTest, SwitchesAreTaken) {
  const Options options = Parsed({"--no-report", "--quiet", "--door", "injection", "true"});
  EXPECT_FALSE(options.report);
  EXPECT_TRUE(options.quiet);
  EXPECT_EQ(options.door, Door::kInjection);
}

TEST(OptionsTest, HelpAndVersionNeedNoCommand) {
  EXPECT_TRUE(Parsed({"--help"}).help);
  EXPECT_TRUE(Parsed({"-h"}).help);
  EXPECT_TRUE(Parsed({"--version"}).version);
}

TEST(OptionsTest, MistakesAreNamed) {
  EXPECT_THAT(Refused({}), HasSubstr("no command"));
  EXPECT_THAT(Refused({"-q", "--"}), HasSubstr("no command"));
  EXPECT_THAT(Refused({"--nonsense", "true"}), HasSubstr("--nonsense"));
  EXPECT_THAT(Refused({"-x", "true"}), HasSubstr("-x"));
  EXPECT_THAT(Refused({"--no-report=1", "true"}), HasSubstr("--no-report=1"));
  EXPECT_THAT(Refused({"-o"}), HasSubstr("needs a value"));
  EXPECT_THAT(Refused({"--output=", "true"}), HasSubstr("needs a value"));
  EXPECT_THAT(Refused({"-e", "NAME", "true"}), HasSubstr("NAME=VALUE"));
  EXPECT_THAT(Refused({"-e", "=1", "true"}), HasSubstr("NAME=VALUE"));
  EXPECT_THAT(Refused({"--door", "window", "true"}), HasSubstr("window"));
}

TEST(OptionsTest, HelpNamesEveryOption) {
  for (const char* name : {"--output", "--env", "--door", "--lib", "--report-to", "--no-report",
                           "--quiet", "--help", "--version"}) {
    EXPECT_THAT(kHelp, HasSubstr(name));
  }
}

}  // namespace
}  // namespace gpuprobe::run
