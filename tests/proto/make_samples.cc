// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
//   proto_make_samples golden PREFIX    PREFIX.gpuprobe and PREFIX.expected.txt: a new version's
//                                       golden file
//   proto_make_samples host PREFIX      the same, of host samples
//   proto_make_samples tiny FILE        the one-frame trace that FORMAT.md explains
//   proto_make_samples seeds DIRECTORY  a seed corpus for fuzz_trace_reader
#include <fstream>
#include <iostream>
#include <string>
#include <string_view>

#include "tests/proto/sample_trace.h"
#include "tests/proto/trace_dump.h"
#include "tests/proto/trace_log.h"

namespace gpuprobe::proto {
namespace {

std::string Join(const std::vector<std::string>& parts) {
  std::string all;
  for (const std::string& part : parts) all += part;
  return all;
}

void WriteFile(const std::string& path, const std::string& content) {
  std::ofstream(path, std::ios::binary) << content;
}

// The first byte chooses what the fuzzer takes the rest for: a file, or the content of a frame.
void WriteSeeds(const std::string& directory) {
  int number = 0;
  const auto seed = [&](char mode, const std::string& content) {
    WriteFile(directory + "/seed" + std::to_string(number++), mode + content);
  };
  for (const auto& frames : {TinyTrace(), SampleTrace(), HostSampleTrace()}) {
    const std::string file = Join(frames);
    seed(0, file);
    seed(0, file.substr(0, file.size() - 20));
    seed(0, frames.front() + "foreign" + std::string(30, '\0') + frames.back());
    std::string flipped = file;
    flipped[flipped.size() / 2] ^= 1;
    seed(0, flipped);
    for (const std::string& frame : frames) seed(1, Decompress(frame));
  }
  seed(0, std::string("\x50\x2a\x4d\x18\x02\x00\x00\x00xx", 10) + Join(TinyTrace()));
}

int Main(int argc, char** argv) {
  const std::string_view what = argc == 3 ? argv[1] : "";
  const std::string target = argc == 3 ? argv[2] : "";
  if (what == "golden" || what == "host") {
    WriteFile(target + ".gpuprobe", Join(what == "host" ? HostSampleTrace() : SampleTrace()));
    WriteFile(target + ".expected.txt", DumpTrace(ReadPath(target + ".gpuprobe")));
  } else if (what == "tiny") {
    WriteFile(target, Join(TinyTrace()));
  } else if (what == "seeds") {
    WriteSeeds(target);
  } else {
    std::cerr
        << "usage: proto_make_samples golden PREFIX | host PREFIX | tiny FILE | seeds DIRECTORY\n";
    return 1;
  }
  return 0;
}

}  // namespace
}  // namespace gpuprobe::proto

int main(int argc, char** argv) { return gpuprobe::proto::Main(argc, argv); }
