// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Strict JSON (RFC 8259) into a string: escapes, valid UTF-8, integers kept as integers, no NaN.
//
//   JsonWriter json(&out);
//   json.BeginObject();
//   json.Key("count").Value(3);
//   json.EndObject();
//
// The caller keeps Begin/End balanced and gives a Key before every value of an object. `out` may be
// emptied between calls (streaming).
#ifndef GPUPROBE_TOOLS_FORMAT_FORMAT_JSON_H_
#define GPUPROBE_TOOLS_FORMAT_FORMAT_JSON_H_

#include <concepts>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace gpuprobe::tools {

class JsonWriter {
 public:
  // Pretty output breaks lines between elements down to this depth; deeper ones stay on one line,
  // so that a row of a list is a line.
  explicit JsonWriter(std::string* out, int break_depth = 2)
      : out_(out), break_depth_(break_depth) {}
  JsonWriter(const JsonWriter&) = delete;
  JsonWriter& operator=(const JsonWriter&) = delete;

  JsonWriter& BeginObject() { return Begin('{'); }
  JsonWriter& EndObject() { return End('}'); }
  JsonWriter& BeginArray() { return Begin('['); }
  JsonWriter& EndArray() { return End(']'); }
  JsonWriter& Key(std::string_view key);

  JsonWriter& Value(std::string_view text);
  JsonWriter& Value(const char* text) { return Value(std::string_view(text)); }
  JsonWriter& Value(bool value);
  JsonWriter& Value(double value);  // null if not finite
  template <std::integral T>
  requires(!std::same_as<T, bool>) JsonWriter& Value(T value) {
    if constexpr (std::signed_integral<T>) {
      return Raw(std::to_string(static_cast<int64_t>(value)));
    } else {
      return Raw(std::to_string(static_cast<uint64_t>(value)));
    }
  }
  JsonWriter& Null() { return Raw("null"); }

  template <typename T>
  JsonWriter& Field(std::string_view key, const T& value) {
    Key(key);
    return Value(value);
  }

 private:
  JsonWriter& Begin(char bracket);
  JsonWriter& End(char bracket);
  JsonWriter& Raw(std::string_view token);
  void Separate();
  void BreakLine();
  void Escaped(std::string_view text);

  std::string* out_;
  int break_depth_;
  std::vector<bool> has_elements_;  // one per open bracket
  bool after_key_ = false;
};

}  // namespace gpuprobe::tools

#endif  // GPUPROBE_TOOLS_FORMAT_FORMAT_JSON_H_
