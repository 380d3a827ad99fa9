// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// What happened, independent of where it was read from: the one input of all analyses. Loaders (own
// traces now; Kineto and Nsight files later) fill it; analyses only read it.
//
// Times are int64 nanoseconds on one clock for all processes of a Timeline (the loader aligns
// them). Intervals are half-open [start, end). Ids index into the vectors of Timeline; -1: none.
#ifndef GPUPROBE_TOOLS_TIMELINE_TIMELINE_H_
#define GPUPROBE_TOOLS_TIMELINE_TIMELINE_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace gpuprobe::tools {

enum class OpKind : uint8_t { kKernel, kCopy, kSet, kGraph };
// Kernels by name (nccl...); graphs: compute.
enum class OpClass : uint8_t { kCompute, kCommunication, kCopy };

// One piece of GPU work. One cache line: a trace has millions.
struct GpuOp {
  int64_t start_ns, end_ns;
  uint64_t bytes;  // copies and sets
  uint64_t graph_node_id;
  uint32_t graph_id;
  uint32_t correlation;
  int32_t stream;           // index in Timeline::streams
  int32_t process;          // index in Timeline::processes
  int32_t name;             // kernels: index in Timeline::names; else -1
  int32_t shape;            // kernels: index in Timeline::shapes; copies: in copy_shapes; else -1
  int32_t submission = -1;  // index in Timeline::calls of the call that submitted it; -1: not seen
  int32_t device : 28;      // index in Timeline::devices
  OpKind kind : 2;
  OpClass op_class : 2;
};
static_assert(sizeof(GpuOp) == 64);

// GPU work whose times are unusable (0/0, unfinished, invalid): counted, never in arithmetic.
struct UntimedOp {
  OpKind kind;
  uint8_t timing;  // 1 missing, 2 unfinished, 3 invalid
  int32_t device, stream, process, name;
  uint32_t correlation;
  int64_t start_ns;  // unfinished only
};

// Same numbers as ApiClass in proto/gpuprobe.proto.
enum class CallClass : uint8_t {
  kOther = 0,
  kLaunch = 1,
  kCopy = 2,
  kCopyBlocking = 3,
  kSync = 4,
  kStreamWait = 5,
  kEventRecord = 6,
  kAlloc = 7,
  kFree = 8,
  kModule = 9,
  kGraph = 10,
  kHostMemory = 11,
  kContext = 12,
  kHostFunc = 13,
};

// One host call. Driver calls beneath a runtime call (same process, thread and correlation) are
// folded into it by the loader and do not appear.
struct HostCall {
  int64_t start_ns, end_ns;
  uint32_t correlation;
  int32_t process;
  int32_t thread;  // index in Timeline::threads
  int32_t symbol;  // index in Timeline::symbols
  int32_t result;
  int32_t site =
      -1;  // index in Timeline::stacks: exact stack of the call, where the source knows it
};

struct ApiSymbol {
  std::string name;  // cudaLaunchKernel
  CallClass call_class;
  bool driver;
};

// A wait as the device side saw it (CUPTI synchronisation record).
struct SyncOp {
  int64_t start_ns, end_ns;
  uint8_t type;  // 1 event, 2 stream-wait-event, 3 stream, 4 context
  int32_t process;
  int32_t stream;  // index in Timeline::streams or -1
  int32_t device;  // -1: not known
  uint32_t event, correlation;
  uint64_t event_sync_id;
  int32_t call = -1;  // index in Timeline::calls, by correlation
};

struct CudaEvent {  // an event record: what a stream-wait of the same sync id waits for
  int32_t process, stream;
  uint32_t event, correlation;
  uint64_t event_sync_id;
};

struct OverheadOp {
  int64_t start_ns, end_ns;
  uint32_t kind;  // CUpti_ActivityOverheadKind
  int32_t process;
  int32_t thread;  // -1: not of one thread
  // True for CUPTI's and our own cost (instrumentation, buffers, resources); false for module
  // loading and lazy function loading, which the application pays without us too.
  bool profiler;
};

struct Device {
  std::string uuid;  // "GPU-xxxxxxxx-xxxx-..." ; empty: unknown
  std::string name;
  int32_t ordinal;  // CUDA ordinal in the first process that named it
  uint64_t memory_bytes;
  uint32_t sm_count;
};

struct Stream {
  int32_t process, device;
  uint32_t context, stream;
  bool null_stream;
};
struct Thread {
  int32_t process;
  uint32_t tid;
  std::string name;
  bool main;
};

// Where code is: a line of Python, or an address in a module.
struct CodeLocation {
  int32_t function =
      -1;             // index in Timeline::strings; Python: qualified name; native: once symbolised
  int32_t file = -1;  // index in Timeline::strings; Python: file name; native: module path
  int32_t line = 0;   // Python: from 1
  uint64_t offset = 0;  // native: address as the module's ELF file counts it
  bool native = false;
};

// Which file a module path meant when it was sampled.
struct Module {
  int32_t file;          // index in Timeline::strings
  std::string build_id;  // bytes of its GNU build id
};

// Call stacks as a tree: a node is a location and the node of its caller.
struct StackNode {
  int32_t parent =
      -1;  // index in Timeline::stacks, always smaller than the node's own; -1: outermost
  int32_t location = -1;
};

enum class HostState : uint8_t {
  kUnknown = 0,
  kRunning = 1,  // on a CPU, or ready to run (HostSample::runnable_ns tells how long)
  kBlocked = 2,
  kBlockedIo = 3,  // uninterruptible
  kStopped = 4,
};

// A look at a thread. The counters cover (time - interval, time]; state, stack and the rest are
// those of the instant `time_ns`, unless kSampleExact: then the stack held for the whole interval.
struct HostSample {
  int64_t time_ns;
  int64_t interval_ns;       // since the previous look; 0: first look
  int64_t cpu_ns;            // of interval: on a CPU
  int64_t runnable_ns;       // of interval: ready to run, waiting for a CPU
  int32_t thread;            // index in Timeline::threads
  int32_t stack = -1;        // innermost node, index in Timeline::stacks; -1: none
  int32_t syscall = -1;      // x86-64 number of the system call it is blocked in; -1: none
  int32_t wait_target = -1;  // index in Timeline::strings: "pipe", "socket", "futex", a path
  int32_t gil_holder = -1;   // index in Timeline::threads
  HostState state = HostState::kUnknown;
  uint8_t flags = 0;  // kSample*
};
// Same bits as SampleFlag in proto/gpuprobe.proto.
inline constexpr uint8_t kSampleInCFunction = 1;
inline constexpr uint8_t kSampleWaitsForGil = 2;
inline constexpr uint8_t kSampleHoldsGil = 4;
inline constexpr uint8_t kSampleUnchanged = 8;
inline constexpr uint8_t kSampleStackCut = 16;
inline constexpr uint8_t kSampleExact = 32;

// When a process was under the sampler's eyes: silence outside of it says nothing.
struct SampledPeriod {
  int64_t begin_ns, end_ns;
  int32_t process;
};

struct LaunchShape {
  uint32_t grid[3], block[3], cluster[3];
  uint32_t static_shared_bytes, dynamic_shared_bytes, registers_per_thread, local_bytes_per_thread;
};
struct CopyShape {
  uint8_t copy_kind, src_kind, dst_kind, flags;
  bool peer;
};

// What names of ranges have in common: numbers are folded ("step 12" -> "step #"), so that a name
// is one however often its range comes, and made-up names without end need no memory.
enum class MarkerKind : uint8_t { kNvtx, kAnnotation };
struct MarkerName {
  std::string folded, domain;  // NVTX: empty is the default domain
  std::string first;           // as the first of these ranges had it
  bool varies;                 // others of them have other numbers in it
  MarkerKind kind;
};

// A range that the application itself marked and named: NVTX, torch's record_function.
struct MarkerRange {
  int64_t begin_ns, end_ns;
  int32_t process;
  int32_t thread;       // that began it, index in Timeline::threads; -1: of the device
  int32_t device = -1;  // where the profiler has put the range on the device's time
  int32_t name;         // index in Timeline::marker_names
  uint32_t numbers;     // hash of the numbers in the name; 0: it has none
};

// Who recorded a process: its own library, or another tool whose file was imported.
enum class SourceKind : uint8_t { kGpuprobe, kKineto, kNsys };

struct Process {
  uint32_t pid;
  std::string host, executable, command_line;
  int32_t rank;                // -1: unknown
  std::vector<int32_t> files;  // index in Timeline::inputs
  // What of this process's host calls was captured; without it causes that need them become
  // unknown.
  bool has_runtime_api = false, has_driver_api = false, has_sync_records = false;
  int64_t capture_begin_ns = 0, capture_end_ns = 0;
  bool ended = false;  // the trace was closed in order
  SourceKind source = SourceKind::kGpuprobe;
  // Data-loader workers and other children that the sampler looked at from outside: they have no
  // records of their own. -1: the parent is not in this Timeline.
  int32_t parent = -1;
  bool sampled_only = false;
  uint32_t allowed_cpus = 0;           // 0: not known
  std::string python_version;          // empty: no Python, or not known
  std::vector<std::string> unsampled;  // what the sampler could not look at, and why
  // Runs Python of which no line could be read: why, "this Python version (3.16.0) is not known".
  std::string python_unread;
  // Running totals at the end of the trace; 0: not known.
  int64_t wall_ns = 0, user_cpu_ns = 0, system_cpu_ns = 0, children_cpu_ns = 0;
};

// A time in which the view of a process is incomplete: nothing may be concluded from silence there.
struct Blind {
  int64_t begin_ns, end_ns;
  int32_t process;
  enum class Why : uint8_t { kOtherClient, kLoss, kDamage } why;
  std::string who;  // other client: library; loss: cause; damage: file and bytes
};

struct LossItem {
  int32_t process;
  uint32_t cause;
  uint64_t count;
  int64_t begin_ns, end_ns, detail;
};

struct InputFile {
  std::string path;
  uint64_t bytes = 0, damaged_bytes = 0, frames = 0, records = 0, unknown_packets = 0,
           unknown_fields = 0;
  bool complete = false;  // no damage, no hole, closed in order
  std::string problem;    // one sentence; empty: none
};

struct Timeline {
  std::vector<InputFile> inputs;
  std::vector<Process> processes;
  std::vector<Device> devices;
  std::vector<Stream> streams;
  std::vector<Thread> threads;
  std::vector<std::string> names;  // kernel names as recorded (mangled)
  std::vector<LaunchShape> shapes;
  std::vector<CopyShape> copy_shapes;
  std::vector<ApiSymbol> symbols;

  // Host sampler.
  std::vector<std::string> strings;
  std::vector<CodeLocation> locations;
  std::vector<Module> modules;  // those whose build id was recorded
  std::vector<StackNode> stacks;
  std::vector<HostSample> samples;     // sorted by (thread, time)
  std::vector<SampledPeriod> sampled;  // sorted by begin

  std::vector<GpuOp> ops;  // sorted by (start, end)
  std::vector<UntimedOp> untimed;
  std::vector<HostCall> calls;  // sorted by (start, end)
  std::vector<SyncOp> syncs;    // sorted by start
  std::vector<CudaEvent> events;
  std::vector<OverheadOp> overheads;  // sorted by start
  std::vector<Blind> blinds;          // sorted by begin

  std::vector<MarkerName> marker_names;
  std::vector<MarkerRange> markers;  // sorted by (begin, longest first)
  std::vector<LossItem> losses;
};

// Processes with records of their own: without those at which a sampler only looked.
inline size_t TracedProcesses(const Timeline& timeline) {
  size_t count = 0;
  for (const Process& process : timeline.processes) count += process.sampled_only ? 0 : 1;
  return count;
}

}  // namespace gpuprobe::tools

#endif  // GPUPROBE_TOOLS_TIMELINE_TIMELINE_H_
