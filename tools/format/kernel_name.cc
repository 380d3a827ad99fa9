// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "tools/format/kernel_name.h"

#include <cxxabi.h>

#include <algorithm>
#include <csetjmp>
#include <cstdlib>
#include <memory>
#include <utility>

#include "absl/strings/ascii.h"
#include "tools/format/format_text.h"

// In libstdc++.a since GCC 4.3, but in none of its headers and not exported by libstdc++.so.
extern "C" int __gcclibcxx_demangle_callback(const char* mangled,
                                             void (*callback)(const char* text, size_t size,
                                                              void* opaque),
                                             void* opaque);

namespace gpuprobe::tools {
namespace {

// CUTLASS names reach about 4 KiB mangled and 8 KiB demangled.
constexpr size_t kMaxMangledBytes = 16u << 10;
constexpr size_t kMaxDemangledBytes = 64u << 10;

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

bool IsNameCharacter(char c) { return absl::ascii_isalnum(c) || c == '_' || c == ':'; }

// "kernel<at::Functor<a::B>, std::array<int> >" -> "kernel<Functor<B>, array<int>>"
std::string CutArgumentNamespaces(std::string_view name) {
  std::string out;
  int depth = 0;
  for (size_t at = 0; at < name.size();) {
    size_t end = at;
    while (end < name.size() && IsNameCharacter(name[end])) ++end;
    std::string_view word = name.substr(at, end - at);
    const size_t colons = word.rfind("::");
    if (depth > 0 && colons != word.npos && colons + 2 < word.size())
      word.remove_prefix(colons + 2);
    out.append(word);
    for (at = end; at < name.size() && !IsNameCharacter(name[at]); ++at) {
      if (name[at] == '<') ++depth;
      if (name[at] == '>' && depth > 0) {
        --depth;
        if (out.ends_with("> ")) out.pop_back();
      }
      out.push_back(name[at]);
    }
  }
  return out;
}

// Without its last template arguments, so many that it fits: "kernel<4, Functor<...>, ...>".
// Unchanged if not even the first fits.
std::string DropLastArguments(const std::string& name, size_t width) {
  constexpr std::string_view kRest = ", ...>";
  const size_t open = name.find('<');
  if (open == name.npos || !name.ends_with('>')) return name;
  int depth = 0;
  size_t columns = DisplayWidth(name);  // before `at`
  for (size_t at = name.size() - 1; at > open; --at) {
    columns -= DisplayWidth(std::string_view(name).substr(at, 1));
    if (name[at] == '>') ++depth;
    if (name[at] == '<') --depth;
    if (name[at] != ',' || depth != 1) continue;
    if (columns + kRest.size() <= width) return name.substr(0, at).append(kRest);
  }
  return name;
}

// What says nothing about which kernel it is.
constexpr std::pair<std::string_view, std::string_view> kShorter[] = {
    {"(anonymous namespace)::", ""},
    {"<unnamed>::", ""},
    {"at::native::", "at::"},
    {"std::__cxx11::", "std::"},
    {"cuda::std::__4::", "cuda::std::"},
    {"unsigned int", "uint"},
    {"unsigned long", "ulong"},
};

std::string CutNamespaces(std::string_view name) {
  std::string out(name);
  for (const auto& [from, to] : kShorter) {
    std::string shorter;
    size_t begin = 0;
    for (size_t at = out.find(from); at != out.npos; at = out.find(from, begin)) {
      shorter.append(out, begin, at - begin).append(to);
      begin = at + from.size();
    }
    if (begin != 0) out = shorter.append(out, begin);
  }
  return out;
}

struct DemangleBudget {
  size_t left;
  std::jmp_buf out_of_it;
};

// Whether the demangler would print less than `limit`. Substitutions let a name of a few hundred
// bytes demangle to more than any memory; __cxa_demangle has no limit, but this variant of
// libstdc++ hands its output over piecemeal and keeps all its state on the stack, so that leaving
// it half-way loses nothing.
bool DemanglesToLess(const char* mangled, size_t limit) {
  DemangleBudget budget;
  budget.left = limit;
  if (setjmp(budget.out_of_it) != 0) return false;
  __gcclibcxx_demangle_callback(
      mangled,
      [](const char*, size_t size, void* opaque) {
        auto* spent = static_cast<DemangleBudget*>(opaque);
        if (size >= spent->left) std::longjmp(spent->out_of_it, 1);
        spent->left -= size;
      },
      &budget);
  return true;
}

std::string DemangleAll(const std::string& mangled) {
  int status = 0;
  const std::unique_ptr<char, void (*)(void*)> name(
      abi::__cxa_demangle(mangled.c_str(), nullptr, nullptr, &status), &std::free);
  return name == nullptr ? mangled : std::string(name.get());
}

}  // namespace

std::string Demangle(std::string_view mangled) {
  if (!mangled.starts_with("_Z") || mangled.size() > kMaxMangledBytes) return std::string(mangled);
  const std::string text(mangled);
  return DemanglesToLess(text.c_str(), kMaxDemangledBytes) ? DemangleAll(text) : text;
}

std::string FunctionName(std::string_view demangled) {
  constexpr std::string_view kAnonymous = "(anonymous namespace)";
  std::string name(demangled);
  for (size_t at = name.find(kAnonymous); at != name.npos; at = name.find(kAnonymous, at)) {
    name.replace(at, kAnonymous.size(), "{anonymous}");
  }
  const std::string_view signature = Signature(name);
  return signature.empty() ? name : std::string(signature);
}

std::string ShortKernelName(std::string_view demangled, size_t width) {
  // Namespaces first: "(anonymous namespace)" would look like the parameter list.
  const std::string cut = CutNamespaces(demangled);
  std::string shown(Signature(cut));
  if (shown.empty()) shown = cut;
  if (DisplayWidth(shown) > width) shown = CutArgumentNamespaces(shown);
  // The brackets of `width` levels alone are too wide: where to begin with a name of thousands.
  const int deepest = static_cast<int>(std::min<size_t>(width, kMaxDemangledBytes));
  for (int keep = std::min(TemplateDepth(shown) - 1, deepest);
       keep >= 1 && DisplayWidth(shown) > width; --keep) {
    shown = FoldTemplates(shown, keep);
  }
  if (DisplayWidth(shown) > width) shown = DropLastArguments(shown, width);
  if (DisplayWidth(shown) > width) shown = FoldTemplates(shown, 0);
  return MiddleEllipsis(ToPrintable(shown), width);
}

const std::string& KernelNames::Full(int32_t name) {
  Entry& entry = cache_[static_cast<size_t>(name)];
  if (!entry.known) entry.full = Demangle(mangled_[static_cast<size_t>(name)]);
  entry.known = true;
  return entry.full;
}

const std::string& KernelNames::Short(int32_t name, size_t width) {
  const std::string& full = Full(name);
  Entry& entry = cache_[static_cast<size_t>(name)];
  if (entry.width != width) entry.shortened = ShortKernelName(full, width);
  entry.width = width;
  return entry.shortened;
}

}  // namespace gpuprobe::tools
