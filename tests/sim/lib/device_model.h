// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// The simulated hardware: devices, contexts, streams, events, copy engines. Pure arithmetic on
// times that the caller gives; it never reads the clock and never waits. All times of an operation
// are fixed when it is submitted:
//
//   start = max(submitted + launch latency, end of the stream's earlier work, legacy stream
//   barrier),
//           moved on to the first hole of the copy engine where one is needed, rounded up to
//           grain_ns
//
// * A stream is serial. Streams run side by side, any number of kernels at once.
// * Per device one engine host-to-device, one device-to-host, one for peer copies; device-to-device
// copies
//   and sets run like kernels. An engine serves whoever is ready first, not whoever was submitted
//   first.
// * The default stream is the legacy one: its work waits for all blocking streams of the context,
// and
//   theirs waits for it. Streams created non-blocking take no part. The per-thread default stream
//   is treated as the legacy one.
// * An event is reached when the work submitted to its stream before it has ended.
//
// Objects live as long as the model, destroyed or not: stale handles are answered, not crashed on.
// Thread-safe.
#ifndef GPUPROBE_TESTS_SIM_LIB_DEVICE_MODEL_H_
#define GPUPROBE_TESTS_SIM_LIB_DEVICE_MODEL_H_

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace gpuprobe::sim {

struct Graph;
struct Context;

enum class Engine : uint8_t { kCompute, kHtoD, kDtoH, kPeer };

struct Interval {
  int64_t start_ns, end_ns;
};

struct Stream {
  uint32_t magic;
  uint32_t id;
  Context* context;
  bool is_null, blocking, destroyed;
  int priority;
  // Guarded by DeviceModel's mutex:
  int64_t tail_ns;  // end of everything submitted so far
  bool tail_is_kernel;
  uint64_t host_functions_submitted, host_functions_done;
  Graph* capture;  // not nullptr: work is collected instead of run
};

struct Event {
  uint32_t magic;
  uint32_t id;
  bool timing, destroyed;
  // Guarded by DeviceModel's mutex:
  bool recorded;
  int64_t time_ns;
  uint64_t sync_id;  // of the last record; CUPTI's cudaEventSyncId
  Stream* stream;
  uint64_t host_functions;  // of `stream` submitted before it
};

struct Device {
  int index;
  std::string name;
  std::array<uint8_t, 16> uuid;
  std::array<std::deque<Interval>, 4>
      engines;  // by Engine; disjoint, ascending; guarded by the mutex
  int64_t next_grid_id;
  Context* primary;
};

struct Context {
  uint32_t magic;
  uint32_t id;
  Device* device;
  bool destroyed, is_primary;
  int primary_refs;
  Stream null_stream;
  std::vector<Stream*> streams;  // created ones; guarded by DeviceModel's mutex
  int64_t destroyed_tail_ns;     // of destroyed streams
};

class DeviceModel {
 public:
  static constexpr uint32_t kStreamMagic = 0x53545245, kEventMagic = 0x45564e54,
                            kContextMagic = 0x43545854;

  explicit DeviceModel(int device_count);
  DeviceModel(const DeviceModel&) = delete;
  DeviceModel& operator=(const DeviceModel&) = delete;

  int device_count() const { return static_cast<int>(devices_.size()); }
  Device* device(int index) { return devices_[index].get(); }

  Context* CreateContext(Device* device, bool primary);
  void DestroyContext(Context* context);
  std::vector<Context*> Contexts();

  Stream* CreateStream(Context* context, bool blocking, int priority);
  void DestroyStream(Stream* stream);
  std::vector<Stream*> Streams(Context* context);  // created and not destroyed
  Event* CreateEvent(bool timing);

  // Places work on the stream (and engine) and returns when it runs.
  Interval Submit(Stream* stream, Engine engine, bool is_kernel, int64_t submitted_ns,
                  int64_t duration_ns);
  // For graphs: when work submitted now could begin, without placing any; then the end of all of
  // it.
  int64_t ReadyAt(Stream* stream, int64_t submitted_ns);
  void ExtendTail(Stream* stream, int64_t end_ns);
  uint64_t SubmitHostFunction(Stream* stream);  // its number in the stream, from 1
  void HostFunctionDone(Stream* stream);

  void RecordEvent(Event* event, Stream* stream, int64_t submitted_ns);
  void WaitEvent(Stream* stream, const Event* event);

  // When the work submitted so far ends.
  int64_t StreamEnd(const Stream* stream);
  int64_t ContextEnd(Context* context);
  Event Snapshot(const Event* event);  // a consistent copy
  bool HostFunctionsDone(const Stream* stream, uint64_t up_to);
  int64_t NextGridId(Device* device);

 private:
  int64_t ReadyLocked(const Stream* stream, int64_t submitted_ns) const;
  int64_t FirstHole(std::deque<Interval>& busy, int64_t ready_ns, int64_t duration_ns) const;

  std::mutex mu_;
  std::vector<std::unique_ptr<Device>> devices_;
  std::vector<std::unique_ptr<Context>> contexts_;
  std::vector<std::unique_ptr<Stream>> streams_;
  std::vector<std::unique_ptr<Event>> events_;
  // CUPTI numbers contexts from 1 and the first default stream 7; only uniqueness matters.
  uint32_t next_context_ = 1, next_stream_ = 7, next_event_ = 1;
  uint64_t next_sync_id_ = 1;
};

}  // namespace gpuprobe::sim

#endif  // GPUPROBE_TESTS_SIM_LIB_DEVICE_MODEL_H_
