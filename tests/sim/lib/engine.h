// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// What the driver stand-in's API functions share: the process-wide state, submission with
// publication to CUPTI and the truth, waiting, memory. Functions with a CUresult follow the
// driver's conventions.
#ifndef GPUPROBE_TESTS_SIM_LIB_ENGINE_H_
#define GPUPROBE_TESTS_SIM_LIB_ENGINE_H_

#include <cuda.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "tests/sim/lib/device_model.h"
#include "tests/sim/lib/seam.h"

namespace gpuprobe::sim {

struct Function {
  const char* name;  // process lifetime, one pointer for one name
};

struct GraphNode {
  Graph* graph;
  uint32_t index;
  GpuOp op;                            // template: kind, name, sizes, shape
  int64_t duration_ns;                 // -1: by name at launch
  std::vector<uint32_t> dependencies;  // indices of earlier nodes
};

struct Graph {
  uint32_t id;
  std::vector<GraphNode*> nodes;
};

struct HostFunctionCall {
  int64_t when_ns;
  void (*fn)(void*);
  void* user_data;
  Stream* stream;
};

class EngineState {
 public:
  static EngineState& Get();  // process lifetime

  bool initialised() const {
    return initialised_.load(std::memory_order_acquire);
  }                                         // with Initialise
  void Initialise();                        // devices exist afterwards; idempotent
  DeviceModel& model() { return *model_; }  // only after Initialise

  // ---- handles ----
  // The stream behind a handle in the current context; nullptr: invalid handle or no context.
  Stream* ResolveStream(CUstream handle);
  static Event* ResolveEvent(CUevent handle);
  static Context* ResolveContext(CUcontext handle);
  static Context* current();  // of the calling thread
  static void set_current(Context* context);
  const char* InternName(const char* name);
  // The kernel behind a host function pointer: the name if gpusim_kernel gave the pointer, else one
  // made of its address.
  const char* NameOfKernel(const void* func);

  // ---- work ----
  // Fills in times and identifiers, publishes. A capturing stream collects the work instead.
  CUresult Submit(Stream* stream, Engine engine, GpuOp op, int64_t duration_ns);
  CUresult LaunchGraph(const Graph& graph, Stream* stream);
  CUresult LaunchHostFunction(Stream* stream, void (*fn)(void*), void* user_data);
  // Duration of the thread's next work where scripted, else `otherwise`.
  static int64_t TakeDuration(int64_t otherwise);
  static void ScriptNextDuration(int64_t duration_ns);

  // ---- waiting ---- (sync_type 0: no SYNCHRONIZATION record)
  void Wait(int64_t until_ns, const char* type, uint32_t sync_type, Context* context,
            const Stream* stream, const Event* event);
  void WaitHostFunctions(const Stream* stream, uint64_t up_to);
  void WaitContextHostFunctions(Context* context);

  // ---- memory ----
  enum class Memory : uint8_t {
    kPageable = 1,
    kPinned = 2,
    kDevice = 3
  };  // CUpti_ActivityMemoryKind
  CUresult Allocate(Memory kind, size_t bytes, uintptr_t* address);
  CUresult Free(uintptr_t address, Memory kind);
  CUresult Register(uintptr_t address, size_t bytes);
  CUresult Unregister(uintptr_t address);
  Memory KindOf(uintptr_t address);
  uint64_t allocated_bytes() const { return allocated_bytes_.load(std::memory_order_relaxed); }
  static void MoveData(uintptr_t to, uintptr_t from, size_t bytes);
  static void FillData(uintptr_t to, const void* pattern, size_t pattern_bytes, size_t count);

  uint32_t NextGraphId() { return next_graph_id_.fetch_add(1, std::memory_order_relaxed); }

 private:
  struct Block {
    size_t bytes;
    Memory kind;
    bool registered;
  };
  EngineState() = default;
  void RunHostFunctions();

  std::atomic<bool> initialised_{false};
  DeviceModel* model_ = nullptr;
  std::mutex mu_;
  std::map<uintptr_t, Block> blocks_;                      // guarded by mu_
  std::map<std::string, const char*, std::less<>> names_;  // guarded by mu_
  std::set<const void*> name_pointers_;                    // guarded by mu_
  std::vector<HostFunctionCall> host_functions_;           // guarded by host_mu_
  std::mutex host_mu_;
  bool host_thread_started_ = false;
  std::atomic<uint64_t> allocated_bytes_{0};
  std::atomic<uint32_t> next_graph_id_{1};
};

// The current API call of the calling thread (the driver's, if one is running), or nullptr.
const ApiCall* CurrentCall();
// True while the calling thread runs a host function of a stream.
bool InHostFunction();
template <class Fn>
void ForEachClient(Fn fn);  // fn(const Hooks&), for every attached CUPTI stand-in

inline constexpr int kMaxClients = 4;
const Hooks* ClientHooks(int index);  // nullptr: none

template <class Fn>
void ForEachClient(Fn fn) {
  for (int i = 0; i < kMaxClients; ++i) {
    const Hooks* hooks = ClientHooks(i);
    if (hooks == nullptr) return;
    fn(*hooks);
  }
}

}  // namespace gpuprobe::sim

#endif  // GPUPROBE_TESTS_SIM_LIB_ENGINE_H_
