// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "tools/import/nsys/nsys_sqlite.h"

#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "tools/import/nsys/nsys_database.h"
#include "tools/import/nsys/nsys_loader.h"

namespace gpuprobe::tools {
namespace {

absl::Status Load(const std::string& path, absl::StatusOr<std::unique_ptr<NsysDatabase>> database,
                  LoadedRun* run) {
  if (!database.ok()) {
    return absl::DataLossError(absl::StrCat(
        path, ": a SQLite database that cannot be read: ", database.status().message()));
  }
  if (!NsysLoader::IsExport(**database)) {
    const bool nvprof = (*database)->Find("StringTable") != nullptr;
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": a SQLite database, but no export of Nsight Systems",
                     nvprof                          ? " (nvprof's files are not read)"
                     : (*database)->tables().empty() ? " (it has no table)"
                                                     : " (none of its tables is one of theirs)"));
  }
  NsysLoader(**database, path, run).Load();
  return absl::OkStatus();
}

}  // namespace

bool IsSqlite(std::string_view head) {
  return head.substr(0, 16) == std::string_view("SQLite format 3\0", 16);
}

absl::Status LoadNsysSqlite(const std::string& path, LoadedRun* run) {
  return Load(path, NsysDatabase::Open(path), run);
}

absl::Status LoadNsysBytes(const std::string& path, std::span<uint8_t> bytes, LoadedRun* run) {
  return Load(path, NsysDatabase::FromBytes(bytes), run);
}

}  // namespace gpuprobe::tools
