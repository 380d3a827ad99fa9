// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Stands in for libFuzzer where the compiler has none: feeds a fuzz target every file of a folder,
// each also cut short and with single bits flipped at places spread over it, so that the seeds and
// past findings are checked by every test run. Usage: NAME_seeds FOLDER
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

// Enough to touch header, middle and tail of a file; a fuzzer does the rest.
constexpr size_t kVariants = 64;

std::vector<uint8_t> ReadFile(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

void FeedWithVariants(std::vector<uint8_t> data) {
  LLVMFuzzerTestOneInput(data.data(), data.size());
  const size_t step = std::max<size_t>(1, data.size() / kVariants);
  for (size_t at = 0; at < data.size(); at += step) {
    // A copy of its own, so that AddressSanitizer sees a read past the cut.
    const std::vector<uint8_t> cut(data.begin(), data.begin() + static_cast<std::ptrdiff_t>(at));
    LLVMFuzzerTestOneInput(cut.data(), cut.size());
    const uint8_t bit = static_cast<uint8_t>(1u << (at % 8));
    data[at] ^= bit;
    LLVMFuzzerTestOneInput(data.data(), data.size());
    data[at] ^= bit;
  }
}

}  // namespace

int main(int argc, char** argv) {
  size_t files = 0;
  for (int i = 1; i < argc; ++i) {
    std::error_code error;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(argv[i], error)) {
      if (!entry.is_regular_file()) continue;
      FeedWithVariants(ReadFile(entry.path()));
      ++files;
    }
  }
  std::printf("%zu seeds\n", files);
  return files > 0 ? 0 : 1;
}
