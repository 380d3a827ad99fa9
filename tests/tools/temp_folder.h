// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#ifndef GPUPROBE_TESTS_TOOLS_TEMP_FOLDER_H_
#define GPUPROBE_TESTS_TOOLS_TEMP_FOLDER_H_

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

namespace gpuprobe::tools {

// A folder of its own, gone with the object.
class TempFolder {
 public:
  TempFolder() {
    std::string name = ::testing::TempDir() + "/gpuprobe-XXXXXX";
    path_ = mkdtemp(name.data());
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  ~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  std::string Path(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

}  // namespace gpuprobe::tools

#endif  // GPUPROBE_TESTS_TOOLS_TEMP_FOLDER_H_
