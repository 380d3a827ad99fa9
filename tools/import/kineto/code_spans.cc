// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "tools/import/kineto/code_spans.h"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <numeric>
#include <string>
#include <tuple>

#include "tools/format/format_text.h"

namespace gpuprobe::tools {
namespace {

using namespace std::string_view_literals;

constexpr std::string_view kPackages[] = {"accelerate",
                                          "apex",
                                          "bitsandbytes",
                                          "deepspeed",
                                          "diffusers",
                                          "einops",
                                          "fairscale",
                                          "flash_attn",
                                          "flashinfer",
                                          "fsspec",
                                          "huggingface_hub",
                                          "jax",
                                          "lightning",
                                          "megatron",
                                          "numpy",
                                          "pandas",
                                          "peft",
                                          "pyarrow",
                                          "pytorch_lightning",
                                          "ray",
                                          "safetensors",
                                          "scipy",
                                          "sglang",
                                          "sklearn",
                                          "tensorboard",
                                          "timm",
                                          "tokenizers",
                                          "torch",
                                          "torchaudio",
                                          "torchvision",
                                          "tqdm",
                                          "transformer_engine",
                                          "transformers",
                                          "triton",
                                          "trl",
                                          "vllm",
                                          "wandb",
                                          "xformers"};

constexpr std::string_view kStandard[] = {"abc.py",
                                          "ast.py",
                                          "asyncio",
                                          "base64.py",
                                          "bisect.py",
                                          "codecs.py",
                                          "collections",
                                          "concurrent",
                                          "contextlib.py",
                                          "copy.py",
                                          "copyreg.py",
                                          "ctypes",
                                          "dataclasses.py",
                                          "datetime.py",
                                          "dis.py",
                                          "email",
                                          "encodings",
                                          "enum.py",
                                          "fnmatch.py",
                                          "functools.py",
                                          "genericpath.py",
                                          "glob.py",
                                          "gzip.py",
                                          "hashlib.py",
                                          "heapq.py",
                                          "http",
                                          "importlib",
                                          "inspect.py",
                                          "io.py",
                                          "json",
                                          "linecache.py",
                                          "locale.py",
                                          "logging",
                                          "multiprocessing",
                                          "numbers.py",
                                          "operator.py",
                                          "os.py",
                                          "pathlib.py",
                                          "pickle.py",
                                          "platform.py",
                                          "posixpath.py",
                                          "pprint.py",
                                          "queue.py",
                                          "random.py",
                                          "re.py",
                                          "runpy.py",
                                          "selectors.py",
                                          "shutil.py",
                                          "signal.py",
                                          "site.py",
                                          "socket.py",
                                          "ssl.py",
                                          "stat.py",
                                          "statistics.py",
                                          "string.py",
                                          "struct.py",
                                          "subprocess.py",
                                          "tempfile.py",
                                          "textwrap.py",
                                          "threading.py",
                                          "timeit.py",
                                          "token.py",
                                          "tokenize.py",
                                          "traceback.py",
                                          "types.py",
                                          "typing.py",
                                          "unittest",
                                          "urllib",
                                          "uuid.py",
                                          "warnings.py",
                                          "weakref.py",
                                          "_weakrefset.py",
                                          "_collections_abc.py",
                                          "zipfile.py"};

template <size_t kCount>
bool Contains(const std::string_view (&list)[kCount], std::string_view word) {
  return std::find(std::begin(list), std::end(list), word) != std::end(list);
}

// "train.py(27): main" in pieces; false: it has another form.
bool SplitPython(std::string_view name, std::string_view* file, int32_t* line,
                 std::string_view* function) {
  const size_t close = name.find("): ");
  const size_t open = close == std::string_view::npos ? close : name.rfind('(', close);
  if (open == std::string_view::npos || open == 0) return false;
  const auto [at, error] = std::from_chars(name.data() + open + 1, name.data() + close, *line);
  if (error != std::errc() || at != name.data() + close || *line < 0) return false;
  *file = name.substr(0, open);
  *function = name.substr(close + 3);
  return true;
}

// "<built-in method get of dict object at 0x7f60>" without the address: it differs from call to
// call and says nothing.
std::string WithoutAddress(std::string text) {
  for (size_t at = text.find(" at 0x"); at != std::string::npos; at = text.find(" at 0x", at)) {
    size_t end = at + 6;
    while (end < text.size() && std::isxdigit(static_cast<unsigned char>(text[end]))) ++end;
    text.erase(at, end - at);
  }
  return text;
}

// Annotations that count steps: each would make a stack tree of its own.
bool CountsSteps(std::string_view name) { return name.starts_with("ProfilerStep#"); }

}  // namespace

std::string WithLibraryFolder(std::string_view file) {
  if (file.starts_with('/') || file.starts_with('<')) return std::string(file);
  const std::string_view first = file.substr(0, file.find('/'));
  if (Contains(kPackages, first)) return std::string("/site-packages/").append(file);
  if (Contains(kStandard, first)) return std::string("/lib/python3/").append(file);
  return std::string(file);
}

int32_t CodeSpans::InternString(std::string_view text) {
  const auto known = strings_.find(text);
  if (known != strings_.end()) return known->second;
  timeline_->strings.emplace_back(text);
  return strings_[std::string(text)] = static_cast<int32_t>(timeline_->strings.size()) - 1;
}

int32_t CodeSpans::InternLocation(RowKind kind, const JsonText& name) {
  auto& locations = locations_[kind == RowKind::kPython ? 0 : kind == RowKind::kOperator ? 1 : 2];
  const auto known = locations.find(name.raw);
  if (known != locations.end()) return known->second;
  const std::string text = WithoutAddress(ToValidUtf8(Unescape(name)));
  CodeLocation location;
  std::string_view file, function;
  if (kind == RowKind::kPython && SplitPython(text, &file, &location.line, &function)) {
    location.file = InternString(WithLibraryFolder(file));
    location.function = InternString(function);
  } else {
    // Built-in functions, operators, ranges: no line of Python, so only a name.
    location.native = true;
    location.function = InternString(text);
  }
  timeline_->locations.push_back(location);
  python_.resize(timeline_->locations.size());
  python_.back() = kind == RowKind::kPython && !location.native;
  return locations[std::string(name.raw)] = static_cast<int32_t>(timeline_->locations.size()) - 1;
}

void CodeSpans::Add(RowKind kind, const JsonText& name, int32_t thread, int64_t start_ns,
                    int64_t end_ns) {
  if (start_ns >= end_ns || (kind == RowKind::kAnnotation && CountsSteps(name.raw))) return;
  spans_.push_back({start_ns, end_ns, thread, InternLocation(kind, name)});
}

int32_t CodeSpans::NodeOf(int32_t parent, int32_t location) {
  const auto [at, added] =
      nodes_.try_emplace({parent, location}, static_cast<int32_t>(timeline_->stacks.size()));
  if (added) timeline_->stacks.push_back({parent, location});
  return at->second;
}

void CodeSpans::AddSample(int32_t thread, int64_t from_ns, int64_t to_ns, int32_t node) {
  if (node < 0 || from_ns >= to_ns) return;
  auto& samples = timeline_->samples;
  if (!samples.empty()) {
    HostSample& last = samples.back();
    if (last.thread == thread && last.stack == node && last.time_ns == from_ns) {
      last.time_ns = to_ns;
      last.interval_ns += to_ns - from_ns;
      return;
    }
  }
  HostSample sample = {};
  sample.time_ns = to_ns;
  sample.interval_ns = to_ns - from_ns;
  sample.thread = thread;
  sample.stack = node;
  sample.flags = kSampleExact;
  const int32_t location = timeline_->stacks[static_cast<size_t>(node)].location;
  if (!python_[static_cast<size_t>(location)]) sample.flags |= kSampleInCFunction;
  samples.push_back(sample);
}

// Spans [begin, end) of one thread by start, and its calls by start.
void CodeSpans::BuildThread(size_t begin, size_t end, const std::vector<int32_t>& calls,
                            bool sampled) {
  std::vector<Open> open;
  const int32_t thread = spans_[begin].thread;
  size_t next_call = 0;
  int64_t now_ns = spans_[begin].start_ns;
  // Everything that ends or happens until `to_ns`.
  const auto advance = [&](int64_t to_ns) {
    for (;;) {
      const int64_t ends_ns = open.empty() ? to_ns : std::min(to_ns, open.back().end_ns);
      for (; next_call < calls.size(); ++next_call) {
        HostCall& call = timeline_->calls[static_cast<size_t>(calls[next_call])];
        if (call.start_ns >= ends_ns) break;
        if (!open.empty()) call.site = open.back().node;
      }
      if (sampled && !open.empty()) AddSample(thread, now_ns, ends_ns, open.back().sample_node);
      now_ns = std::max(now_ns, ends_ns);
      if (open.empty() || open.back().end_ns > to_ns) return;
      open.pop_back();
    }
  };
  for (size_t i = begin; i < end; ++i) {
    const Span& span = spans_[i];
    advance(span.start_ns);
    const int64_t end_ns = open.empty() ? span.end_ns : std::min(span.end_ns, open.back().end_ns);
    const int32_t node = NodeOf(open.empty() ? -1 : open.back().node, span.location);
    const bool long_enough = end_ns - span.start_ns >= kShortestSampleNs || open.empty();
    open.push_back({end_ns, node, long_enough ? node : open.back().sample_node});
    now_ns = span.start_ns;
  }
  advance(INT64_MAX);
}

void CodeSpans::Build(int32_t process, size_t first_call) {
  if (spans_.empty()) return;
  std::stable_sort(spans_.begin(), spans_.end(), [](const Span& a, const Span& b) {
    return std::tuple(a.thread, a.start_ns, -a.end_ns) <
           std::tuple(b.thread, b.start_ns, -b.end_ns);
  });
  std::vector<std::vector<int32_t>> calls(timeline_->threads.size());
  for (size_t c = first_call; c < timeline_->calls.size(); ++c) {
    const int32_t thread = timeline_->calls[c].thread;
    if (thread >= 0) calls[static_cast<size_t>(thread)].push_back(static_cast<int32_t>(c));
  }
  SampledPeriod period = {INT64_MAX, INT64_MIN, process};
  for (size_t begin = 0; begin < spans_.size();) {
    size_t end = begin;
    bool python = false;
    int64_t last_ns = 0;
    for (; end < spans_.size() && spans_[end].thread == spans_[begin].thread; ++end) {
      python |= python_[static_cast<size_t>(spans_[end].location)];
      last_ns = std::max(last_ns, spans_[end].end_ns);
    }
    auto& own = calls[static_cast<size_t>(spans_[begin].thread)];
    if (!own.empty()) {
      std::stable_sort(own.begin(), own.end(), [this](int32_t a, int32_t b) {
        return timeline_->calls[static_cast<size_t>(a)].start_ns <
               timeline_->calls[static_cast<size_t>(b)].start_ns;
      });
      BuildThread(begin, end, own, python);
      if (python) {
        period.begin_ns = std::min(period.begin_ns, spans_[begin].start_ns);
        period.end_ns = std::max(period.end_ns, last_ns);
      }
    }
    begin = end;
  }
  if (period.begin_ns < period.end_ns) timeline_->sampled.push_back(period);
  spans_.clear();
}

}  // namespace gpuprobe::tools
