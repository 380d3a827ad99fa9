// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// A SQLite file as tables of integers and texts, whatever its schema turns out to be. The only file
// here that knows SQLite.
//
// The file is opened read-only and immutable: no lock is taken, nothing is created beside it, and a
// write-ahead log beside it is not read (UnreadBeside says so). The content is trusted in nothing:
// work and rows are bounded by the size of the file, functions and virtual tables of its schema do
// not run.
#ifndef GPUPROBE_TOOLS_IMPORT_NSYS_NSYS_DATABASE_H_
#define GPUPROBE_TOOLS_IMPORT_NSYS_NSYS_DATABASE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

struct sqlite3;
struct sqlite3_stmt;

namespace gpuprobe::tools {

class NsysDatabase {
 public:
  struct Table {
    std::string name;  // as it stands in the file
    bool view = false;
    std::vector<std::string> columns = {};
    bool code = false;  // a virtual table: its content is what code makes, and is not read
    bool HasColumn(std::string_view column) const;
  };

  // The rows of one table, once, in the order in which they lie in the file. After a damaged page
  // it goes on from the other end of the table, so that only what lies between is lost.
  class Rows {
   public:
    ~Rows();
    Rows(const Rows&) = delete;
    Rows& operator=(const Rows&) = delete;

    bool Next();
    // Of the column with this number in the list given to Scan; nothing for NULL, an absent column
    // and what is no whole number.
    std::optional<int64_t> Integer(int column);
    std::string_view Text(int column);  // until the next call of Next

    uint64_t count() const { return count_; }              // rows so far
    uint64_t wrong_types() const { return wrong_types_; }  // values that were no whole numbers
    const std::string& error() const { return error_; }  // what ended or tore the reading; or empty

   private:
    friend class NsysDatabase;
    Rows(sqlite3* database, const Table& table, std::span<const char* const> columns,
         uint64_t most_rows);
    bool Prepare(bool backwards);
    bool Fail(int code);

    sqlite3* database_;
    const Table& table_;
    std::string columns_;
    uint64_t most_rows_;
    sqlite3_stmt* statement_ = nullptr;
    bool backwards_ = false, has_rowid_ = false;
    int64_t last_rowid_ = 0;
    uint64_t count_ = 0, wrong_types_ = 0;
    std::string error_;
  };

  // Fails with one sentence, without the path, if it is no SQLite file or its schema is unreadable.
  static absl::StatusOr<std::unique_ptr<NsysDatabase>> Open(const std::string& path);
  // The same of a file's content, which must outlive the database.
  static absl::StatusOr<std::unique_ptr<NsysDatabase>> FromBytes(std::span<uint8_t> bytes);
  ~NsysDatabase();
  NsysDatabase(const NsysDatabase&) = delete;
  NsysDatabase& operator=(const NsysDatabase&) = delete;

  // A table or view of that name, whatever its letters' case; else the one with the highest version
  // suffix (NAME_V3). nullptr: none.
  const Table* Find(std::string_view name) const;
  const std::vector<Table>& tables() const { return tables_; }

  std::unique_ptr<Rows> Scan(const Table& table, std::span<const char* const> columns) const;

  uint64_t bytes() const { return bytes_; }
  // "trace.sqlite-wal" where a log or journal with content lies beside the file.
  const std::string& unread_beside() const { return unread_beside_; }

 private:
  NsysDatabase() = default;
  absl::Status ReadSchema();
  static int OnProgress(void* self);

  sqlite3* database_ = nullptr;
  uint64_t bytes_ = 0;
  mutable uint64_t steps_left_ = 0;
  std::string unread_beside_;
  std::vector<Table> tables_;
};

}  // namespace gpuprobe::tools

#endif  // GPUPROBE_TOOLS_IMPORT_NSYS_NSYS_DATABASE_H_
