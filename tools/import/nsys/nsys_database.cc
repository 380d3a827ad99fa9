// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "tools/import/nsys/nsys_database.h"

#include <sqlite3.h>
#include <sys/stat.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace gpuprobe::tools {
namespace {

// A row of two small numbers takes 9 bytes; a view that makes more rows than fit into the file is
// no table of records.
constexpr uint64_t kLeastRowBytes = 4;
// Reading takes about one step of SQLite's machine for a value, which takes a byte or more.
constexpr uint64_t kStepsPerByte = 50, kStepsAtLeast = 20'000'000;
constexpr int kStepsPerCall = 10'000;
// Names are shorter; embedded files are not asked for. An expression in a view may make values of
// any length in one step, which the budget of steps does not see.
constexpr int kLongestValue = 1 << 20;
constexpr sqlite3_int64 kHeapLimitBytes = 1 << 30;

bool SameName(std::string_view a, std::string_view b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(), [](unsigned char x, unsigned char y) {
    return absl::ascii_tolower(x) == absl::ascii_tolower(y);
  });
}

template <typename T>
bool ReadWhole(std::string_view text, T* value) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), *value);
  return error == std::errc() && end == text.data() + text.size();
}

std::string Quoted(std::string_view name) {
  std::string out = "\"";
  for (const char c : name) out.append(c == '"' ? 2 : 1, c);
  return out + "\"";
}

std::string FileUri(const std::string& path) {
  std::error_code error;
  const std::string full = std::filesystem::absolute(path, error).string();
  std::string uri = "file:";
  for (const char c : error ? path : full) {
    if (absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '/' || c == '.' || c == '-') {
      uri += c;
    } else {
      constexpr char kHex[] = "0123456789ABCDEF";
      const auto byte = static_cast<unsigned char>(c);
      uri += {'%', kHex[byte >> 4], kHex[byte & 15]};
    }
  }
  return uri + "?immutable=1";
}

// Content that belongs to the database but is not in it yet, or is to be taken back.
std::string UnreadBeside(const std::string& path) {
  for (const char* suffix : {"-wal", "-journal"}) {
    struct stat info = {};
    if (stat((path + suffix).c_str(), &info) == 0 && info.st_size > 0) {
      return std::filesystem::path(path + suffix).filename().string();
    }
  }
  return "";
}

// NAME_V3 -> 3; 0: no such name.
int VersionOf(std::string_view table, std::string_view name) {
  int version = 0;
  if (table.size() < name.size() + 3 || !SameName(table.substr(0, name.size()), name)) return 0;
  const std::string_view suffix = table.substr(name.size());
  return SameName(suffix.substr(0, 2), "_v") && ReadWhole(suffix.substr(2), &version) ? version : 0;
}

}  // namespace

bool NsysDatabase::Table::HasColumn(std::string_view column) const {
  return std::any_of(columns.begin(), columns.end(),
                     [column](const std::string& known) { return SameName(known, column); });
}

NsysDatabase::~NsysDatabase() { sqlite3_close(database_); }

int NsysDatabase::OnProgress(void* self) {
  uint64_t& left = static_cast<NsysDatabase*>(self)->steps_left_;
  left -= std::min<uint64_t>(left, kStepsPerCall);
  return left == 0 ? 1 : 0;
}

absl::Status NsysDatabase::ReadSchema() {
  sqlite3_limit(database_, SQLITE_LIMIT_LENGTH, kLongestValue);
  sqlite3_hard_heap_limit64(kHeapLimitBytes);
  sqlite3_db_config(database_, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_db_config(database_, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  sqlite3_exec(database_, "PRAGMA cell_size_check=ON; PRAGMA temp_store=MEMORY", nullptr, nullptr,
               nullptr);
  sqlite3_progress_handler(database_, kStepsPerCall, OnProgress, this);
  static const Table kSchema = {"sqlite_master", true, {"name", "type", "rootpage"}};
  static const char* const kColumns[] = {"name", "type", "rootpage"};
  const std::unique_ptr<Rows> rows = Scan(kSchema, kColumns);
  while (rows->Next()) {
    const std::string_view type = rows->Text(1);
    // Without a page of its own: a virtual table, whose code would run.
    const bool code = type == "table" && rows->Integer(2).value_or(0) <= 0;
    if (type == "table" || type == "view") {
      tables_.push_back({std::string(rows->Text(0)), type == "view", {}, code});
    }
  }
  if (!rows->error().empty()) return absl::DataLossError(rows->error());
  for (Table& table : tables_) {
    if (table.code) continue;  // asking for its columns would run it
    sqlite3_stmt* statement = nullptr;
    const std::string sql = absl::StrCat("PRAGMA table_info(", Quoted(table.name), ")");
    if (sqlite3_prepare_v2(database_, sql.c_str(), -1, &statement, nullptr) != SQLITE_OK) continue;
    while (sqlite3_step(statement) == SQLITE_ROW) {
      const auto* name = reinterpret_cast<const char*>(sqlite3_column_text(statement, 1));
      if (name != nullptr) table.columns.emplace_back(name);
    }
    sqlite3_finalize(statement);
  }
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<NsysDatabase>> NsysDatabase::Open(const std::string& path) {
  std::unique_ptr<NsysDatabase> out(new NsysDatabase);
  struct stat info = {};
  if (stat(path.c_str(), &info) == 0) out->bytes_ = static_cast<uint64_t>(info.st_size);
  out->unread_beside_ = UnreadBeside(path);
  const int code =
      sqlite3_open_v2(FileUri(path).c_str(), &out->database_,
                      SQLITE_OPEN_READONLY | SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX, nullptr);
  if (code != SQLITE_OK) return absl::DataLossError(sqlite3_errstr(code));
  if (absl::Status status = out->ReadSchema(); !status.ok()) return status;
  return out;
}

absl::StatusOr<std::unique_ptr<NsysDatabase>> NsysDatabase::FromBytes(std::span<uint8_t> bytes) {
  std::unique_ptr<NsysDatabase> out(new NsysDatabase);
  out->bytes_ = bytes.size();
  int code = sqlite3_open_v2(":memory:", &out->database_,
                             SQLITE_OPEN_READWRITE | SQLITE_OPEN_NOMUTEX, nullptr);
  if (code == SQLITE_OK) {
    const auto size = static_cast<sqlite3_int64>(bytes.size());
    code = sqlite3_deserialize(out->database_, "main", bytes.data(), size, size,
                               SQLITE_DESERIALIZE_READONLY);
  }
  if (code != SQLITE_OK) return absl::DataLossError(sqlite3_errstr(code));
  if (absl::Status status = out->ReadSchema(); !status.ok()) return status;
  return out;
}

const NsysDatabase::Table* NsysDatabase::Find(std::string_view name) const {
  const Table* newest = nullptr;
  for (const Table& table : tables_) {
    if (SameName(table.name, name)) return &table;
    const int version = VersionOf(table.name, name);
    if (version > 0 && (newest == nullptr || version > VersionOf(newest->name, name))) {
      newest = &table;
    }
  }
  return newest;
}

std::unique_ptr<NsysDatabase::Rows> NsysDatabase::Scan(const Table& table,
                                                       std::span<const char* const> columns) const {
  steps_left_ = std::max(kStepsAtLeast, bytes_ * kStepsPerByte);
  return std::unique_ptr<Rows>(new Rows(database_, table, columns, bytes_ / kLeastRowBytes));
}

NsysDatabase::Rows::Rows(sqlite3* database, const Table& table,
                         std::span<const char* const> columns, uint64_t most_rows)
    : database_(database), table_(table), most_rows_(most_rows), has_rowid_(!table.view) {
  if (table.code) {
    error_ = "a virtual table, whose content is made by code: not read";
    return;
  }
  for (const char* column : columns) {
    absl::StrAppend(&columns_, ", ", table.HasColumn(column) ? Quoted(column) : "NULL");
  }
  // WITHOUT ROWID tables have none; nobody writes exports with them, but they are tables too.
  if (!Prepare(false) && has_rowid_) {
    has_rowid_ = false;
    error_.clear();
    Prepare(false);
  }
}

NsysDatabase::Rows::~Rows() { sqlite3_finalize(statement_); }

bool NsysDatabase::Rows::Prepare(bool backwards) {
  sqlite3_finalize(std::exchange(statement_, nullptr));
  std::string sql = absl::StrCat("SELECT ", has_rowid_ ? "rowid" : "NULL", columns_, " FROM ",
                                 Quoted(table_.name));
  if (backwards) absl::StrAppend(&sql, " WHERE rowid > ?1 ORDER BY rowid DESC");
  const int code = sqlite3_prepare_v2(database_, sql.c_str(), -1, &statement_, nullptr);
  if (code != SQLITE_OK) return Fail(code);
  if (backwards) sqlite3_bind_int64(statement_, 1, last_rowid_);
  return true;
}

bool NsysDatabase::Rows::Fail(int code) {
  if (error_.empty()) {
    error_ = code == SQLITE_INTERRUPT ? "takes more work than its size accounts for"
                                      : sqlite3_errmsg(database_);
  }
  return false;
}

bool NsysDatabase::Rows::Next() {
  if (statement_ == nullptr) return false;
  const int code = sqlite3_step(statement_);
  if (code == SQLITE_ROW) {
    if (count_ >= most_rows_) return Fail(SQLITE_INTERRUPT);
    if (has_rowid_ && !backwards_) last_rowid_ = sqlite3_column_int64(statement_, 0);
    ++count_;
    return true;
  }
  if (code == SQLITE_DONE) return false;
  Fail(code);
  if (code != SQLITE_CORRUPT || !has_rowid_ || backwards_) return false;
  backwards_ = true;
  return Prepare(true) && Next();
}

std::optional<int64_t> NsysDatabase::Rows::Integer(int column) {
  const int at = column + 1;
  switch (sqlite3_column_type(statement_, at)) {
    case SQLITE_INTEGER:
      return sqlite3_column_int64(statement_, at);
    case SQLITE_NULL:
      return std::nullopt;
    case SQLITE_FLOAT: {
      // Tools that rewrite exports turn columns with a NULL in them into floating point.
      constexpr double kExactBelow = 9007199254740992.0;
      const double value = sqlite3_column_double(statement_, at);
      if (std::abs(value) <= kExactBelow && std::trunc(value) == value) {
        return static_cast<int64_t>(value);
      }
      break;
    }
    case SQLITE_TEXT: {
      int64_t value = 0;
      if (ReadWhole(Text(column), &value)) return value;
      break;
    }
    default:
      break;
  }
  ++wrong_types_;
  return std::nullopt;
}

std::string_view NsysDatabase::Rows::Text(int column) {
  const int at = column + 1;
  const int type = sqlite3_column_type(statement_, at);
  if (type != SQLITE_TEXT && type != SQLITE_INTEGER) return "";
  const auto* text = reinterpret_cast<const char*>(sqlite3_column_text(statement_, at));
  if (text == nullptr) return "";
  return {text, static_cast<size_t>(sqlite3_column_bytes(statement_, at))};
}

}  // namespace gpuprobe::tools
