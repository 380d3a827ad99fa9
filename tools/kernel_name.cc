// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "tools/kernel_name.h"

#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <utility>

#include "absl/strings/ascii.h"
#include "tools/format_text.h"

namespace gpuprobe::tools {
namespace {

// CUTLASS names reach about 4 KiB mangled. Substitutions can make a hostile name grow exponentially when
// demangled, and __cxa_demangle offers no limit, so long names stay as they are.
constexpr size_t kMaxMangledBytes = 8192;

bool IsOpen(char c) { return c == '<' || c == '(' || c == '[' || c == '{'; }
bool IsClose(char c) { return c == '>' || c == ')' || c == ']' || c == '}'; }

// "operator<", "operator->", "operator()" hold brackets that do not nest.
bool StartsOperator(std::string_view name, size_t at) {
  return name.substr(at).starts_with("operator") &&
         (at == 0 || (!absl::ascii_isalnum(name[at - 1]) && name[at - 1] != '_'));
}

// First position outside brackets, at or after `from`, at which `wanted` stands; npos if none.
size_t FindOutside(std::string_view name, char wanted, size_t from) {
  int depth = 0;
  for (size_t at = from; at < name.size(); ++at) {
    if (StartsOperator(name, at)) {
      at += 8;
      while (at < name.size() && !absl::ascii_isalnum(name[at]) && name[at] != '(') ++at;
      if (name.substr(at).starts_with("()")) at += 2;
      if (at >= name.size()) break;
    }
    if (depth == 0 && name[at] == wanted) return at;
    if (IsOpen(name[at])) ++depth;
    if (IsClose(name[at]) && depth > 0) --depth;
  }
  return std::string_view::npos;
}

// Return type, parameters, " [clone ...]" and trailing qualifiers off.
std::string_view Signature(std::string_view name) {
  size_t begin = 0;
  const size_t parameters = FindOutside(name, '(', 0);
  std::string_view head = name.substr(0, parameters);
  for (size_t space = FindOutside(head, ' ', 0); space != std::string_view::npos;
       space = FindOutside(head, ' ', begin)) {
    if (head.substr(space + 1, 1) == "[") {
      head = head.substr(0, space);
      break;
    }
    begin = space + 1;
  }
  return head.substr(begin);
}

// Everything deeper than `keep` levels of <> becomes "...".
std::string FoldTemplates(std::string_view name, int keep) {
  std::string out;
  int depth = 0;
  for (char c : name) {
    if (c == '<' && ++depth == keep + 1) out.append("<...");
    if (depth <= keep) out.push_back(c);
    if (c == '>' && depth > 0 && depth-- == keep + 1) out.push_back('>');
  }
  return out;
}

int TemplateDepth(std::string_view name) {
  int depth = 0, deepest = 0;
  for (char c : name) {
    if (c == '<') deepest = std::max(deepest, ++depth);
    if (c == '>' && depth > 0) --depth;
  }
  return deepest;
}

// What says nothing about which kernel it is.
constexpr std::pair<std::string_view, std::string_view> kShorter[] = {
    {"(anonymous namespace)::", ""},      {"<unnamed>::", ""},
    {"at::native::", "at::"},             {"std::__cxx11::", "std::"},
    {"cuda::std::__4::", "cuda::std::"},  {"unsigned int", "uint"},
    {"unsigned long", "ulong"},
};

std::string CutNamespaces(std::string_view name) {
  std::string out(name);
  for (const auto& [from, to] : kShorter) {
    for (size_t at = out.find(from); at != std::string::npos; at = out.find(from, at + to.size())) {
      out.replace(at, from.size(), to);
    }
  }
  return out;
}

}  // namespace

std::string Demangle(std::string_view mangled) {
  if (!mangled.starts_with("_Z") || mangled.size() > kMaxMangledBytes) return std::string(mangled);
  int status = 0;
  const std::string text(mangled);
  const std::unique_ptr<char, void (*)(void*)> name(
      abi::__cxa_demangle(text.c_str(), nullptr, nullptr, &status), &std::free);
  return name == nullptr ? text : std::string(name.get());
}

std::string ShortKernelName(std::string_view demangled, size_t width) {
  // Namespaces first: "(anonymous namespace)" would look like the parameter list.
  const std::string cut = CutNamespaces(demangled);
  std::string shown(Signature(cut));
  if (shown.empty()) shown = cut;
  for (int keep = TemplateDepth(shown) - 1; keep >= 0 && DisplayWidth(shown) > width; --keep) {
    shown = FoldTemplates(shown, keep);
  }
  return MiddleEllipsis(ToPrintable(shown), width);
}

}  // namespace gpuprobe::tools
