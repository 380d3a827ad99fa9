// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "tools/format/format_json.h"

#include <cmath>

#include "absl/strings/str_format.h"
#include "tools/format/format_text.h"

namespace gpuprobe::tools {
namespace {

constexpr double kAllWhole = 9007199254740992.0;  // 2^53: doubles count one by one up to it

}  // namespace

void JsonWriter::BreakLine() {
  if (has_elements_.size() > static_cast<size_t>(break_depth_)) return;
  out_->push_back('\n');
  out_->append(has_elements_.size() * 2, ' ');
}

void JsonWriter::Separate() {
  if (after_key_) {
    after_key_ = false;
    return;
  }
  if (has_elements_.empty()) return;
  if (has_elements_.back()) out_->push_back(',');
  has_elements_.back() = true;
  BreakLine();
}

JsonWriter& JsonWriter::Begin(char bracket) {
  Separate();
  out_->push_back(bracket);
  has_elements_.push_back(false);
  return *this;
}

JsonWriter& JsonWriter::End(char bracket) {
  const bool had = has_elements_.back();
  const bool broken = had && has_elements_.size() <= static_cast<size_t>(break_depth_);
  has_elements_.pop_back();
  if (broken) {
    out_->push_back('\n');
    out_->append(has_elements_.size() * 2, ' ');
  }
  out_->push_back(bracket);
  return *this;
}

JsonWriter& JsonWriter::Key(std::string_view key) {
  Separate();
  Escaped(key);
  out_->push_back(':');
  after_key_ = true;
  return *this;
}

JsonWriter& JsonWriter::Value(std::string_view text) {
  Separate();
  Escaped(text);
  return *this;
}

JsonWriter& JsonWriter::Value(bool value) { return Raw(value ? "true" : "false"); }

JsonWriter& JsonWriter::Value(double value) {
  if (!std::isfinite(value)) return Null();
  const bool whole = value == std::floor(value) && std::abs(value) < kAllWhole;
  return Raw(whole ? absl::StrFormat("%.0f", value) : absl::StrFormat("%.10g", value));
}

JsonWriter& JsonWriter::Raw(std::string_view token) {
  Separate();
  out_->append(token);
  return *this;
}

void JsonWriter::Escaped(std::string_view text) {
  out_->push_back('"');
  const std::string valid = ToValidUtf8(text);
  for (size_t at = 0, length = 0; at < valid.size(); at += length) {
    const uint32_t code = CodePointAt(valid, at, &length);
    switch (code) {
      case '"':
        out_->append("\\\"");
        break;
      case '\\':
        out_->append("\\\\");
        break;
      case '\n':
        out_->append("\\n");
        break;
      case '\r':
        out_->append("\\r");
        break;
      case '\t':
        out_->append("\\t");
        break;
      default:
        if (!IsHidden(code)) {
          out_->append(valid, at, length);
        } else if (code <= 0xFFFF) {
          absl::StrAppendFormat(out_, "\\u%04x", code);
        } else {
          absl::StrAppendFormat(out_, "\\u%04x\\u%04x", 0xD7C0 + (code >> 10),
                                0xDC00 + (code & 0x3FF));
        }
    }
  }
  out_->push_back('"');
}

}  // namespace gpuprobe::tools
