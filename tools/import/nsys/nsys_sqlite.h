// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// SQLite exports of Nsight Systems (`nsys export --type sqlite`) -> Timeline.
#ifndef GPUPROBE_TOOLS_IMPORT_NSYS_NSYS_SQLITE_H_
#define GPUPROBE_TOOLS_IMPORT_NSYS_NSYS_SQLITE_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "tools/load/trace_loader.h"

namespace gpuprobe::tools {

// Does a file that begins with these bytes (16 suffice) claim to be a SQLite database?
bool IsSqlite(std::string_view head);

// Appends the file's records, unsorted as a whole and unlinked, its InputFile, and a Process and
// ProcessCapture for each process that has a record. Times are nanoseconds since the start of the
// session, as stored. Must come after the last .gpuprobe file.
//
// Schemas 2.x and 3.x: tables and columns are looked for, and what is not there is named in
// ProcessCapture::absent, not an error. Rows that cannot be true (no times, end before start) and
// damaged pages are in InputFile::problem and LoadedRun::damage, with their table; all else is
// kept. Fails, adding nothing, if the file is no such export.
absl::Status LoadNsysSqlite(const std::string& path, LoadedRun* run);
// The same of a file's content.
absl::Status LoadNsysBytes(const std::string& path, std::span<uint8_t> bytes, LoadedRun* run);

}  // namespace gpuprobe::tools

#endif  // GPUPROBE_TOOLS_IMPORT_NSYS_NSYS_SQLITE_H_
