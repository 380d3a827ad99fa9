// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// What tests of the trace writer hand it, and what they look for in the trace.
#ifndef GPUPROBE_TESTS_PROTO_WRITER_FACTS_H_
#define GPUPROBE_TESTS_PROTO_WRITER_FACTS_H_

#include <cstdint>
#include <vector>

#include "proto/gpuprobe.pb.h"
#include "proto/trace_writer.h"
#include "ringbuf/records.h"
#include "tests/proto/writer_harness.h"

namespace gpuprobe::proto {

inline WriterOptions SmallOptions(uint32_t max_frame_records = 1024) {
  WriterOptions options = WriterHarness::DefaultOptions();
  options.memory_bytes = 6u << 20;
  options.max_frame_records = max_frame_records;
  return options;
}

inline KernelRecord SomeKernel(const char* name, int64_t start_ns = kTestStartNs) {
  KernelRecord r = {};
  r.start_ns = start_ns;
  r.end_ns = start_ns > INT64_MAX - 1000 ? INT64_MAX : start_ns + 1000;
  r.context = 1;
  r.stream = 7;
  r.grid_x = 64;
  r.name = name;
  return r;
}

inline Dictionary DictionaryOf(const Trace& trace) {
  for (const Packet& packet : trace.packet()) {
    if (packet.has_dictionary()) return packet.dictionary();
  }
  return {};
}

template <class Has>
int CountPackets(const Trace& trace, Has has) {
  int count = 0;
  for (const Packet& packet : trace.packet()) count += has(packet);
  return count;
}

inline std::vector<Loss> LossesOf(const Trace& trace) {
  std::vector<Loss> losses;
  for (const Packet& packet : trace.packet()) {
    if (packet.has_loss()) losses.push_back(packet.loss());
  }
  return losses;
}

}  // namespace gpuprobe::proto

#endif  // GPUPROBE_TESTS_PROTO_WRITER_FACTS_H_
