// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// What is read from damaged trace events, and what is said of the rest.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/import/kineto_files.h"
#include "tools/import/text/exact_time.h"
#include "tools/import/text/json_scan.h"

namespace gpuprobe::tools {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;

constexpr int kRows = 200;

std::vector<std::string> Rows() {
  std::vector<std::string> rows;
  for (int i = 0; i < kRows; ++i) {
    rows.push_back(Kernel("kernel<" + std::to_string(i) + ">(int, \\\"x\\\")",
                          std::to_string(1000 + 10 * i) + ".125", "5.5", i + 1));
  }
  return rows;
}

class Kineto : public KinetoTest {
 protected:
  // Loads what must be partial, and says so with a place.
  LoadedRun LoadPartial(const std::string& content) {
    LoadedRun run = Load(content);
    EXPECT_FALSE(run.complete());
    EXPECT_FALSE(run.damage.empty());
    EXPECT_FALSE(run.timeline.inputs.empty() || run.timeline.inputs[0].problem.empty());
    return run;
  }
};

TEST_F(Kineto, CutAnywhereAllRowsBeforeTheCutAreRead) {
  std::vector<std::string> some = Rows();
  some.resize(4);
  const std::string text = Document(some, R"("schemaVersion": 1)");
  const size_t events = text.find('[');
  std::vector<size_t> ends;
  for (const std::string& row : some) ends.push_back(text.find(row) + row.size());
  for (size_t cut = events + 1; cut < text.size() - 2; cut += 3) {
    const LoadedRun run = LoadPartial(text.substr(0, cut));
    const auto whole =
        std::count_if(ends.begin(), ends.end(), [cut](size_t e) { return e <= cut; });
    EXPECT_EQ(run.timeline.ops.size(), static_cast<size_t>(whole)) << cut;
    EXPECT_EQ(run.damage.back().kind, "truncated") << cut;
    EXPECT_EQ(run.damage.back().offset + run.damage.back().bytes, cut);
  }
}

TEST_F(Kineto, ATruncatedFileConcludesNothingFromSilence) {
  std::vector<std::string> rows = Rows();
  const std::string text = Document(rows);
  const LoadedRun run = LoadPartial(text.substr(0, text.size() / 2));
  ASSERT_EQ(run.timeline.blinds.size(), 1u);
  EXPECT_EQ(run.timeline.blinds[0].begin_ns, run.timeline.processes[0].capture_begin_ns);
  EXPECT_EQ(run.timeline.blinds[0].end_ns, run.timeline.processes[0].capture_end_ns);
  EXPECT_FALSE(run.timeline.processes[0].ended);
}

// One way to damage a row.
struct Damage {
  const char* what;
  std::string (*apply)(std::string row);
  bool lost;  // the row itself
};

std::string Replaced(std::string row, const std::string& from, const std::string& to) {
  const size_t at = row.find(from);
  EXPECT_NE(at, std::string::npos) << from;
  return at == std::string::npos ? row : row.replace(at, from.size(), to);
}

const Damage kDamages[] = {
    {"name not closed", [](std::string r) { return Replaced(r, R"raw(x\")")raw", "x"); }, true},
    {"quotes not escaped", [](std::string r) { return Replaced(r, R"(\"x\")", R"("x")"); }, false},
    {"no comma", [](std::string r) { return Replaced(r, R"(0, "tid")", R"(0 "tid")"); }, true},
    {"no colon", [](std::string r) { return Replaced(r, R"("tid":)", R"("tid")"); }, true},
    {"no opening quote", [](std::string r) { return Replaced(r, R"("tid":)", R"(tid":)"); }, true},
    {"cut", [](std::string r) { return r.substr(0, r.size() / 2); }, true},
    {"cut in the arguments", [](std::string r) { return r.substr(0, r.size() - 8); }, true},
    {"zeros", [](std::string r) { return r.replace(40, 60, std::string(60, '\0')); }, true},
    {"noise",
     [](std::string r) { return r.replace(2, 30, "\x93\x07{]}\"[[,:\\\x80 noise noise!!"); }, true},
    {"gone but for its end", [](std::string r) { return r.substr(r.size() - 20); }, true},
};

TEST_F(Kineto, OneDamagedRowCostsNoOther) {
  for (const Damage& damage : kDamages) {
    std::vector<std::string> rows = Rows();
    std::vector<int64_t> lost;
    for (int i = 5; i < kRows; i += 20) {
      rows[static_cast<size_t>(i)] = damage.apply(rows[static_cast<size_t>(i)]);
      if (damage.lost) lost.push_back((1000 + 10 * i) * 1000 + 125);
    }
    const LoadedRun run = LoadPartial(Document(rows));
    std::vector<int64_t> read, wanted;
    for (const GpuOp& op : run.timeline.ops) read.push_back(op.start_ns);
    for (int i = 0; i < kRows; ++i) {
      const int64_t at = (1000 + 10 * i) * 1000 + 125;
      if (std::find(lost.begin(), lost.end(), at) == lost.end()) wanted.push_back(at);
    }
    EXPECT_EQ(read, wanted) << damage.what;
    EXPECT_GE(run.damage.size(), 10u) << damage.what;
    EXPECT_EQ(run.timeline.inputs[0].damaged_bytes == 0, !damage.lost) << damage.what;
  }
}

TEST_F(Kineto, DamagedRowsHideTheirOwnTimeAlone) {
  std::vector<std::string> rows = Rows();
  rows[50] = Replaced(rows[50], R"("tid":)", R"("tid")");
  const LoadedRun run = LoadPartial(Document(rows));
  ASSERT_EQ(run.timeline.blinds.size(), 1u);
  EXPECT_EQ(run.timeline.blinds[0].begin_ns, 1'500'125);
  EXPECT_EQ(run.timeline.blinds[0].end_ns, 1'505'625);
}

TEST_F(Kineto, DamagedHostRowsHideNoGpuWork) {
  std::vector<std::string> rows = Rows();
  rows[50] = Replaced(Call("cudaFree", "1500", "2", 1), R"("tid":)", R"("tid")");
  const LoadedRun run = LoadPartial(Document(rows));
  EXPECT_TRUE(run.timeline.blinds.empty());
}

TEST_F(Kineto, DamageInFrontOfTheEventsCostsNoEvent) {
  const std::string text = Document(Rows(), R"("deviceProperties": [{"id": 0, "name": x"}])");
  EXPECT_EQ(LoadPartial(text).timeline.ops.size(), static_cast<size_t>(kRows));
}

TEST_F(Kineto, BareNansAndInfinitiesAreDroppedWhereTheyDoNotMatter) {
  std::vector<std::string> rows;
  int i = 0;
  for (const char* value :
       {"NaN", "nan", "inf", "-inf", "Infinity", "-Infinity", "1e999", "null"}) {
    ++i;
    rows.push_back(
        Kernel("k", std::to_string(i * 10), "1", i, std::string(R"(, "occupancy": )") + value));
  }
  const LoadedRun run = Load(Document(rows));
  EXPECT_EQ(run.timeline.ops.size(), 8u);
  EXPECT_TRUE(run.complete());
}

TEST_F(Kineto, RowsWithoutUsableTimesAreCountedAndNamed) {
  const auto row = [](const std::string& times) {
    return R"({"ph": "X", "cat": "kernel", "name": "k", )" + times +
           R"( "args": {"device": 0, "stream": 7}})";
  };
  const std::vector<std::string> rows = {row(R"("ts": 1, "dur": 1,)"),
                                         row(R"("ts": NaN, "dur": 1,)"),
                                         row(R"("ts": 1, "dur": inf,)"),
                                         row(R"("ts": 5,)"),
                                         row(R"("dur": 5,)"),
                                         row(R"("ts": -5, "dur": 1,)"),
                                         row(R"("ts": 5, "dur": -1,)"),
                                         row(R"("ts": "x", "dur": 1,)"),
                                         row(R"("ts": 99999999999999999999, "dur": 1,)")};
  const LoadedRun run = LoadPartial(Document(rows));
  EXPECT_EQ(run.timeline.ops.size(), 1u);
  EXPECT_EQ(run.timeline.untimed.size(), rows.size() - 1);
  EXPECT_EQ(run.damage.size(), rows.size() - 1);
  EXPECT_EQ(run.damage[0].kind, "row");
  EXPECT_EQ(run.damage[0].offset, Document(rows).find(rows[1]));
  EXPECT_EQ(run.damage[0].bytes, rows[1].size());
}

TEST_F(Kineto, NamesOfAnyBytesBecomeValidText) {
  const std::vector<std::string> rows = {Kernel("bad \xff\xfe byte", "1", "1", 1),
                                         Kernel("lone \\ud800 surrogate", "3", "1", 2),
                                         Kernel("pair \\ud83d\\ude00", "5", "1", 3),
                                         Kernel("raw \x01\n control", "7", "1", 4),
                                         Kernel("zero \\u0000 \\n \\/ \\q", "9", "1", 5),
                                         Kernel(std::string(1 << 20, 'n'), "11", "1", 6),
                                         Kernel("", "13", "1", 7)};
  const LoadedRun run = Load(Document(rows));
  const auto& names = run.timeline.names;
  ASSERT_EQ(names.size(), rows.size());
  EXPECT_EQ(names[0], "bad \xef\xbf\xbd\xef\xbf\xbd byte");
  EXPECT_EQ(names[1], "lone \xef\xbf\xbd surrogate");
  EXPECT_EQ(names[2], "pair \xf0\x9f\x98\x80");
  EXPECT_EQ(names[3], "raw \x01\n control");
  EXPECT_EQ(names[4], std::string("zero \0 \n / \\q", 13));
  EXPECT_EQ(names[5].size(), size_t{1} << 20);
  EXPECT_THAT(run.notices, Contains(HasSubstr("raw control characters")));
  EXPECT_TRUE(run.complete());
}

TEST_F(Kineto, RowsAcrossReadingWindowsAreWhole) {
  // Lengths that are coprime to any window, so that every place of a row meets a border.
  std::vector<std::string> rows;
  constexpr int kMany = 12'000;
  for (int i = 0; i < kMany; ++i) {
    rows.push_back(Kernel("k" + std::string(static_cast<size_t>(i % 97), 'x'),
                          std::to_string(i * 10), "1", i + 1,
                          R"(, "nested": [[1, 2], {"a": "}]\"{["}])"));
  }
  const LoadedRun run = Load(Document(rows));
  EXPECT_EQ(run.timeline.ops.size(), static_cast<size_t>(kMany));
  EXPECT_EQ(run.timeline.names.size(), 97u);
  EXPECT_TRUE(run.complete());
}

TEST_F(Kineto, TruncatedGzipGivesWhatItHolds) {
  std::vector<std::string> rows;
  for (int i = 0; i < 5000; ++i) {
    rows.push_back(
        Kernel("k" + std::to_string(i * 2654435761u), std::to_string(i * 10), "1", i + 1));
  }
  const std::string packed = Gzip(Document(rows));
  const LoadedRun run = LoadPartial(packed.substr(0, packed.size() / 2));
  EXPECT_GT(run.timeline.ops.size(), 500u);
  EXPECT_LT(run.timeline.ops.size(), 5000u);
  EXPECT_THAT(run.damage.back().detail, HasSubstr("ends inside a gzip member"));
}

TEST_F(Kineto, DamagedPackedFilesEndInADecision) {
  const std::string packed = Gzip(Document(Rows())), frames = Zstd(Document(Rows()));
  for (const std::string& whole : {packed, frames}) {
    for (size_t at = 0; at < whole.size(); at += 37) {
      std::string damaged = whole;
      damaged[at] = static_cast<char>(damaged[at] ^ 0x55);
      const auto run = Try(damaged);
      if (!run.ok()) continue;
      EXPECT_LE(run->timeline.ops.size(), static_cast<size_t>(kRows));
    }
  }
  const LoadedRun run = Load(packed + "garbage behind the last member");
  EXPECT_EQ(run.timeline.ops.size(), static_cast<size_t>(kRows));
  EXPECT_FALSE(run.complete());
}

TEST_F(Kineto, UnusableFilesAreRefusedInOneSentence) {
  for (const std::string& content :
       {std::string(R"({"name": "package", "version": "1.0"})"), std::string("[1, 2, 3]"),
        std::string(R"([{"a": 1}])"), std::string(R"({"traceEvents": 5, "a": [)"),
        std::string("{\0\"\0t\0r\0", 8), Gzip("no JSON at all"), std::string("[[[[[[")}) {
    const auto run = Try(content);
    EXPECT_FALSE(run.ok()) << content;
    const std::string message(run.status().message());
    EXPECT_THAT(message, HasSubstr("trace.json"));
    EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  }
}

TEST_F(Kineto, OneUnusableFileAmongSeveralMakesTheRunPartial) {
  const std::string good = Save(Document(Rows()), "good.json");
  const std::string bad = Save(R"({"name": "package"})", "bad.json");
  const auto run = TryPaths({good, bad});
  ASSERT_TRUE(run.ok()) << run.status();
  EXPECT_EQ(run->unusable.size(), 1u);
  EXPECT_FALSE(run->complete());
  EXPECT_EQ(run->timeline.ops.size(), static_cast<size_t>(kRows));
}

TEST(ExactTime, MicrosecondsBecomeNanosecondsExactly) {
  const std::pair<const char*, int64_t> cases[] = {{"0", 0},
                                                   {"1", 1000},
                                                   {"12.0", 12000},
                                                   {"0.001", 1},
                                                   {"1.5e3", 1500000},
                                                   {"15e-1", 1500},
                                                   {"1E+2", 100000},
                                                   {"-0.125", -125},
                                                   {"000012", 12000},
                                                   {".5", 500},
                                                   {"5.", 5000},
                                                   {" 7 ", 7000},
                                                   {"1712195503123456.789", 1712195503123456789},
                                                   {"9223372036854775.807", INT64_MAX},
                                                   // More than three decimals: half to even.
                                                   {"0.0005", 0},
                                                   {"0.0015", 2},
                                                   {"0.0025", 2},
                                                   {"0.00251", 3},
                                                   {"1.0005", 1000},
                                                   {"1.0015", 1002},
                                                   {"0.00049", 0},
                                                   {"1.9999", 2000},
                                                   {"0.0004999999999999999999999", 0},
                                                   {"1e-9", 0}};
  for (const auto& [text, ns] : cases) EXPECT_EQ(NanosecondsOf(text), ns) << text;
  for (const char* text : {"", "NaN", "inf", "-Infinity", "1e999", "x", "1.2.3", "1e", "-", "0x10",
                           "9223372036854775.808", "99999999999999999999"}) {
    EXPECT_EQ(NanosecondsOf(text), std::nullopt) << text;
  }
}

TEST(ExactTime, AgreesWithIntegerArithmeticEverywhere) {
  uint64_t state = 1;
  for (int i = 0; i < 20'000; ++i) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    const int64_t ns = static_cast<int64_t>(state >> (1 + state % 60));
    char text[40];
    std::snprintf(text, sizeof text, "%lld.%03lld", static_cast<long long>(ns / 1000),
                  static_cast<long long>(ns % 1000));
    bool rounded = false;
    ASSERT_EQ(NanosecondsOf(text, &rounded), ns) << text;
    ASSERT_FALSE(rounded);
  }
}

TEST(ExactTime, IntegersMayBeHexadecimalOrWholeDecimals) {
  EXPECT_EQ(IntegerOf("7.0"), 7);
  EXPECT_EQ(IntegerOf("0x31"), 0x31);
  EXPECT_EQ(IntegerOf("-1"), -1);
  EXPECT_EQ(IntegerOf("18446744073709551615"), -1);  // all 64 bits
  EXPECT_EQ(IntegerOf("18446744073709551616"), std::nullopt);
  EXPECT_EQ(IntegerOf("7.5"), std::nullopt);
  EXPECT_EQ(IntegerOf(""), std::nullopt);
}

// The block-wise skip against the plain one, over texts with brackets and quotes in all places.
TEST(JsonCursor, SkipsWhatAPlainReaderSkips) {
  uint64_t state = 7;
  const auto next = [&state](uint64_t below) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (state >> 33) % below;
  };
  constexpr std::string_view kPieces[] = {R"("a")",      R"("\\")", R"("\"")", R"("{[")",
                                          R"("]}")",     "1",       "-2.5",    "NaN",
                                          R"("x\\\"y")", "[]",      "{}",      R"("")"};
  for (int round = 0; round < 3'000; ++round) {
    std::string text(next(70), ' ');
    const size_t begin = text.size();
    text += "[";
    const uint64_t count = next(40);
    for (uint64_t i = 0; i < count; ++i) {
      if (i > 0) text += next(2) == 0 ? "," : ", ";
      if (next(3) == 0) {
        text += R"({"k": )" + std::string(kPieces[next(12)]) + "}";
      } else {
        text += kPieces[next(12)];
      }
    }
    text += "]";
    const size_t end = text.size();
    text += R"(, "after": 1})";
    std::string padded = text + std::string(kJsonPadding, '"');
    for (const bool lenient : {false, true}) {
      JsonCursor cursor(padded.data() + begin, padded.data() + text.size(), lenient);
      ASSERT_EQ(cursor.Skip(), Scan::kOk) << text;
      ASSERT_EQ(cursor.at() - padded.data(), static_cast<ptrdiff_t>(end)) << text;
    }
    // Cut anywhere it asks for more, and never reads on.
    const size_t cut = begin + 1 + next(end - begin - 1);
    JsonCursor cursor(padded.data() + begin, padded.data() + cut);
    EXPECT_EQ(cursor.Skip(), Scan::kMore) << text.substr(0, cut);
  }
}

TEST_F(KinetoTest, ZerosInThePlaceOfRowsAreDamage) {
  const absl::StatusOr<LoadedRun> zeros = Try(std::string("[\0\0\0]", 5));
  EXPECT_TRUE(!zeros.ok() || !zeros->complete());
  const std::string row = Kernel("k", "1", "1", 1);
  const LoadedRun run = Load("[" + row + "," + std::string(100, '\0') + "," + row + "]");
  EXPECT_EQ(run.timeline.ops.size(), 2u);
  EXPECT_FALSE(run.complete());
  EXPECT_GE(run.timeline.inputs[0].damaged_bytes, 100u);
}

}  // namespace
}  // namespace gpuprobe::tools
