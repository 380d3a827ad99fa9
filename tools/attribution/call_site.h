// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Which line of a stack a person can act on: the innermost frame of their own code, not of the
// libraries beneath it. "A sites" in ATTRIBUTION.md. Everything is decided once for each node of
// the timeline's stack tree, so that a look-up costs one array access.
#ifndef GPUPROBE_TOOLS_ATTRIBUTION_CALL_SITE_H_
#define GPUPROBE_TOOLS_ATTRIBUTION_CALL_SITE_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "tools/timeline/timeline.h"

namespace gpuprobe::tools {

// Whose code a Python file is.
enum class CodeOwner : uint8_t {
  kUser,
  kLibrary,   // below site-packages or dist-packages
  kStandard,  // Python's standard library
  kGenerated  // has no file that a person wrote: <frozen ...>, torch.compile's output
};
CodeOwner OwnerOfFile(std::string_view file);

// "torch/optim/adamw.py" for library files, as much of the path as is theirs; else the whole path.
std::string_view PathInLibrary(std::string_view file);

// Is a module's path that of an interpreter: "/usr/bin/python3.12", "libpython3.12.so.1.0"?
bool IsPythonInterpreter(std::string_view path);
// Native code of one.
bool IsInPythonInterpreter(const Timeline& timeline, const CodeLocation& location);

class CallSites {
 public:
  // 16 bytes for each node of the timeline's stacks.
  explicit CallSites(const Timeline& timeline);

  // The node whose line is the site of `stack` (an index in Timeline::stacks); -1: nothing in it
  // has a name.
  int32_t SiteOf(int32_t stack) const { return stack < 0 ? -1 : nodes_[stack].site; }
  // The innermost node that is Python; -1: none.
  int32_t PythonOf(int32_t stack) const { return stack < 0 ? -1 : nodes_[stack].python; }

  // "train.py:27 in main", "torch/optim/adamw.py:312 in step", "decode_mcu (libjpeg.so.62)"; empty
  // for -1. Files of the user's that share their base name are shown with as many parent folders as
  // tell them apart.
  std::string TextOf(int32_t node) const;

  // What a stack was doing below its site: "queue.get", "torch/optim/adamw.py:312 in step"; empty
  // where the site itself is innermost.
  std::string Below(int32_t stack) const;

  // Does any Python frame of the stack fulfil `wanted`? By location, the answers are kept by the
  // caller: a table of DataLoader frames, say.
  template <typename F>
  std::vector<bool> NodesWith(F wanted) const {
    std::vector<bool> result(nodes_.size(), false);
    for (size_t n = 0; n < nodes_.size(); ++n) {
      const StackNode& node = timeline_.stacks[n];
      result[n] = (node.parent >= 0 && result[node.parent]) ||
                  (node.location >= 0 && wanted(timeline_.locations[node.location]));
    }
    return result;
  }

  std::string_view FileOf(const CodeLocation& location) const { return Text(location.file); }
  std::string_view FunctionOf(const CodeLocation& location) const {
    return Text(location.function);
  }

 private:
  struct Node {
    int32_t site = -1;
    int32_t python = -1;
    int32_t library = -1;   // outermost frame of a library: the site where no frame is the user's
    int32_t standard = -1;  // outermost of the unbroken run of standard library frames here
  };
  std::string_view Text(int32_t index) const {
    return index < 0 ? std::string_view() : std::string_view(timeline_.strings[index]);
  }
  const CodeLocation* LocationOf(int32_t node) const;
  CodeOwner OwnerOf(const CodeLocation& location) const;
  void ShortenFiles();
  void Decide(size_t node);
  std::string NativeText(const CodeLocation& location) const;

  const Timeline& timeline_;
  std::vector<CodeOwner> owners_;  // by string
  std::vector<bool> user_sited_;   // by node: the site is the user's
  std::vector<Node> nodes_;
  std::unordered_map<int32_t, std::string_view> short_files_;  // by string; the user's files
};

}  // namespace gpuprobe::tools

#endif  // GPUPROBE_TOOLS_ATTRIBUTION_CALL_SITE_H_
