// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// What the user names -> the trace files to read.
#ifndef GPUPROBE_TOOLS_LOAD_FILES_INPUT_FILES_H_
#define GPUPROBE_TOOLS_LOAD_FILES_INPUT_FILES_H_

#include <string>
#include <vector>

namespace gpuprobe::tools {

struct Unusable {
  std::string path, message;  // the message names the file
};

struct InputFiles {
  std::vector<std::string> paths;    // each file once, folders' files in order of their names
  std::vector<Unusable> unusable;    // missing paths, folders without a trace, unreadable folders
  std::vector<std::string> notices;  // the same file named twice
  std::string run_name;              // last component of the first path
};

// A folder stands for every *.gpuprobe file in it and in its direct subfolders; where there is
// none, for every file in it that is named like a trace of another profiler (*.json, *.json.gz,
// *.json.zst,
// *.sqlite). Whether a named file is a trace is for the reader to say.
InputFiles FindInputFiles(const std::vector<std::string>& paths);

}  // namespace gpuprobe::tools

#endif  // GPUPROBE_TOOLS_LOAD_FILES_INPUT_FILES_H_
