// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// What other profilers would write of the same records, for comparison: the tables of an Nsight
// Systems export in SQLite, and the JSON of torch.profiler, compressed by zlib as .json.gz is. Both
// take normalised records and count bytes.
#ifndef GPUPROBE_BENCH_OTHER_FORMATS_H_
#define GPUPROBE_BENCH_OTHER_FORMATS_H_

#include <sqlite3.h>
#include <unistd.h>
#include <zlib.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <initializer_list>
#include <string>
#include <unordered_map>
#include <vector>

#include "ringbuf/records.h"

namespace gpuprobe::bench {

// Without indexes, one transaction, no synchronisation with the disk, prepared statements: as fast
// as SQLite writes.
class SqliteSink {
 public:
  explicit SqliteSink(std::string path) : path_(std::move(path)) {
    unlink(path_.c_str());
    if (sqlite3_open(path_.c_str(), &database_) != SQLITE_OK) std::exit(1);
    Run("PRAGMA synchronous = OFF");
    Run("PRAGMA journal_mode = OFF");
    Run("CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT)");
    Run("CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER, end INTEGER, eventClass INTEGER, "
        "globalTid INTEGER, correlationId INTEGER, nameId INTEGER, returnValue INTEGER, "
        "callchainId "
        "INTEGER)");
    Run("CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER, end INTEGER, deviceId INTEGER, "
        "contextId INTEGER, streamId INTEGER, correlationId INTEGER, globalPid INTEGER, "
        "demangledName INTEGER, shortName INTEGER, mangledName INTEGER, launchType INTEGER, "
        "cacheConfig INTEGER, registersPerThread INTEGER, gridX INTEGER, gridY INTEGER, gridZ "
        "INTEGER, blockX INTEGER, blockY INTEGER, blockZ INTEGER, staticSharedMemory INTEGER, "
        "dynamicSharedMemory INTEGER, localMemoryPerThread INTEGER, localMemoryTotal INTEGER, "
        "gridId INTEGER, sharedMemoryExecuted INTEGER, graphNodeId INTEGER)");
    Run("CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY (start INTEGER, end INTEGER, deviceId INTEGER, "
        "contextId INTEGER, streamId INTEGER, correlationId INTEGER, globalPid INTEGER, bytes "
        "INTEGER, copyKind INTEGER, srcKind INTEGER, dstKind INTEGER, graphNodeId INTEGER)");
    Run("CREATE TABLE CUPTI_ACTIVITY_KIND_MEMSET (start INTEGER, end INTEGER, deviceId INTEGER, "
        "contextId INTEGER, streamId INTEGER, correlationId INTEGER, globalPid INTEGER, value "
        "INTEGER, bytes INTEGER, memKind INTEGER, graphNodeId INTEGER)");
    Run("CREATE TABLE CUPTI_ACTIVITY_KIND_SYNCHRONIZATION (start INTEGER, end INTEGER, contextId "
        "INTEGER, streamId INTEGER, correlationId INTEGER, globalPid INTEGER, syncType INTEGER, "
        "eventId INTEGER)");
    Run("CREATE TABLE CUPTI_ACTIVITY_KIND_CUDA_EVENT (contextId INTEGER, streamId INTEGER, eventId "
        "INTEGER, correlationId INTEGER, globalPid INTEGER)");
    runtime_ = Insert("CUPTI_ACTIVITY_KIND_RUNTIME", 8);
    kernel_ = Insert("CUPTI_ACTIVITY_KIND_KERNEL", 26);
    copy_ = Insert("CUPTI_ACTIVITY_KIND_MEMCPY", 12);
    set_ = Insert("CUPTI_ACTIVITY_KIND_MEMSET", 11);
    sync_ = Insert("CUPTI_ACTIVITY_KIND_SYNCHRONIZATION", 8);
    event_ = Insert("CUPTI_ACTIVITY_KIND_CUDA_EVENT", 5);
    string_ = Insert("StringIds", 2);
    Run("BEGIN");
  }
  ~SqliteSink() {
    for (sqlite3_stmt* s : {runtime_, kernel_, copy_, set_, sync_, event_, string_}) {
      sqlite3_finalize(s);
    }
    sqlite3_close(database_);
    unlink(path_.c_str());
  }
  SqliteSink(const SqliteSink&) = delete;
  SqliteSink& operator=(const SqliteSink&) = delete;

  void OnApi(const ApiRecord& r) {
    Add(runtime_, {r.start_ns, r.end_ns, 0, kProcess << 24 | r.thread, r.correlation,
                   NameId("cudaRuntimeCall_v" + std::to_string(r.cbid)), r.result, 0});
  }
  void OnKernel(const KernelRecord& r) {
    const int64_t name = KernelNameId(r.name);
    Add(kernel_, {r.start_ns,
                  r.end_ns,
                  r.device,
                  r.context,
                  r.stream,
                  r.correlation,
                  kProcess << 24,
                  name,
                  name,
                  name,
                  r.launch_type,
                  0,
                  r.registers_per_thread,
                  r.grid_x,
                  r.grid_y,
                  r.grid_z,
                  r.block_x,
                  r.block_y,
                  r.block_z,
                  r.static_shared_bytes,
                  r.dynamic_shared_bytes,
                  r.local_bytes_per_thread,
                  0,
                  r.grid_id,
                  r.shared_executed_bytes,
                  static_cast<int64_t>(r.graph_node_id)});
  }
  void OnCopy(const CopyRecord& r) {
    Add(copy_, {r.start_ns, r.end_ns, r.device, r.context, r.stream, r.correlation, kProcess << 24,
                static_cast<int64_t>(r.bytes), r.copy_kind, r.src_kind, r.dst_kind,
                static_cast<int64_t>(r.graph_node_id)});
  }
  void OnSet(const SetRecord& r) {
    Add(set_, {r.start_ns, r.end_ns, r.device, r.context, r.stream, r.correlation, kProcess << 24,
               r.value, static_cast<int64_t>(r.bytes), r.memory_kind,
               static_cast<int64_t>(r.graph_node_id)});
  }
  void OnSync(const SyncRecord& r) {
    Add(sync_, {r.start_ns, r.end_ns, r.context, r.stream, r.correlation, kProcess << 24, r.type,
                r.event});
  }
  void OnCudaEvent(const CudaEventRecord& r) {
    Add(event_, {r.context, r.stream, r.event, r.correlation, kProcess << 24});
  }
  // Size of the file.
  uint64_t Finish() {
    Run("COMMIT");
    return std::filesystem::file_size(path_);
  }

 private:
  static constexpr int64_t kProcess = 4711;

  void Run(const char* sql) {
    if (sqlite3_exec(database_, sql, nullptr, nullptr, nullptr) != SQLITE_OK) Fail();
  }
  [[noreturn]] void Fail() {
    std::fprintf(stderr, "SQLite: %s\n", sqlite3_errmsg(database_));
    std::exit(1);
  }
  sqlite3_stmt* Insert(const std::string& table, int columns) {
    std::string sql = "INSERT INTO " + table + " VALUES (?";
    for (int i = 1; i < columns; ++i) sql += ",?";
    sqlite3_stmt* statement = nullptr;
    sql += ")";
    if (sqlite3_prepare_v2(database_, sql.c_str(), -1, &statement, nullptr) != SQLITE_OK) Fail();
    return statement;
  }
  void Add(sqlite3_stmt* statement, std::initializer_list<int64_t> values) {
    int column = 0;
    for (const int64_t value : values) sqlite3_bind_int64(statement, ++column, value);
    if (sqlite3_step(statement) != SQLITE_DONE) Fail();
    sqlite3_reset(statement);
  }
  int64_t NameId(const std::string& name) {
    const auto [it, fresh] = names_.try_emplace(name, static_cast<int64_t>(names_.size()));
    if (fresh) {
      sqlite3_bind_int64(string_, 1, it->second);
      sqlite3_bind_text(string_, 2, name.c_str(), static_cast<int>(name.size()), SQLITE_TRANSIENT);
      if (sqlite3_step(string_) != SQLITE_DONE) Fail();
      sqlite3_reset(string_);
    }
    return it->second;
  }
  int64_t KernelNameId(const char* name) {
    const auto [it, fresh] = pointers_.try_emplace(name, 0);
    if (fresh) it->second = NameId(name == nullptr ? "" : name);
    return it->second;
  }

  std::string path_;
  sqlite3* database_ = nullptr;
  sqlite3_stmt *runtime_, *kernel_, *copy_, *set_, *sync_, *event_, *string_;
  std::unordered_map<std::string, int64_t> names_;
  std::unordered_map<const char*, int64_t> pointers_;
};

// One event a record in torch.profiler's form, without its flow events; zlib level 6.
class JsonGzSink {
 public:
  JsonGzSink() : compressed_(1 << 16) {
    deflateInit2(&stream_, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY);
    text_ = "{\"schemaVersion\":1,\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n";
  }
  ~JsonGzSink() { deflateEnd(&stream_); }
  JsonGzSink(const JsonGzSink&) = delete;
  JsonGzSink& operator=(const JsonGzSink&) = delete;

  void OnApi(const ApiRecord& r) {
    Event("cuda_runtime", ("cudaRuntimeCall_v" + std::to_string(r.cbid)).c_str(), 4711, r.thread,
          r.start_ns, r.end_ns);
    Text("\"External id\": %u, \"cbid\": %u, \"correlation\": %u", r.correlation, r.cbid,
         r.correlation);
    End();
  }
  void OnKernel(const KernelRecord& r) {
    Event("kernel", r.name == nullptr ? "" : r.name, r.device, r.stream, r.start_ns, r.end_ns);
    Text(
        "\"External id\": %u, \"queued\": 0, \"device\": %u, \"context\": %u, \"stream\": %u, "
        "\"correlation\": %u, \"registers per thread\": %u, \"shared memory\": %u, ",
        r.correlation, r.device, r.context, r.stream, r.correlation, r.registers_per_thread,
        r.static_shared_bytes + r.dynamic_shared_bytes);
    Text(
        "\"blocks per SM\": %.3f, \"warps per SM\": %.3f, \"grid\": [%u, %u, %u], \"block\": [%u, "
        "%u, %u], \"est. achieved occupancy %%\": 0",
        r.grid_x / 132.0, r.grid_x * r.block_x / 4224.0, r.grid_x, r.grid_y, r.grid_z, r.block_x,
        r.block_y, r.block_z);
    End();
  }
  void OnCopy(const CopyRecord& r) {
    Event("gpu_memcpy", "Memcpy HtoD (Pageable -> Device)", r.device, r.stream, r.start_ns,
          r.end_ns);
    Text(
        "\"External id\": %u, \"device\": %u, \"context\": %u, \"stream\": %u, \"correlation\": "
        "%u, \"bytes\": %llu",
        r.correlation, r.device, r.context, r.stream, r.correlation,
        static_cast<unsigned long long>(r.bytes));
    End();
  }
  void OnSet(const SetRecord& r) {
    Event("gpu_memset", "Memset (Device)", r.device, r.stream, r.start_ns, r.end_ns);
    Text(
        "\"External id\": %u, \"device\": %u, \"context\": %u, \"stream\": %u, \"correlation\": "
        "%u, \"bytes\": %llu",
        r.correlation, r.device, r.context, r.stream, r.correlation,
        static_cast<unsigned long long>(r.bytes));
    End();
  }
  void OnSync(const SyncRecord& r) {
    Event("cuda_sync", "Stream Sync", 0, r.stream, r.start_ns, r.end_ns);
    Text(
        "\"cuda_sync_kind\": \"Stream Sync\", \"stream\": %d, \"correlation\": %u, \"context\": %u",
        static_cast<int>(r.stream), r.correlation, r.context);
    End();
  }
  void OnCudaEvent(const CudaEventRecord&) {}  // torch.profiler writes none
  // Size of the compressed file.
  uint64_t Finish() {
    text_ += "{}]}\n";
    Deflate(Z_FINISH);
    return bytes_;
  }

 private:
  template <class... Args>
  void Text(const char* format, Args... args) {
    char line[512];
    const int size = std::snprintf(line, sizeof(line), format, args...);
    text_.append(line, static_cast<size_t>(size));
  }
  void Event(const char* category, const char* name, uint32_t process, uint32_t thread,
             int64_t start_ns, int64_t end_ns) {
    const int64_t ns = end_ns - start_ns;
    Text("  {\n    \"ph\": \"X\", \"cat\": \"%s\", \"name\": \"", category);
    text_ += name;
    Text(
        "\", \"pid\": %u, \"tid\": %u,\n    \"ts\": %lld.%03lld, \"dur\": %lld.%03lld,\n    "
        "\"args\": {\n      ",
        process, thread, static_cast<long long>(start_ns / 1000),
        static_cast<long long>(start_ns % 1000), static_cast<long long>(ns / 1000),
        static_cast<long long>(ns % 1000));
  }
  void End() {
    text_ += "\n    }\n  },\n";
    if (text_.size() > (1 << 16)) Deflate(Z_NO_FLUSH);
  }
  void Deflate(int flush) {
    stream_.next_in = reinterpret_cast<Bytef*>(text_.data());
    stream_.avail_in = static_cast<uInt>(text_.size());
    do {
      stream_.next_out = compressed_.data();
      stream_.avail_out = static_cast<uInt>(compressed_.size());
      deflate(&stream_, flush);
      bytes_ += compressed_.size() - stream_.avail_out;
    } while (stream_.avail_out == 0);
    text_.clear();
  }

  z_stream stream_ = {};
  std::string text_;
  std::vector<Bytef> compressed_;
  uint64_t bytes_ = 0;
};

}  // namespace gpuprobe::bench

#endif  // GPUPROBE_BENCH_OTHER_FORMATS_H_
