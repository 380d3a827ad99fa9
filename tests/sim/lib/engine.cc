// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "tests/sim/lib/engine.h"

#include <pthread.h>
#include <sys/mman.h>
#include <time.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <thread>

#include "tests/sim/lib/clock.h"
#include "tests/sim/lib/settings.h"
#include "tests/sim/lib/truth.h"

namespace gpuprobe::sim {
namespace {

thread_local Context* t_current = nullptr;
thread_local int64_t t_next_duration_ns = -1;
thread_local bool t_in_host_function = false;

void NapMs() {
  timespec ts{0, 200'000};
  nanosleep(&ts, nullptr);
}

}  // namespace

EngineState& EngineState::Get() {
  static EngineState* state =
      new EngineState;  // never destroyed: calls come from static destructors too
  return *state;
}

void EngineState::Initialise() {
  std::lock_guard<std::mutex> lock(mu_);
  if (initialised_.load(std::memory_order_relaxed)) return;  // under the mutex
  model_ = new DeviceModel(static_cast<int>(Settings::Get()[Setting::kDeviceCount]));
  initialised_.store(true, std::memory_order_release);  // with initialised(): publishes model_
}

// ---- handles ----

Context* EngineState::current() { return t_current; }
void EngineState::set_current(Context* context) { t_current = context; }

Context* EngineState::ResolveContext(CUcontext handle) {
  auto* context = reinterpret_cast<Context*>(handle);
  if (context == nullptr || context->magic != DeviceModel::kContextMagic || context->destroyed)
    return nullptr;
  return context;
}

Stream* EngineState::ResolveStream(CUstream handle) {
  if (handle == nullptr || handle == CU_STREAM_LEGACY || handle == CU_STREAM_PER_THREAD) {
    return t_current == nullptr || t_current->destroyed ? nullptr : &t_current->null_stream;
  }
  auto* stream = reinterpret_cast<Stream*>(handle);
  return stream->magic == DeviceModel::kStreamMagic && !stream->destroyed ? stream : nullptr;
}

Event* EngineState::ResolveEvent(CUevent handle) {
  auto* event = reinterpret_cast<Event*>(handle);
  if (event == nullptr || event->magic != DeviceModel::kEventMagic || event->destroyed)
    return nullptr;
  return event;
}

const char* EngineState::InternName(const char* name) {
  std::lock_guard<std::mutex> lock(mu_);
  const auto it = names_.find(name);
  if (it != names_.end()) return it->second;
  const char* copy = strdup(name);  // process lifetime: records point to it
  names_.emplace(name, copy);
  name_pointers_.insert(copy);
  return copy;
}

const char* EngineState::NameOfKernel(const void* func) {
  {
    std::lock_guard<std::mutex> lock(mu_);
    if (name_pointers_.contains(func)) return static_cast<const char*>(func);
  }
  char name[40];
  snprintf(name, sizeof name, "kernel_%p", func);
  return InternName(name);
}

// ---- work ----

void EngineState::ScriptNextDuration(int64_t duration_ns) { t_next_duration_ns = duration_ns; }

int64_t EngineState::TakeDuration(int64_t otherwise) {
  const int64_t scripted = t_next_duration_ns;
  t_next_duration_ns = -1;
  return scripted >= 0 ? scripted : otherwise;
}

namespace {

void Publish(const GpuOp& op) {
  Truth::Get().Op(op);
  ForEachClient([&op](const Hooks& hooks) { hooks.gpu_op(&op); });
}

void Identify(GpuOp* op, const Stream* stream) {
  op->device = stream->context->device->index;
  op->context = stream->context->id;
  op->stream = stream->id;
  op->thread = ThreadId();
  const ApiCall* call = CurrentCall();
  if (call == nullptr) return;
  op->correlation = call->correlation;
  op->queued_ns = call->start_ns;
}

}  // namespace

CUresult EngineState::Submit(Stream* stream, Engine engine, GpuOp op, int64_t duration_ns) {
  if (stream->capture != nullptr) {
    auto* node = new GraphNode{
        stream->capture, static_cast<uint32_t>(stream->capture->nodes.size()), op, duration_ns, {}};
    if (node->index > 0) node->dependencies.push_back(node->index - 1);  // captured in stream order
    stream->capture->nodes.push_back(node);
    return CUDA_SUCCESS;
  }
  Identify(&op, stream);
  op.submitted_ns = Clock::Get().Now();
  const Interval when =
      model_->Submit(stream, engine, op.kind == OpKind::kKernel, op.submitted_ns, duration_ns);
  op.start_ns = when.start_ns;
  op.end_ns = when.end_ns;
  if (op.kind == OpKind::kKernel) op.grid_id = model_->NextGridId(stream->context->device);
  Publish(op);
  return CUDA_SUCCESS;
}

CUresult EngineState::LaunchGraph(const Graph& graph, Stream* stream) {
  const int64_t submitted = Clock::Get().Now();
  const int64_t ready = model_->ReadyAt(stream, submitted);
  const int64_t gap = Settings::Get()[Setting::kGraphNodeGapNs];
  std::vector<GpuOp> ops;
  int64_t end = ready;
  for (const GraphNode* node : graph.nodes) {
    GpuOp op = node->op;
    Identify(&op, stream);
    op.submitted_ns = submitted;
    op.start_ns = ready;
    for (const uint32_t before : node->dependencies) {
      op.start_ns = std::max(op.start_ns, ops[before].end_ns + gap);
    }
    op.end_ns = op.start_ns +
                (node->duration_ns >= 0 ? node->duration_ns : Settings::Get().KernelNs(op.name));
    op.graph_id = graph.id;
    op.graph_node_id = (uint64_t{graph.id} << 32) | (node->index + 1);
    if (op.kind == OpKind::kKernel) op.grid_id = model_->NextGridId(stream->context->device);
    end = std::max(end, op.end_ns);
    ops.push_back(op);
  }
  model_->ExtendTail(stream, end);
  GpuOp whole;
  whole.kind = OpKind::kGraph;
  Identify(&whole, stream);
  whole.submitted_ns = submitted;
  whole.start_ns = ready;
  whole.end_ns = end;
  whole.graph_id = graph.id;
  Publish(whole);
  for (const GpuOp& op : ops) Publish(op);
  return CUDA_SUCCESS;
}

CUresult EngineState::LaunchHostFunction(Stream* stream, void (*fn)(void*), void* user_data) {
  GpuOp op;
  op.kind = OpKind::kHostFunction;
  Identify(&op, stream);
  op.submitted_ns = Clock::Get().Now();
  const Interval when = model_->Submit(stream, Engine::kCompute, false, op.submitted_ns,
                                       Settings::Get()[Setting::kHostFunctionNs]);
  op.start_ns = when.start_ns;
  op.end_ns = when.end_ns;
  Truth::Get().Op(op);  // CUPTI has no record for it
  model_->SubmitHostFunction(stream);
  std::lock_guard<std::mutex> lock(host_mu_);
  host_functions_.push_back({when.start_ns, fn, user_data, stream});
  if (!host_thread_started_) {
    host_thread_started_ = true;
    std::thread([this] { RunHostFunctions(); }).detach();
  }
  return CUDA_SUCCESS;
}

// The driver's callback thread: runs each function when its stream has come to it (on the virtual
// clock: as soon as it was submitted, since nobody moves that clock while all wait).
void EngineState::RunHostFunctions() {
  t_in_host_function = true;
  while (true) {
    HostFunctionCall next{};
    {
      std::lock_guard<std::mutex> lock(host_mu_);
      const auto first = std::min_element(host_functions_.begin(), host_functions_.end(),
                                          [](const HostFunctionCall& a, const HostFunctionCall& b) {
                                            return a.when_ns < b.when_ns;
                                          });
      const bool due = first != host_functions_.end() &&
                       (Clock::Get().is_virtual() || first->when_ns <= Clock::Get().Now());
      if (due) {
        next = *first;
        host_functions_.erase(first);
      }
    }
    if (next.fn == nullptr) {
      NapMs();
      continue;
    }
    next.fn(next.user_data);
    model_->HostFunctionDone(next.stream);
  }
}

bool InHostFunction() { return t_in_host_function; }

// ---- waiting ----

void EngineState::Wait(int64_t until_ns, const char* type, uint32_t sync_type, Context* context,
                       const Stream* stream, const Event* event) {
  const ApiCall* call = CurrentCall();
  const uint32_t correlation = call != nullptr ? call->correlation : 0;
  const int64_t start = Clock::Get().Now();
  Clock::Get().WaitUntil(until_ns);
  const int64_t end = Clock::Get().Now();
  const uint32_t stream_id = stream != nullptr ? stream->id : kNoId;
  const uint32_t event_id = event != nullptr ? event->id : kNoId;
  Truth::Get().Wait({type, context->id, stream_id, event_id, correlation, ThreadId(), start, end});
  if (sync_type == 0) return;
  const SyncOp sync{
      sync_type,   context->id, stream_id, event_id, event != nullptr ? event->sync_id : 0,
      correlation, start,       end};
  ForEachClient([&sync](const Hooks& hooks) { hooks.sync(&sync); });
}

void EngineState::WaitHostFunctions(const Stream* stream, uint64_t up_to) {
  while (!model_->HostFunctionsDone(stream, up_to)) NapMs();
}

void EngineState::WaitContextHostFunctions(Context* context) {
  WaitHostFunctions(&context->null_stream, UINT64_MAX);
  for (const Stream* stream : model_->Streams(context)) WaitHostFunctions(stream, UINT64_MAX);
}

// ---- memory ----

CUresult EngineState::Allocate(Memory kind, size_t bytes, uintptr_t* address) {
  if (bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  if (kind == Memory::kDevice) {
    const uint64_t limit = static_cast<uint64_t>(Settings::Get()[Setting::kDeviceMemoryBytes]);
    if (allocated_bytes() + bytes > limit) return CUDA_ERROR_OUT_OF_MEMORY;
  }
  // Really mapped, so that small copies can move data; untouched pages cost nothing.
  void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (p == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  if (kind == Memory::kDevice) allocated_bytes_.fetch_add(bytes, std::memory_order_relaxed);
  *address = reinterpret_cast<uintptr_t>(p);
  std::lock_guard<std::mutex> lock(mu_);
  blocks_[*address] = {bytes, kind, false};
  return CUDA_SUCCESS;
}

CUresult EngineState::Free(uintptr_t address, Memory kind) {
  std::lock_guard<std::mutex> lock(mu_);
  const auto it = blocks_.find(address);
  if (it == blocks_.end() || it->second.kind != kind || it->second.registered) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  munmap(reinterpret_cast<void*>(address), it->second.bytes);
  if (kind == Memory::kDevice)
    allocated_bytes_.fetch_sub(it->second.bytes, std::memory_order_relaxed);
  blocks_.erase(it);
  return CUDA_SUCCESS;
}

CUresult EngineState::Register(uintptr_t address, size_t bytes) {
  if (address == 0 || bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  std::lock_guard<std::mutex> lock(mu_);
  if (!blocks_.emplace(address, Block{bytes, Memory::kPinned, true}).second) {
    return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
  }
  return CUDA_SUCCESS;
}

CUresult EngineState::Unregister(uintptr_t address) {
  std::lock_guard<std::mutex> lock(mu_);
  const auto it = blocks_.find(address);
  if (it == blocks_.end() || !it->second.registered) return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
  blocks_.erase(it);
  return CUDA_SUCCESS;
}

EngineState::Memory EngineState::KindOf(uintptr_t address) {
  std::lock_guard<std::mutex> lock(mu_);
  auto it = blocks_.upper_bound(address);
  if (it == blocks_.begin()) return Memory::kPageable;
  --it;
  return address - it->first < it->second.bytes ? it->second.kind : Memory::kPageable;
}

// Data moves when the copy is submitted, not when it runs: hosts see right results, nothing more.
// Large copies move nothing, so that a script may "copy" gigabytes.
void EngineState::MoveData(uintptr_t to, uintptr_t from, size_t bytes) {
  if (to == 0 || from == 0) return;
  if (bytes > static_cast<uint64_t>(Settings::Get()[Setting::kCopyDataLimitBytes])) return;
  memmove(reinterpret_cast<void*>(to), reinterpret_cast<const void*>(from), bytes);
}

void EngineState::FillData(uintptr_t to, const void* pattern, size_t pattern_bytes, size_t count) {
  if (to == 0) return;
  if (count * pattern_bytes > static_cast<uint64_t>(Settings::Get()[Setting::kCopyDataLimitBytes]))
    return;
  for (size_t i = 0; i < count; ++i) {
    memcpy(reinterpret_cast<char*>(to) + i * pattern_bytes, pattern, pattern_bytes);
  }
}

}  // namespace gpuprobe::sim
