// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// As much JSON as expected.json needs: objects, arrays, strings without escapes, integers. Numbers
// keep their 64 bits (times have 19 digits).
#ifndef GPUPROBE_TESTS_CUPTI_JSON_H_
#define GPUPROBE_TESTS_CUPTI_JSON_H_

#include <cctype>
#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

namespace gpuprobe::cupti {

struct Json {
  int64_t number = 0;
  std::string text;
  std::vector<Json> items;
  std::map<std::string, Json> members;

  const Json& operator[](const std::string& key) const {
    const auto found = members.find(key);
    if (found == members.end()) throw std::runtime_error("expected.json lacks " + key);
    return found->second;
  }
};

class JsonParser {
 public:
  explicit JsonParser(const std::string& text) : text_(text) {}
  Json Parse() { return Value(); }

 private:
  char Peek() {
    while (at_ < text_.size() && isspace(static_cast<unsigned char>(text_[at_]))) ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  void Expect(char c) {
    if (Peek() != c) throw std::runtime_error("bad JSON at byte " + std::to_string(at_));
    ++at_;
  }
  bool Take(char c) {
    if (Peek() != c) return false;
    ++at_;
    return true;
  }
  std::string String() {
    Expect('"');
    const size_t end = text_.find('"', at_);
    if (end == std::string::npos) throw std::runtime_error("unterminated string");
    std::string value = text_.substr(at_, end - at_);
    at_ = end + 1;
    return value;
  }
  Json Value() {
    Json value;
    if (Take('{')) {
      while (!Take('}')) {
        const std::string key = String();
        Expect(':');
        value.members[key] = Value();
        Take(',');
      }
    } else if (Take('[')) {
      while (!Take(']')) {
        value.items.push_back(Value());
        Take(',');
      }
    } else if (Peek() == '"') {
      value.text = String();
    } else {
      size_t used = 0;
      value.number = std::stoll(text_.substr(at_, 24), &used);
      at_ += used;
    }
    return value;
  }

  const std::string text_;
  size_t at_ = 0;
};

}  // namespace gpuprobe::cupti

#endif  // GPUPROBE_TESTS_CUPTI_JSON_H_
