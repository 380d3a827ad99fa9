// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// The search for libcupti, over made-up libraries in the layouts of pip packages and toolkits.
#include "cupti/cupti_api.h"

#include <gtest/gtest.h>
#include <stdio.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

namespace gpuprobe::cupti {
namespace {

const std::string kFakes = GPUPROBE_FAKES_DIR;
const std::string kDriver = kFakes + "/driver/libcuda.so.1";
const std::string kOldDriver = kFakes + "/old_driver/libcuda.so.1";  // -> libcuda.so.550.54.15
const std::string kRuntime13 = kFakes + "/cu13/libcudart.so.13";
const std::string kCupti13 = kFakes + "/cu13/libcupti.so.13";
const std::string kCupti12 = kFakes + "/private/libcupti.so.12";
const std::string kStub13 = kFakes + "/stub/libcupti.so.13";
const std::string kBroken12 = kFakes + "/broken/libcupti.so.12";
const std::string kWheelRuntime = kFakes + "/nvidia/cuda_runtime/lib/libcudart.so.12";
const std::string kWheelCupti = kFakes + "/nvidia/cuda_cupti/lib/libcupti.so.12";

struct Found {
  bool found = false;
  std::string path, why;
  int version = 0;
};

std::string Line(FILE* from) {
  char text[4096] = "";
  if (fgets(text, sizeof(text), from) == nullptr) return "";
  std::string line = text;
  if (!line.empty() && line.back() == '\n') line.pop_back();
  return line;
}

Found Find(const std::vector<std::string>& arguments, const std::string& library_path = "") {
  std::string command = "LD_LIBRARY_PATH='" + library_path + "' '" GPUPROBE_FIND_CUPTI "'";
  for (const std::string& argument : arguments) command += " '" + argument + "'";
  FILE* output = popen(command.c_str(), "r");
  Found result;
  if (output == nullptr) return result;
  result.found = Line(output) == "found";
  result.path = Line(output);
  result.version = atoi(Line(output).c_str());
  result.why = Line(output);
  EXPECT_EQ(pclose(output), 0);
  return result;
}

void ExpectPath(const Found& found, const std::string& path, int version) {
  ASSERT_TRUE(found.found) << found.why;
  EXPECT_TRUE(std::filesystem::equivalent(found.path, path)) << found.path << ": " << found.why;
  EXPECT_EQ(found.version, version);
}

TEST(FindCupti, WithoutADriverNothingIsCalled) {
  const Found found = Find({kCupti13});
  EXPECT_FALSE(found.found);
  EXPECT_NE(found.why.find("no CUDA driver"), std::string::npos) << found.why;
}

TEST(FindCupti, TheLoadedCopyWinsOverAllOthers) {
  const Found found = Find({kDriver, kRuntime13, kCupti12, "--prefer", kCupti13});
  ExpectPath(found, kCupti12, 28);
  EXPECT_NE(found.why.find("already loaded"), std::string::npos) << found.why;
}

TEST(FindCupti, OfTwoLoadedCopiesTheOneBesideTheRuntimeWinsInEitherOrder) {
  for (const auto& order : {std::vector<std::string>{kDriver, kRuntime13, kCupti12, kCupti13},
                            std::vector<std::string>{kDriver, kCupti13, kCupti12, kRuntime13}}) {
    const Found found = Find(order);
    ExpectPath(found, kCupti13, 130001);
    EXPECT_NE(found.why.find("beside libcudart"), std::string::npos) << found.why;
  }
}

TEST(FindCupti, OfTwoLoadedCopiesTheOneOfTheRuntimesVersionWins) {
  const Found found = Find({kDriver, kCupti13, kCupti12, kWheelRuntime});
  ExpectPath(found, kCupti12, 28);
  EXPECT_NE(found.why.find("libcudart's version"), std::string::npos) << found.why;
}

TEST(FindCupti, WithoutARuntimeTheNewestLoadedCopyWins) {
  ExpectPath(Find({kDriver, kCupti12, kCupti13}), kCupti13, 130001);
}

TEST(FindCupti, StubsAndBrokenCopiesArePassedOverAndNamed) {
  const Found stub = Find({kDriver, kStub13, kCupti12});
  ExpectPath(stub, kCupti12, 28);
  EXPECT_NE(stub.why.find("stub"), std::string::npos) << stub.why;
  const Found broken = Find({kDriver, kBroken12, kRuntime13, "--prefer", kStub13});
  ExpectPath(broken, kCupti13, 130001);
  EXPECT_NE(broken.why.find("cuptiGetVersion failed"), std::string::npos) << broken.why;
}

TEST(FindCupti, ThePreferredPathComesBeforeTheRuntimesFolder) {
  const Found found = Find({kDriver, kRuntime13, "--prefer", kCupti12});
  ExpectPath(found, kCupti12, 28);
  EXPECT_NE(found.why.find("GPUPROBE_CUPTI_PATH"), std::string::npos) << found.why;
}

TEST(FindCupti, BesideTheRuntimeInBothLayoutsOfPip) {
  ExpectPath(Find({kDriver, kRuntime13}), kCupti13, 130001);
  ExpectPath(Find({kDriver, kWheelRuntime}), kWheelCupti, 24);
}

TEST(FindCupti, TheLoadersSearchPathIsUsed) {
  // Only the newest version: a machine with a toolkit has a real one in the loader's cache.
  const Found found = Find({kDriver}, kFakes + "/private:" + kFakes + "/cu13");
  ExpectPath(found, kCupti13, 130001);
  EXPECT_NE(found.why.find("dynamic loader"), std::string::npos) << found.why;
}

TEST(FindCupti, ACopyThatIsTooNewForTheDriverIsPassedOver) {
  const Found found = Find({kOldDriver, kRuntime13, kCupti13, kCupti12});
  ExpectPath(found, kCupti12, 28);
  EXPECT_NE(found.why.find("needs a newer driver"), std::string::npos) << found.why;
}

TEST(FindCupti, FunctionsOfOurOwnObjectAreNotTakenForCupti) {
  const Found found = Find({"--self"});
  EXPECT_FALSE(found.found);
  EXPECT_NE(found.why.find("lacks cuptiGetVersion"), std::string::npos) << found.why;
}

TEST(FindCupti, OwnExportsInFrontDoNotHideTheRealLibrary) {
  // find_cupti exports the same names and comes first in the global scope.
  ExpectPath(Find({kDriver, kCupti13}), kCupti13, 130001);
}

TEST(ResultName, IsNeverNull) {
  for (Result result = -3; result < 1010; ++result) ASSERT_NE(ResultName(result), nullptr);
  EXPECT_STREQ(ResultName(0), "CUPTI_SUCCESS");
  EXPECT_STREQ(ResultName(39), "CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED");
}

}  // namespace
}  // namespace gpuprobe::cupti
