// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Units, text, JSON, tables and kernel names: the leaves of every report.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <string>

#include "tools/figures/activity_stats.h"
#include "tools/format/format_json.h"
#include "tools/format/format_table.h"
#include "tools/format/format_text.h"
#include "tools/format/format_units.h"
#include "tools/format/kernel_name.h"

namespace gpuprobe::tools {
namespace {

using ::testing::HasSubstr;

TEST(FormatDuration, HasThreeDigitsAndTheLargestUnit) {
  EXPECT_EQ(FormatDuration(0), "0");
  EXPECT_EQ(FormatDuration(1), "1 ns");
  EXPECT_EQ(FormatDuration(999), "999 ns");
  EXPECT_EQ(FormatDuration(1'000), "1.00 us");
  EXPECT_EQ(FormatDuration(12'345), "12.3 us");
  EXPECT_EQ(FormatDuration(151'400'000), "151 ms");
  EXPECT_EQ(FormatDuration(6'407'809'558), "6.41 s");
  EXPECT_EQ(FormatDuration(1'234'567'000'000), "1,235 s");
  EXPECT_EQ(FormatDuration(-2'500), "-2.50 us");
}

TEST(FormatDuration, NeverRoundsToAThousandOfAUnit) {
  EXPECT_EQ(FormatDuration(999'499), "999 us");
  EXPECT_EQ(FormatDuration(999'500), "1.00 ms");
  EXPECT_EQ(FormatDuration(999'999'999), "1.00 s");
  EXPECT_EQ(FormatDuration(9'999), "10.0 us");
  EXPECT_EQ(FormatDuration(99'960), "100 us");
}

TEST(FormatDuration, TakesTheExtremes) {
  EXPECT_EQ(FormatDuration(std::numeric_limits<int64_t>::max()), "9,223,372,037 s");
  EXPECT_EQ(FormatDuration(std::numeric_limits<int64_t>::min()), "-9,223,372,037 s");
}

TEST(FormatCount, SeparatesThousands) {
  EXPECT_EQ(FormatCount(0), "0");
  EXPECT_EQ(FormatCount(999), "999");
  EXPECT_EQ(FormatCount(4'096), "4,096");
  EXPECT_EQ(FormatCount(1'234'567), "1,234,567");
  EXPECT_EQ(FormatPlural(1, "GPU"), "1 GPU");
  EXPECT_EQ(FormatPlural(0, "gap"), "0 gaps");
}

TEST(FormatBytes, IsBinaryAndThroughputDecimal) {
  EXPECT_EQ(FormatBytes(512), "512 B");
  EXPECT_EQ(FormatBytes(1536), "1.50 KiB");
  EXPECT_EQ(FormatBytes(uint64_t{141} << 30), "141 GiB");
  EXPECT_EQ(FormatThroughput(24'600'000'000, 1'000'000'000), "24.6 GB/s");
  EXPECT_EQ(FormatThroughput(100, 0), "-");
}

TEST(FormatPercent, NeverCallsSomethingNothingOrAll) {
  EXPECT_EQ(FormatPercent(96, 100), "96.0 %");
  EXPECT_EQ(FormatPercent(0, 100), "0.0 %");
  EXPECT_EQ(FormatPercent(100, 100), "100 %");
  EXPECT_EQ(FormatPercent(1, 1'000'000), "<0.1 %");
  EXPECT_EQ(FormatPercent(999'999, 1'000'000), ">99.9 %");
  EXPECT_EQ(FormatPercent(1, 0), "-");
  EXPECT_EQ(FormatPercent(0, 0), "-");
}

TEST(FormatFactor, RoundsDownBecauseItIsABound) {
  EXPECT_EQ(FormatFactor(1.0), "1.00x");
  EXPECT_EQ(FormatFactor(1.078), "1.07x");
  EXPECT_EQ(FormatFactor(1.39), "1.3x");
  EXPECT_EQ(FormatFactor(23.9), "23x");
  EXPECT_EQ(FormatFactor(std::numeric_limits<double>::infinity()), "-");
}

TEST(Numbers, HaveNoExponentsAtTheExtremes) {
  EXPECT_EQ(FormatFactor(1e3), "1,000x");
  EXPECT_EQ(FormatFactor(1.5e12), "1,500,000,000,000x");
  EXPECT_EQ(FormatPercent(1.07e9, 100), "1,070,000,000 %");
  EXPECT_EQ(FormatSignificant(0, 3), "0");
  EXPECT_EQ(FormatSignificant(29.44, 3), "29.4");
  EXPECT_EQ(FormatSignificant(7, 3), "7");
  EXPECT_EQ(FormatSignificant(999.6, 3), "1,000");
  EXPECT_EQ(FormatSignificant(1'234'567.8, 3), "1,234,568");
  EXPECT_EQ(FormatSignificant(-0.03517, 3), "-0.0352");
  EXPECT_EQ(FormatSignificant(1e-9, 3), "<0.0001");
  EXPECT_EQ(FormatSignificant(std::nan(""), 3), "-");
  EXPECT_EQ(PlainNumber(1.5e18), "1500000000000000000");
  EXPECT_EQ(PlainNumber(2e-7), "0.0000002");
  EXPECT_EQ(PlainNumber(-0.25), "-0.25");
  EXPECT_EQ(PlainNumber(0), "0");
  EXPECT_EQ(PlainNumber(std::numeric_limits<double>::infinity()), "");
  std::string out;
  JsonWriter json(&out, 0);
  json.BeginArray().Value(123'456'789'012'345.0).Value(0.25).EndArray();
  EXPECT_EQ(out, "[123456789012345,0.25]");
}

TEST(ParseDuration, TakesWhatPeopleType) {
  EXPECT_EQ(*ParseDuration("10us"), 10'000);
  EXPECT_EQ(*ParseDuration("1.5s"), 1'500'000'000);
  EXPECT_EQ(*ParseDuration(" 200 ms "), 200'000'000);
  EXPECT_EQ(*ParseDuration("500ns"), 500);
  EXPECT_EQ(*ParseDuration("2m"), 120'000'000'000);
  EXPECT_EQ(*ParseDuration("0"), 0);
}

TEST(ParseDuration, RefusesTheRest) {
  for (const char* text :
       {"", "10", "us", "-1s", "1.2.3s", "10 parsecs", "1e3s", "nan", "99999999999s", "1s2"}) {
    EXPECT_FALSE(ParseDuration(text).ok()) << text;
  }
}

TEST(Utf8, InvalidBytesBecomeReplacementCharacters) {
  EXPECT_EQ(ToValidUtf8("gr\xc3\xbc\xc3\x9f"), "gr\xc3\xbc\xc3\x9f");
  EXPECT_EQ(ToValidUtf8("a\xff"
                        "b"),
            "a\xef\xbf\xbd"
            "b");
  EXPECT_EQ(ToValidUtf8("\xc0\xaf"), "\xef\xbf\xbd\xef\xbf\xbd") << "overlong";
  EXPECT_EQ(ToValidUtf8("\xed\xa0\x80"), "\xef\xbf\xbd\xef\xbf\xbd\xef\xbf\xbd") << "surrogate";
  EXPECT_EQ(ToValidUtf8("\xf4\x90\x80\x80").substr(0, 3), "\xef\xbf\xbd") << "beyond Unicode";
  EXPECT_EQ(ToValidUtf8("cut \xe2\x82"), "cut \xef\xbf\xbd\xef\xbf\xbd");
}

TEST(Utf8, ControlCharactersNeverReachTheTerminal) {
  EXPECT_EQ(ToPrintable("a\x1b[31mb\n\x7f"), "a?[31mb??");
  EXPECT_EQ(ToPrintable("\xc2\x9b"
                        "31m"),
            "?31m");
  EXPECT_EQ(ToPrintable("\xc2\xa0"), "\xc2\xa0");
}

// U+202E, U+2066, U+200B, U+0085, U+2028, U+FEFF, U+E0041, each between letters.
constexpr char kTricky[] =
    "a\xe2\x80\xae"
    "b\xe2\x81\xa6"
    "c\xe2\x80\x8b"
    "d\xc2\x85"
    "e\xe2\x80\xa8"
    "f\xef\xbb\xbf"
    "g\xf3\xa0\x81\x81"
    "h";

TEST(Utf8, DirectionsAndCharactersWithoutWidthForgeNoLine) {
  EXPECT_EQ(ToPrintable(kTricky), "a?b?c?d?e?f?g?h");
  EXPECT_EQ(ToPrintable("\xe2\x80\xa6 \xe2\x82\xac \xf0\x9f\x98\x80"),
            "\xe2\x80\xa6 \xe2\x82\xac \xf0\x9f\x98\x80");
  std::string csv;
  AppendCsvRow({kTricky, "2"}, &csv);
  EXPECT_EQ(csv, "a?b?c?d?e?f?g?h,2\n");
  std::string out;
  JsonWriter(&out, 0).Value(kTricky);
  EXPECT_EQ(out, "\"a\\u202eb\\u2066c\\u200bd\\u0085e\\u2028f\\ufeffg\\udb40\\udc41h\"")
      << "whole, but nothing that a terminal obeys";
}

TEST(MiddleEllipsis, KeepsBothEnds) {
  EXPECT_EQ(MiddleEllipsis("abcdefghij", 10), "abcdefghij");
  EXPECT_EQ(MiddleEllipsis("abcdefghijk", 10), "abcd...ijk");
  EXPECT_EQ(MiddleEllipsis("abcdefghijk", 2), "..");
  EXPECT_EQ(MiddleEllipsis("\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4\xc3\xa4", 5),
            "\xc3\xa4...\xc3\xa4");
}

TEST(WrapText, BreaksAtSpacesAndIndents) {
  EXPECT_EQ(WrapText("one two three four", 4, 2, 12), "one two\n  three four");
  EXPECT_EQ(WrapText("unbreakably-long-word x", 0, 1, 8), "unbreakably-long-word\n x");
  EXPECT_EQ(WrapText("", 0, 0, 80), "");
}

TEST(Json, EscapesAndKeepsIntegersWhole) {
  std::string out;
  JsonWriter json(&out, 0);
  json.BeginObject();
  json.Field("text", "a\"b\\c\n\x01\xff").Field("big", std::numeric_limits<uint64_t>::max());
  json.Field("low", std::numeric_limits<int64_t>::min())
      .Field("yes", true)
      .Field("nan", std::nan(""));
  json.Key("list").BeginArray().Value(1).Value(2).EndArray();
  json.Key("empty").BeginObject().EndObject();
  json.EndObject();
  EXPECT_EQ(out,
            "{\"text\":\"a\\\"b\\\\c\\n\\u0001\xef\xbf\xbd\",\"big\":18446744073709551615,"
            "\"low\":-9223372036854775808,\"yes\":true,\"nan\":null,\"list\":[1,2],\"empty\":{}}");
}

TEST(Csv, QuotesAsRfc4180) {
  Table table;
  table.columns = {{"name"}, {"n"}};
  table.rows = {{"a,b", "1"}, {"say \"hi\"", "2"}, {"two\nlines", "3"}, {"plain", ""}};
  EXPECT_EQ(RenderCsv(table), "name,n\n\"a,b\",1\n\"say \"\"hi\"\"\",2\ntwo?lines,3\nplain,\n")
      << "a name makes no row";
}

TEST(TextTable, AlignsAndCutsTheFlexibleColumn) {
  Table table;
  table.columns = {{"time"}, {"name", Align::kLeft, true}, {"n"}};
  table.rows = {{"1.00 s", "short", "1"},
                {"12.3 us", "a name that is much longer than the space left", "4,096"}};
  EXPECT_EQ(RenderTable(table, 1, 44),
            "    time  name                             n\n"
            "  1.00 s  short                            1\n"
            " 12.3 us  a name that ...e space left  4,096\n");
}

class NarrowTerminal : public ::testing::Test {
 protected:
  ~NarrowTerminal() override { SetTerminalWidth(0); }
};

TEST_F(NarrowTerminal, ATableCutsItsNamesAndThenLeavesOutSpareColumns) {
  Table table;
  table.columns = {{"time"},
                   {"Max", Align::kRight, false, false, 1},
                   {"StdDev", Align::kRight, false, false, 2},
                   {"name", Align::kLeft, true}};
  table.rows = {{"1.00 s", "2.00 s", "1.00 us", "a name that is longer than the terminal leaves"}};
  SetTerminalWidth(60);
  EXPECT_EQ(RenderTable(table),
            "  time     Max   StdDev  name\n"
            "1.00 s  2.00 s  1.00 us  a name that is l... terminal leaves\n");
  SetTerminalWidth(40);
  EXPECT_EQ(RenderTable(table),
            "  time     Max  name\n"
            "1.00 s  2.00 s  a name that...nal leaves\n"
            "no room for: StdDev\n");
  EXPECT_EQ(RenderTable(table, 9),
            "           time  name\n"
            "         1.00 s  a name tha...nal leaves\n"
            "         no room for: StdDev, Max\n");
  SetTerminalWidth(kWideReportWidth);
  EXPECT_THAT(RenderTable(table), HasSubstr("longer than the terminal leaves\n"));
  EXPECT_THAT(RenderCsv(table), HasSubstr("1.00 us,a name that is longer"));
}

TEST_F(NarrowTerminal, NumbersAreNeverCut) {
  Table table;
  table.columns = {{"a"}, {"b"}, {"name", Align::kLeft, true}};
  table.rows = {{"1,234,567,890,123", "1,234,567,890,123", "a rather long name of a kernel"}};
  SetTerminalWidth(1);
  EXPECT_THAT(RenderTable(table),
              HasSubstr("1,234,567,890,123  1,234,567,890,123  a rathe...kernel"));
}

TEST_F(NarrowTerminal, TextIsWrappedToItAndLongLinesAreBroken) {
  const std::string line = "  twelve of these words make this line longer than forty columns\n";
  EXPECT_EQ(FitLines(line), line);
  SetTerminalWidth(40);
  EXPECT_EQ(WrapText("twelve of these words make this line longer", 2, 4, 110),
            "twelve of these words make this line\n    longer");
  EXPECT_EQ(FitLines("short\n\n" + line + "last"),
            "short\n\n"
            "  twelve of these words make this line\n"
            "  longer than forty columns\n"
            "last");
  const std::string word(50, 'x'), forty(40, 'y');
  EXPECT_EQ(FitLines(word + "\n" + forty + "\n" + forty + " z\n"),
            word + "\n" + forty + "\n" + forty + "\nz\n");
  EXPECT_EQ(FitLines("\u00e4" + std::string(39, 'y') + "\n"),
            "\u00e4" + std::string(39, 'y') + "\n");
}

TEST(KernelName, IsDemangledAndPlainNamesStay) {
  EXPECT_EQ(Demangle("_Z3addPfS_i"), "add(float*, float*, int)");
  EXPECT_EQ(Demangle("triton_poi_fused_add_0"), "triton_poi_fused_add_0");
  EXPECT_EQ(Demangle("_Znonsense"), "_Znonsense");
  EXPECT_EQ(Demangle(""), "");
}

TEST(KernelName, AHostileNameCostsLittle) {
  // Every level names the one before twice: 2^35 characters.
  std::string name = "_Z1f1XIiiE";
  const std::string digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
  for (size_t i = 0; i < 35; ++i) {
    const std::string last = i == 0 ? "S0_" : std::string("S") + digits[i] + "_";
    name += "S_I" + last + last + "E";
  }
  EXPECT_EQ(Demangle(name), name);
}

TEST(ShortKernelName, DropsReturnTypeParametersAndNamespaces) {
  EXPECT_EQ(
      ShortKernelName("void at::native::(anonymous namespace)::softmax<float>(float*, int)", 60),
      "at::softmax<float>");
  EXPECT_EQ(ShortKernelName("add(float*, float*, int)", 60), "add");
  EXPECT_EQ(ShortKernelName("ampere_sgemm_128x64_tn", 60), "ampere_sgemm_128x64_tn");
  EXPECT_EQ(ShortKernelName("void f<&(g(int))>(int) [clone .1]", 60), "f<&(g(int))>");
  EXPECT_EQ(ShortKernelName("bool ns::operator< <int>(int)", 60), "ns::operator< <int>");
}

TEST(ShortKernelName, FoldsTemplateArgumentsUntilItFits) {
  const std::string name =
      "void at::native::vectorized_elementwise_kernel<4, at::native::BinaryFunctor<float, float, "
      "float, "
      "at::native::binary_internal::MulFunctor<float> >, std::array<char*, 3ul> >(int, int)";
  EXPECT_EQ(ShortKernelName(name, 64),
            "at::vectorized_elementwise_kernel<4, BinaryFunctor<...>, ...>");
  EXPECT_EQ(ShortKernelName(name, 40), "at::vectorized_elementwise_kernel<...>");
  EXPECT_EQ(ShortKernelName(name, 20).size(), 20u);
  EXPECT_EQ(ShortKernelName(name, 400),
            "at::vectorized_elementwise_kernel<4, at::BinaryFunctor<float, float, float, "
            "at::binary_internal::MulFunctor<float> >, std::array<char*, 3ul> >");
}

TEST(ShortKernelName, OfTensOfThousandsOfBracketsOrCommasTakesNoSquareOfThem) {
  std::string nested = "f", listed = "f<", spelt = "f";
  for (int k = 0; k < 20000; ++k) nested += "a<";
  nested.append(20000, '>');
  for (int k = 0; k < 30000; ++k) listed += "a,";
  listed += "a>";
  for (int k = 0; k < 5000; ++k) spelt += "<unnamed>::";
  // Where each level or comma costs a pass over the name, these take minutes.
  for (int i = 0; i < 200; ++i) {
    EXPECT_EQ(ShortKernelName(nested, 30), "fa<a<a<a<a<a<a<a<...>>>>>>>>");
    EXPECT_EQ(ShortKernelName(listed, 16), "f<a,a,a,a, ...>");
    EXPECT_EQ(ShortKernelName(spelt, 30), "f");
  }
}

TEST(ShortKernelName, NeverExceedsItsWidth) {
  for (const std::string name :
       {"a<b<c<d<e>>>>", "((((", "<<<<>>>>", "void ", "operator", "operator()", "x>y<z(",
        "f<\x1b[0m>(int)", "\xff\xfe<long>", "void (*f<int>(long))(short)"}) {
    for (size_t width : {0u, 1u, 4u, 8u, 80u}) {
      EXPECT_LE(DisplayWidth(ShortKernelName(name, width)), width) << name;
    }
  }
}

TEST(DurationStats, AreExact) {
  std::vector<int64_t> odd = {5, 1, 9};
  const DurationStats a = ComputeStats(&odd);
  EXPECT_EQ(a.count, 3u);
  EXPECT_EQ(a.total_ns, 15);
  EXPECT_EQ(a.avg_ns, 5);
  EXPECT_EQ(a.med_ns, 5);
  EXPECT_EQ(a.min_ns, 1);
  EXPECT_EQ(a.max_ns, 9);
  EXPECT_EQ(a.stddev_ns, 4);
  std::vector<int64_t> even = {10, 1, 2, 20};
  EXPECT_EQ(ComputeStats(&even).med_ns, 6);
  std::vector<int64_t> one = {7};
  EXPECT_EQ(ComputeStats(&one).stddev_ns, 0);
  std::vector<int64_t> none;
  EXPECT_EQ(ComputeStats(&none).count, 0u);
}

}  // namespace
}  // namespace gpuprobe::tools
