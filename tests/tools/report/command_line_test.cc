// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "tools/report/command_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace gpuprobe::tools {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

CommandLine Parse(const std::vector<std::string>& arguments) {
  const absl::StatusOr<CommandLine> parsed = ParseCommandLine(arguments);
  EXPECT_TRUE(parsed.ok()) << parsed.status();
  return parsed.ok() ? *parsed : CommandLine();
}

std::string Refusal(const std::vector<std::string>& arguments) {
  const absl::StatusOr<CommandLine> parsed = ParseCommandLine(arguments);
  EXPECT_FALSE(parsed.ok());
  return std::string(parsed.status().message());
}

TEST(CommandLine, SummaryAsTextIsTheDefault) {
  const CommandLine c = Parse({"run"});
  EXPECT_EQ(c.report, ReportKind::kSummary);
  EXPECT_EQ(c.format, Format::kText);
  EXPECT_THAT(c.paths, ElementsAre("run"));
  EXPECT_FALSE(c.top.has_value());
}

TEST(CommandLine, OptionsStandAnywhereInBothForms) {
  const CommandLine c =
      Parse({"--format=json", "gaps", "a", "--min-gap", "10us", "b", "--top=0", "--device", "1",
             "--process=4711", "--from", "1.5s", "--to=@1764499530000000000", "--output", "x"});
  EXPECT_EQ(c.report, ReportKind::kGaps);
  EXPECT_EQ(c.format, Format::kJson);
  EXPECT_THAT(c.paths, ElementsAre("a", "b"));
  EXPECT_EQ(c.min_gap_ns, 10'000);
  EXPECT_EQ(c.top, 0);
  EXPECT_EQ(c.device, 1);
  EXPECT_EQ(c.pid, 4711u);
  EXPECT_EQ(c.from->ns, 1'500'000'000);
  EXPECT_FALSE(c.from->absolute);
  EXPECT_EQ(c.to->ns, 1764499530000000000);
  EXPECT_TRUE(c.to->absolute);
  EXPECT_EQ(c.output, "x");
  EXPECT_EQ(c.windows, WindowsChoice::kAuto);
  EXPECT_EQ(Parse({"x", "--windows", "always"}).windows, WindowsChoice::kAlways);
  EXPECT_EQ(Parse({"x", "--windows=never"}).windows, WindowsChoice::kNever);
}

TEST(CommandLine, AGapIsExplainedByItsRankOrByATimeInIt) {
  EXPECT_FALSE(Parse({"gaps", "x"}).explain.has_value());
  const CommandLine rank = Parse({"gaps", "--explain", "3", "x"});
  EXPECT_EQ(rank.explain->rank, 3u);
  EXPECT_FALSE(rank.explain->at.has_value());
  const CommandLine time = Parse({"gaps", "--explain=1.5s", "x"});
  EXPECT_EQ(time.explain->at->ns, 1'500'000'000);
  EXPECT_FALSE(time.explain->at->absolute);
  EXPECT_TRUE(Parse({"gaps", "--explain=@17", "x"}).explain->at->absolute);
  EXPECT_THAT(Refusal({"gaps", "--explain", "0", "x"}), HasSubstr("counted from 1"));
  EXPECT_THAT(Refusal({"gaps", "--explain", "soon", "x"}), HasSubstr("--explain"));
  EXPECT_THAT(Refusal({"waits", "--explain", "1", "x"}),
              HasSubstr("belongs to the subcommand gaps"));
}

TEST(CommandLine, OnlyTheFirstWordCanBeASubcommand) {
  const CommandLine c = Parse({"kernels", "gaps"});
  EXPECT_EQ(c.report, ReportKind::kKernels);
  EXPECT_THAT(c.paths, ElementsAre("gaps"));
  EXPECT_EQ(Parse({"./gaps"}).report, ReportKind::kSummary);
  EXPECT_THAT(Parse({"--", "gaps", "--top"}).paths, ElementsAre("gaps", "--top"));
}

TEST(CommandLine, MistakesAreNamed) {
  EXPECT_THAT(Refusal({}), HasSubstr("no PATH"));
  EXPECT_THAT(Refusal({"gaps"}), HasSubstr("no PATH"));
  EXPECT_THAT(Refusal({"--fromat", "json", "x"}), HasSubstr("--fromat"));
  EXPECT_THAT(Refusal({"-x", "x"}), HasSubstr("-x"));
  EXPECT_THAT(Refusal({"x", "--top"}), HasSubstr("needs a value"));
  EXPECT_THAT(Refusal({"x", "--top", "ten"}), HasSubstr("ten"));
  EXPECT_THAT(Refusal({"x", "--top=-1"}), HasSubstr("-1"));
  EXPECT_THAT(Refusal({"x", "--device", "99999999999"}), HasSubstr("99999999999"));
  EXPECT_THAT(Refusal({"x", "--format", "xml"}), HasSubstr("text, json or csv"));
  EXPECT_THAT(Refusal({"x", "--from", "3"}), HasSubstr("unit"));
  EXPECT_THAT(Refusal({"x", "--from", "@x"}), HasSubstr("nanoseconds"));
  EXPECT_THAT(Refusal({"x", "--min-gap", "many"}), HasSubstr("--min-gap"));
  EXPECT_THAT(Refusal({"x", "--output="}), HasSubstr("file name"));
  EXPECT_THAT(Refusal({"x", "--windows", "yes"}), HasSubstr("auto, always or never"));
}

TEST(CommandLine, HelpAndVersionNeedNoPath) {
  EXPECT_TRUE(Parse({"--help"}).help);
  EXPECT_TRUE(Parse({"gaps", "-h"}).help);
  EXPECT_TRUE(Parse({"--version"}).version);
}

TEST(CommandLine, HelpNamesEverySubcommandAndExitCode) {
  const std::string help = HelpText();
  for (const char* word :
       {"summary", "gaps",      "waits",    "kernels",    "copies",     "api",      "info",
        "dump",    "--format",  "--device", "--process",  "--from",     "--to",     "--min-gap",
        "--top",   "--windows", "--output", "0 complete", "1 unusable", "3 partial"}) {
    EXPECT_THAT(help, HasSubstr(word));
  }
}

}  // namespace
}  // namespace gpuprobe::tools
