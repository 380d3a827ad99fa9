// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Rows of an export -> records of the Timeline, where the reports do not show them one by one.
#include "tools/import/nsys/nsys_sqlite.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>

#include <cstdint>
#include <string>
#include <vector>

#include "tools/load/records/link_calls.h"

namespace gpuprobe::tools {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// Serialised ids of virtual machine 1, as Nsight Systems packs them.
constexpr int64_t Pid(int64_t pid) { return int64_t{1} << 48 | pid << 24; }
std::string P(int64_t pid) { return std::to_string(Pid(pid)); }
std::string T(int64_t pid, int64_t tid) { return std::to_string(Pid(pid) | tid); }

std::vector<uint8_t> Database(const std::string& sql) {
  sqlite3* database = nullptr;
  EXPECT_EQ(sqlite3_open(":memory:", &database), SQLITE_OK);
  char* error = nullptr;
  EXPECT_EQ(sqlite3_exec(database, sql.c_str(), nullptr, nullptr, &error), SQLITE_OK) << error;
  sqlite3_int64 size = 0;
  unsigned char* bytes = sqlite3_serialize(database, "main", &size, 0);
  std::vector<uint8_t> out(bytes, bytes + size);
  sqlite3_free(bytes);
  sqlite3_close(database);
  return out;
}

const char kStrings[] =
    "CREATE TABLE StringIds(id, value);"
    "INSERT INTO StringIds VALUES (1,'cudaLaunchKernel_v7000'),(2,'cudaStreamSynchronize_v3020'),"
    "(3,'cudaStreamWaitEvent_v3020'),(4,'cudaEventSynchronize_v3020'),"
    "(5,'cudaDeviceSynchronize_v3020'),(6,'kernel'),(7,'worker'),(8,'cuMemFree_v2');";
const char kRuntime[] =
    "CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME(start,end,eventClass,globalTid,correlationId,nameId,"
    "returnValue);";
const char kKernels[] =
    "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL(start,end,deviceId,contextId,streamId,correlationId,"
    "globalPid,demangledName,shortName,registersPerThread,gridX,gridY,gridZ,blockX,blockY,blockZ,"
    "staticSharedMemory,dynamicSharedMemory,localMemoryPerThread,clusterX,clusterY,clusterZ,"
    "graphNodeId,graphId);";
const char kSyncs[] =
    "CREATE TABLE CUPTI_ACTIVITY_KIND_SYNCHRONIZATION(start,end,deviceId,contextId,streamId,"
    "correlationId,globalPid,deprecatedSyncType,syncType,eventId,eventSyncId);";

std::string Kernel(int64_t pid, int device, int context, int stream, int64_t start, int correlation,
                   const std::string& name = "6,6") {
  return "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (" + std::to_string(start) + "," +
         std::to_string(start + 10) + "," + std::to_string(device) + "," + std::to_string(context) +
         "," + std::to_string(stream) + "," + std::to_string(correlation) + "," + P(pid) + "," +
         name + ",32,4,5,6,128,2,1,16,32,64,2,1,1,NULL,0);";
}
std::string Call(int64_t pid, int64_t tid, int name, int64_t start, int correlation,
                 int event_class = 0) {
  return "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME VALUES (" + std::to_string(start) + "," +
         std::to_string(start + 5) + "," + std::to_string(event_class) + "," + T(pid, tid) + "," +
         std::to_string(correlation) + "," + std::to_string(name) + ",0);";
}
std::string Sync(int64_t pid, int context, int stream, int64_t start, int correlation,
                 const std::string& types, const std::string& event = "4294967295,0") {
  return "INSERT INTO CUPTI_ACTIVITY_KIND_SYNCHRONIZATION VALUES (" + std::to_string(start) + "," +
         std::to_string(start + 4) + ",0," + std::to_string(context) + "," +
         std::to_string(stream) + "," + std::to_string(correlation) + "," + P(pid) + "," + types +
         "," + event + ");";
}

LoadedRun Load(const std::string& sql) {
  LoadedRun run;
  std::vector<uint8_t> bytes = Database(sql);
  const absl::Status status = LoadNsysBytes("x.sqlite", bytes, &run);
  EXPECT_TRUE(status.ok()) << status;
  return run;
}

std::vector<int> SyncTypes(const LoadedRun& run) {
  std::vector<int> types;
  for (const SyncOp& sync : run.timeline.syncs) types.push_back(sync.type);
  return types;
}

TEST(NsysSqlite, SyncRowsNameTheDeviceOfTheirContext) {
  LoadedRun run = Load(std::string(kStrings) + kRuntime + kKernels + kSyncs +
                       Call(10, 10, 1, 100, 1) + Call(10, 10, 2, 200, 2) +
                       Kernel(10, 1, 3, 7, 120, 1) + Sync(10, 3, 7, 201, 2, "NULL,3"));
  ASSERT_EQ(run.timeline.syncs.size(), 1u);
  const SyncOp& sync = run.timeline.syncs[0];
  EXPECT_EQ(sync.type, 3);
  EXPECT_EQ(sync.device, run.timeline.ops[0].device);
  EXPECT_EQ(sync.stream, run.timeline.ops[0].stream);
  LinkCalls(&run);
  EXPECT_EQ(run.timeline.calls[static_cast<size_t>(run.timeline.syncs[0].call)].correlation, 2u);
}

TEST(NsysSqlite, ContextOfAnotherProcessIsAnotherContext) {
  const LoadedRun run = Load(std::string(kKernels) + kSyncs + Kernel(10, 0, 1, 7, 100, 1) +
                             Kernel(20, 1, 1, 7, 110, 1) + Sync(20, 1, 7, 200, 2, "NULL,3") +
                             Sync(20, 9, 7, 300, 3, "NULL,3"));
  EXPECT_EQ(run.timeline.syncs[0].device, 1);
  EXPECT_EQ(run.timeline.syncs[1].device, -1);
  EXPECT_EQ(run.timeline.syncs[1].stream, -1);
  EXPECT_EQ(run.timeline.streams.size(), 2u);
}

// Each call and its row, the types one too low.
TEST(NsysSqlite, SyncTypesThatAreOneTooLowAreCorrectedByTheirCalls) {
  const std::string calls = std::string(kStrings) + kRuntime + kSyncs + Call(10, 10, 4, 100, 1) +
                            Call(10, 10, 3, 200, 2) + Call(10, 10, 2, 300, 3) +
                            Call(10, 10, 5, 400, 4);
  const auto rows = [](int low) {
    std::string sql;
    for (int i = 1; i <= 4; ++i) {
      sql += Sync(10, 1, 7, 100 * i, i, "NULL," + std::to_string(i - low));
    }
    return sql;
  };
  EXPECT_THAT(SyncTypes(Load(calls + rows(0))), ElementsAre(1, 2, 3, 4));
  const LoadedRun low = Load(calls + rows(1));
  EXPECT_THAT(SyncTypes(low), ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(low.captures[0].warnings, ElementsAre(HasSubstr("one too low")));
}

TEST(NsysSqlite, OldColumnOfSyncTypesIsReadWhereTheNewOneIsEmpty) {
  EXPECT_THAT(SyncTypes(Load(std::string(kSyncs) + Sync(10, 1, 7, 100, 1, "4,NULL"))),
              ElementsAre(4));
}

TEST(NsysSqlite, DevicesStandInTheMachinesOrder) {
  const LoadedRun run = Load(
      std::string(kKernels) + Kernel(10, 2, 1, 7, 100, 1) + Kernel(20, 0, 1, 7, 110, 1) +
      "CREATE TABLE TARGET_INFO_GPU(id, name, uuid, totalMemory, smCount);"
      "INSERT INTO TARGET_INFO_GPU VALUES (2,'B','GPU-00000000-0000-0000-0000-00000000000b',9,8),"
      "(0,'A','00000000-0000-0000-0000-00000000000a',7,6),(1,'unused','',1,1);");
  ASSERT_EQ(run.timeline.devices.size(), 2u);
  EXPECT_EQ(run.timeline.devices[0].name, "A");
  EXPECT_EQ(run.timeline.devices[0].uuid, "GPU-00000000-0000-0000-0000-00000000000a");
  EXPECT_EQ(run.timeline.devices[1].uuid, "GPU-00000000-0000-0000-0000-00000000000b");
  EXPECT_EQ(run.timeline.devices[1].memory_bytes, 9u);
  EXPECT_EQ(run.timeline.devices[1].sm_count, 8u);
  EXPECT_EQ(run.timeline.ops[0].device, 1);
  EXPECT_EQ(run.timeline.streams[static_cast<size_t>(run.timeline.ops[0].stream)].device, 1);
}

TEST(NsysSqlite, TheSameGpuInTwoFilesIsOneDevice) {
  const std::string gpu =
      "CREATE TABLE TARGET_INFO_GPU(id, name, uuid);"
      "INSERT INTO TARGET_INFO_GPU VALUES (0,'A','00000000-0000-0000-0000-00000000000a');";
  LoadedRun run;
  for (const int64_t pid : {10, 20}) {
    std::vector<uint8_t> bytes = Database(kKernels + Kernel(pid, 0, 1, 7, 100, 1) + gpu);
    ASSERT_TRUE(LoadNsysBytes("x.sqlite", bytes, &run).ok());
  }
  EXPECT_EQ(run.timeline.devices.size(), 1u);
  EXPECT_EQ(run.timeline.processes.size(), 2u);
  EXPECT_EQ(run.timeline.ops[1].device, 0);
  EXPECT_EQ(run.timeline.ops[1].process, 1);
  EXPECT_EQ(run.timeline.names.size(), 1u);
}

TEST(NsysSqlite, ShapesAreThoseOfTheLaunch) {
  const LoadedRun run =
      Load(std::string(kKernels) + Kernel(10, 0, 1, 7, 100, 1) + Kernel(10, 0, 1, 7, 200, 2));
  ASSERT_EQ(run.timeline.shapes.size(), 1u);
  const LaunchShape& shape = run.timeline.shapes[0];
  EXPECT_THAT(shape.grid, ElementsAre(4, 5, 6));
  EXPECT_THAT(shape.block, ElementsAre(128, 2, 1));
  EXPECT_THAT(shape.cluster, ElementsAre(2, 1, 1));
  EXPECT_EQ(shape.static_shared_bytes, 16u);
  EXPECT_EQ(shape.dynamic_shared_bytes, 32u);
  EXPECT_EQ(shape.registers_per_thread, 32u);
  EXPECT_EQ(shape.local_bytes_per_thread, 64u);
}

TEST(NsysSqlite, ShortNameStandsInForTheDemangledOne) {
  const LoadedRun run =
      Load(std::string(kStrings) + kKernels + Kernel(10, 0, 1, 7, 100, 1, "NULL,7") +
           Kernel(10, 0, 1, 7, 200, 2, "6,7"));
  EXPECT_THAT(run.timeline.names, ElementsAre("worker", "kernel"));
}

TEST(NsysSqlite, MemoryKindsGetCuptisNumbers) {
  const LoadedRun run = Load(
      "CREATE TABLE CUPTI_ACTIVITY_KIND_MEMCPY(start,end,deviceId,contextId,streamId,correlationId,"
      "globalPid,bytes,copyKind,srcKind,dstKind,srcDeviceId,dstDeviceId);"
      "INSERT INTO CUPTI_ACTIVITY_KIND_MEMCPY VALUES (1,2,0,1,7,1," +
      P(10) +
      ",8,1,0,2,NULL,NULL),"
      "(3,4,0,1,7,2," +
      P(10) + ",8,2,2,1,0,0),(5,6,0,1,7,3," + P(10) +
      ",8,8,7,2,0,1),"
      "(7,8,0,1,7,4," +
      P(10) + ",-8,8,4,2,0,0);");
  const auto& shapes = run.timeline.copy_shapes;
  ASSERT_EQ(shapes.size(), 4u);
  EXPECT_EQ(shapes[0].src_kind, 1);  // pageable
  EXPECT_EQ(shapes[0].dst_kind, 3);  // device
  EXPECT_EQ(shapes[1].dst_kind, 2);  // pinned
  EXPECT_EQ(shapes[2].src_kind, 0);  // unknown
  EXPECT_TRUE(shapes[2].peer);
  EXPECT_EQ(shapes[3].src_kind, 5);  // managed
  EXPECT_FALSE(shapes[3].peer);
  EXPECT_EQ(run.timeline.ops[3].bytes, 0u);
}

TEST(NsysSqlite, NullStreamIsTheOneThatItsContextNames) {
  const LoadedRun run =
      Load(std::string(kKernels) + Kernel(10, 0, 1, 7, 100, 1) + Kernel(10, 0, 1, 8, 200, 2) +
           "CREATE TABLE TARGET_INFO_CUDA_CONTEXT_INFO(nullStreamId,processId,deviceId,contextId);"
           "INSERT INTO TARGET_INFO_CUDA_CONTEXT_INFO VALUES (7,10,0,1);");
  EXPECT_TRUE(run.timeline.streams[0].null_stream);
  EXPECT_FALSE(run.timeline.streams[1].null_stream);
}

TEST(NsysSqlite, OverheadIsTheProfilersOrTheApplications) {
  const LoadedRun run = Load(
      "CREATE TABLE PROFILER_OVERHEAD(start,end,globalTid,nameId,overheadType);"
      "INSERT INTO PROFILER_OVERHEAD VALUES (1,2," +
      T(10, 10) + ",1,3),(3,4," + T(10, 10) +
      ",1,0),"
      "(5,6," +
      P(10) +
      ",1,NULL);"
      "CREATE TABLE CUPTI_ACTIVITY_KIND_OVERHEAD(start,end,eventClass,globalTid,overheadType);"
      "INSERT INTO CUPTI_ACTIVITY_KIND_OVERHEAD VALUES (7,8,103," +
      T(10, 11) +
      ",6),"
      "(9,10,103," +
      T(10, 11) + ",2),(11,12,103," + T(10, 11) + ",1);");
  std::vector<std::pair<uint32_t, bool>> seen;
  for (const OverheadOp& op : run.timeline.overheads) seen.emplace_back(op.kind, op.profiler);
  EXPECT_THAT(seen,
              ElementsAre(std::pair(4u << 16, false), std::pair(1u, false), std::pair(0u, false),
                          std::pair(1u << 16, true), std::pair(0u, true), std::pair(0u, true)));
  EXPECT_EQ(run.timeline.overheads.back().thread, -1);
}

TEST(NsysSqlite, ThreadsHaveNamesAndOneIsMain) {
  const LoadedRun run =
      Load(std::string(kStrings) + kRuntime + Call(10, 10, 1, 1, 1) + Call(10, 11, 1, 9, 2) +
           "CREATE TABLE ThreadNames(nameId, priority, globalTid);"
           "INSERT INTO ThreadNames VALUES (7,20," +
           T(10, 11) + ");");
  ASSERT_EQ(run.timeline.threads.size(), 2u);
  EXPECT_TRUE(run.timeline.threads[0].main);
  EXPECT_EQ(run.timeline.threads[1].name, "worker");
  EXPECT_EQ(run.timeline.threads[1].tid, 11u);
  EXPECT_FALSE(run.timeline.threads[1].main);
}

TEST(NsysSqlite, DriverCallsAreToldByClassOrName) {
  const LoadedRun run = Load(std::string(kStrings) + kRuntime + Call(10, 10, 8, 1, 1, 1) +
                             Call(10, 10, 8, 9, 2, 26) + Call(10, 10, 1, 20, 3, 26));
  const auto symbol = [&](size_t call) {
    return run.timeline.symbols[static_cast<size_t>(run.timeline.calls[call].symbol)];
  };
  EXPECT_TRUE(symbol(0).driver);
  EXPECT_EQ(symbol(0).name, "cuMemFree");
  EXPECT_EQ(symbol(0).call_class, CallClass::kFree);
  EXPECT_EQ(run.timeline.calls[1].symbol, run.timeline.calls[0].symbol);
  EXPECT_FALSE(symbol(2).driver);
  EXPECT_TRUE(run.timeline.processes[0].has_runtime_api);
  EXPECT_TRUE(run.timeline.processes[0].has_driver_api);
  EXPECT_EQ(run.timeline.processes[0].source, SourceKind::kNsys);
}

TEST(NsysSqlite, EventRecordsKeepTheirStream) {
  const LoadedRun run =
      Load(std::string(kKernels) + Kernel(10, 0, 1, 7, 100, 1) +
           "CREATE TABLE CUPTI_ACTIVITY_KIND_CUDA_EVENT(deviceId,contextId,streamId,correlationId,"
           "globalPid,eventId,eventSyncId);"
           "INSERT INTO CUPTI_ACTIVITY_KIND_CUDA_EVENT VALUES (0,1,7,5," +
           P(10) + ",9,90);");
  ASSERT_EQ(run.timeline.events.size(), 1u);
  EXPECT_EQ(run.timeline.events[0].stream, run.timeline.ops[0].stream);
  EXPECT_EQ(run.timeline.events[0].event, 9u);
  EXPECT_EQ(run.timeline.events[0].correlation, 5u);
  EXPECT_EQ(run.timeline.events[0].event_sync_id, 90u);
}

TEST(NsysSqlite, GraphThatStartsOnTheHostIsPutOnADeviceOfItsProcess) {
  const LoadedRun run =
      Load(std::string(kKernels) + Kernel(10, 1, 1, 7, 100, 1) +
           "CREATE TABLE CUPTI_ACTIVITY_KIND_GRAPH_TRACE(start,end,deviceId,contextId,streamId,"
           "correlationId,globalPid,graphId,graphExecId);"
           "INSERT INTO CUPTI_ACTIVITY_KIND_GRAPH_TRACE VALUES (200,300,2147483647,1,7,2," +
           P(10) + ",0,12);");
  ASSERT_EQ(run.timeline.ops.size(), 2u);
  EXPECT_EQ(run.timeline.devices.size(), 1u);
  EXPECT_EQ(run.timeline.ops[1].graph_id, 12u);
  EXPECT_EQ(run.timeline.ops[1].kind, OpKind::kGraph);
}

TEST(NsysSqlite, RefusesWhatIsNoExportAndAddsNothing) {
  LoadedRun run;
  std::vector<uint8_t> other = Database("CREATE TABLE t(a);");
  EXPECT_FALSE(LoadNsysBytes("x.sqlite", other, &run).ok());
  std::vector<uint8_t> garbage(4096, 0x5a);
  EXPECT_FALSE(LoadNsysBytes("x.sqlite", garbage, &run).ok());
  EXPECT_TRUE(run.timeline.inputs.empty());
  EXPECT_TRUE(run.captures.empty());
}

TEST(IsSqlite, LooksAtTheWholeHeader) {
  EXPECT_TRUE(IsSqlite(std::string_view("SQLite format 3\0rest", 20)));
  EXPECT_FALSE(IsSqlite(std::string_view("SQLite format 3", 15)));
  EXPECT_FALSE(IsSqlite(std::string_view("SQLite format 3 ", 16)));
  EXPECT_FALSE(IsSqlite(""));
}

}  // namespace
}  // namespace gpuprobe::tools
