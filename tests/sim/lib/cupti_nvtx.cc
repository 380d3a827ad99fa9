// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// CUPTI as an NVTX tool: NVTX hands it the table of a module's functions, and from then on calls it
// for ranges and marks. Of NVTX's interface as far as it is used, by position (NVTX v3: module
// "core", and "core2" with domains).
#include <cupti.h>
#include <unistd.h>

#include <atomic>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "tests/sim/lib/cupti_buffers.h"
#include "tests/sim/lib/cupti_side_records.h"
#include "tests/sim/lib/cupti_state.h"
#include "tests/sim/lib/seam.h"

namespace gpuprobe::sim {
namespace {

using FunctionTable = void***;  // an array of pointers to function pointers
struct Callbacks {              // NvtxExportTableCallbacks
  size_t size;
  int (*module_table)(int module, FunctionTable* table, unsigned int* count);
};
constexpr uint32_t kCallbacksTable = 1;
constexpr int kCore = 1, kCore2 = 5;
enum CoreFunction { kMarkA = 2, kRangeStartA = 5, kRangeEnd = 7, kRangePushA = 9, kRangePop = 11 };

// The part of nvtxEventAttributes_t that is read: version 3.
struct EventAttributes {
  uint16_t version, size;
  uint32_t category;
  int32_t color_type;
  uint32_t color;
  int32_t payload_type, reserved;
  uint64_t payload;
  int32_t message_type;  // 1: char
  const char* message;
};

// Names live as long as the process: records point to them.
const char* Keep(const char* text) {
  static auto* mu = new std::mutex;
  static auto* names = new std::set<std::string>;
  const std::lock_guard lock(*mu);
  return names->insert(text).first->c_str();
}

std::atomic<uint32_t> g_next_id{1};
struct Pushed {
  uint32_t id;
  const char* domain;
};
thread_local std::vector<Pushed> t_pushed;

void Emit(uint32_t id, CUpti_ActivityFlag flag, const char* name, const char* domain) {
  if (!Enabled(CUPTI_ACTIVITY_KIND_MARKER)) return;
  CUpti_ActivityMarker2 r{};
  r.kind = CUPTI_ACTIVITY_KIND_MARKER;
  r.flags = flag;
  r.timestamp = static_cast<uint64_t>(DriverLink::Get()->now());
  r.id = id;
  r.objectKind = CUPTI_ACTIVITY_OBJECT_THREAD;
  r.objectId.pt.processId = static_cast<uint32_t>(getpid());
  r.objectId.pt.threadId = RecordThreadId();
  r.name = name;
  r.domain = domain;
  Buffers::Get().Emit(&r, CUPTI_ACTIVITY_KIND_MARKER, 0);
}

uint32_t Begin(const char* name, const char* domain) {
  const uint32_t id = g_next_id.fetch_add(1, std::memory_order_relaxed);  // a plain count
  Emit(id, CUPTI_ACTIVITY_FLAG_MARKER_START, Keep(name), domain);
  return id;
}

int Push(const char* name, const char* domain) {
  t_pushed.push_back({Begin(name, domain), domain});
  return static_cast<int>(t_pushed.size()) - 1;
}

void MarkA(const char* name) {
  Emit(g_next_id.fetch_add(1, std::memory_order_relaxed), CUPTI_ACTIVITY_FLAG_MARKER_INSTANTANEOUS,
       Keep(name), nullptr);
}
uint64_t RangeStartA(const char* name) { return Begin(name, nullptr); }
void RangeEnd(uint64_t id) {
  Emit(static_cast<uint32_t>(id), CUPTI_ACTIVITY_FLAG_MARKER_END, nullptr, nullptr);
}
int RangePushA(const char* name) { return Push(name, nullptr); }
int RangePop() {
  if (t_pushed.empty()) return -2;
  const Pushed pushed = t_pushed.back();
  t_pushed.pop_back();
  Emit(pushed.id, CUPTI_ACTIVITY_FLAG_MARKER_END, nullptr, pushed.domain);
  return static_cast<int>(t_pushed.size());
}
// A domain is its name here; nullptr is the default one.
int DomainRangePushEx(const char* domain, const EventAttributes* event) {
  return Push(event->message_type == 1 ? event->message : "", domain);
}
int DomainRangePop(const char*) { return RangePop(); }
const char* DomainCreateA(const char* name) { return Keep(name); }

template <class Function>
void Install(FunctionTable table, unsigned int count, unsigned int index, Function* function) {
  if (index < count && table[index] != nullptr) {
    *table[index] = reinterpret_cast<void*>(function);
  }
}

}  // namespace
}  // namespace gpuprobe::sim

extern "C" __attribute__((visibility("default"))) int InitializeInjectionNvtx2(
    const void* (*get_export_table)(uint32_t)) {
  using namespace gpuprobe::sim;
  const auto* callbacks = static_cast<const Callbacks*>(get_export_table(kCallbacksTable));
  if (callbacks == nullptr) return 0;
  FunctionTable table = nullptr;
  unsigned int count = 0;
  if (callbacks->module_table(kCore, &table, &count) == 0) return 0;
  Install(table, count, kMarkA, &MarkA);
  Install(table, count, kRangeStartA, &RangeStartA);
  Install(table, count, kRangeEnd, &RangeEnd);
  Install(table, count, kRangePushA, &RangePushA);
  Install(table, count, kRangePop, &RangePop);
  if (callbacks->module_table(kCore2, &table, &count) != 0) {
    Install(table, count, 4, &DomainRangePushEx);
    Install(table, count, 5, &DomainRangePop);
    Install(table, count, 11 + 1, &DomainCreateA);
  }
  return 1;
}
