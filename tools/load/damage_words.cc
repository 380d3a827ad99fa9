// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "tools/load/damage_words.h"

#include "absl/strings/str_cat.h"
#include "tools/format/format_units.h"

namespace gpuprobe::tools {

const char* DamageKey(proto::Damage::Kind kind) {
  switch (kind) {
    case proto::Damage::Kind::kTornTail:
      return "torn_tail";
    case proto::Damage::Kind::kCorrupt:
      return "corrupt";
    case proto::Damage::Kind::kMissing:
      return "missing";
    case proto::Damage::Kind::kForeignData:
      return "foreign_data";
    case proto::Damage::Kind::kNoEnd:
      return "no_end";
  }
  return "unknown";
}

std::string DamageText(const proto::Damage& damage) {
  switch (damage.kind) {
    case proto::Damage::Kind::kTornTail:
      return absl::StrCat("the last ", FormatBytes(damage.bytes), " at offset ", damage.offset,
                          " are an incomplete frame");
    case proto::Damage::Kind::kCorrupt:
      return absl::StrCat(FormatBytes(damage.bytes), " at offset ", damage.offset, " are damaged");
    case proto::Damage::Kind::kMissing:
      return absl::StrCat(FormatPlural(damage.frames, "frame"), " missing before offset ",
                          damage.offset);
    case proto::Damage::Kind::kForeignData:
      return absl::StrCat(FormatBytes(damage.bytes), " at offset ", damage.offset,
                          " are no trace data");
    case proto::Damage::Kind::kNoEnd:
      return absl::StrCat("not closed: ", kWhyNotClosed);
  }
  return "";
}

}  // namespace gpuprobe::tools
