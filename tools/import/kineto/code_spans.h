// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Rows that say what code a thread was in (Python functions, framework operators, ranges that the
// user named) -> call stacks: the site of each CUDA call, and samples that hold for a whole
// interval, so that time outside CUDA gets a line of code.
//
// Rows nest by time alone; one that reaches beyond the end of the row around it is cut there.
#ifndef GPUPROBE_TOOLS_IMPORT_KINETO_CODE_SPANS_H_
#define GPUPROBE_TOOLS_IMPORT_KINETO_CODE_SPANS_H_

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "tools/import/kineto/kineto_words.h"
#include "tools/import/text/json_scan.h"
#include "tools/import/text/text_map.h"
#include "tools/timeline/timeline.h"

namespace gpuprobe::tools {

// Shorter stays in functions and operators are part of their caller's sample: what a gap is charged
// to does not depend on them, and a trace with stacks has millions (56 bytes each).
inline constexpr int64_t kShortestSampleNs = 10'000;

class CodeSpans {
 public:
  explicit CodeSpans(Timeline* timeline) : timeline_(timeline) {}
  CodeSpans(const CodeSpans&) = delete;
  CodeSpans& operator=(const CodeSpans&) = delete;

  // `kind`: kPython, kOperator or kAnnotation.
  void Add(RowKind kind, const JsonText& name, int32_t thread, int64_t start_ns, int64_t end_ns);

  // Of what was added since the last call: sets HostCall::site from `first_call` on, and adds
  // samples for those threads among them that have Python rows, and the period that these cover.
  void Build(int32_t process, size_t first_call);

 private:
  struct Span {
    int64_t start_ns, end_ns;
    int32_t thread, location;
  };
  struct Open {
    int64_t end_ns;
    int32_t node, sample_node;  // sample_node: that of the innermost span long enough
  };

  int32_t InternLocation(RowKind kind, const JsonText& name);
  int32_t InternString(std::string_view text);
  int32_t NodeOf(int32_t parent, int32_t location);
  void BuildThread(size_t begin, size_t end, const std::vector<int32_t>& calls, bool sampled);
  void AddSample(int32_t thread, int64_t from_ns, int64_t to_ns, int32_t node);

  Timeline* timeline_;
  std::vector<Span> spans_;
  std::vector<bool> python_;       // by location: a line of Python, no builtin
  TextMap<int32_t> locations_[3];  // by name as written
  TextMap<int32_t> strings_;
  absl::flat_hash_map<std::pair<int32_t, int32_t>, int32_t> nodes_;  // parent and location
};

// Kineto takes the folders of the search path off file names: "torch/nn/modules/module.py",
// "threading.py". Those of packages that are widely used and of the standard library get a folder
// back, so that they are not taken for the user's own files.
std::string WithLibraryFolder(std::string_view file);

}  // namespace gpuprobe::tools

#endif  // GPUPROBE_TOOLS_IMPORT_KINETO_CODE_SPANS_H_
