// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// A small trace with at least one of everything that the format knows; the same bytes every time.
#ifndef GPUPROBE_TESTS_PROTO_SAMPLE_TRACE_H_
#define GPUPROBE_TESTS_PROTO_SAMPLE_TRACE_H_

#include <string>
#include <vector>

#include "proto/format.h"
#include "tests/proto/sample_load.h"
#include "tests/proto/sample_maker.h"
#include "tests/proto/writer_harness.h"

namespace gpuprobe::proto {

inline void AddSampleFacts(WriterHarness* harness) {
  DeviceRecord device = {};
  device.device = 0;
  for (uint8_t i = 0; i < 16; ++i) device.uuid[i] = static_cast<uint8_t>(0xa0 + i);
  device.name = harness->Name("NVIDIA H200");
  device.memory_bytes = 150110011392;
  device.sm_count = 132;
  device.compute_major = 9;
  device.memory_bandwidth_kb_s = 4814208000;
  device.core_clock_khz = 1980000;
  harness->writer.OnDevice(device);
  harness->writer.OnContext({1, 0, 7});
  harness->writer.OnStream({1, 7, 0, 2});
}

inline void AddSamplePackets(PacketBuilder* out) {
  out->BeginPacket(16);  // ProcessInfo
  out->AddUint(1, 4711);
  out->AddString(3, "node-a");
  out->AddString(6, "/usr/bin/python3");
  out->AddString(7, "python3");
  out->AddString(7, "train.py");
  out->AddInt(9, -1);
  out->AddInt(10, -1);
  out->EndPacket();
  out->BeginPacket(17);  // CaptureInfo
  out->AddString(1, "0.1.0");
  out->AddString(2, "preload");
  out->BeginMessage(7);
  out->AddString(1, "CONCURRENT_KERNEL");
  out->EndMessage();
  out->EndPacket();
  out->BeginPacket(20);  // Cost
  out->AddUint(1, 123456);
  out->EndPacket();
  out->BeginPacket(22);  // ThreadInfo
  out->AddUint(1, 4711);
  out->AddString(2, "python3");
  out->AddUint(3, 1);
  out->EndPacket();
}

// One frame: a launch, its kernel, a copy and the wait for it.
inline std::vector<std::string> TinyTrace() {
  WriterHarness harness;
  harness.Init();
  AddSampleFacts(&harness);
  const int64_t t = kTestStartNs;
  harness.writer.OnApi({t, t + 6200, ApiDomain::kRuntime, 211, 4711, 4711, 101, 0});
  KernelRecord kernel = {};
  kernel.start_ns = t + 9000;
  kernel.end_ns = t + 11560;
  kernel.context = 1;
  kernel.stream = 7;
  kernel.correlation = 101;
  kernel.name = harness.Name("_Z3addPfS_");
  kernel.grid_x = 64;
  kernel.grid_y = kernel.grid_z = 1;
  kernel.block_x = 256;
  kernel.block_y = kernel.block_z = 1;
  kernel.registers_per_thread = 16;
  harness.writer.OnKernel(kernel);
  kernel.start_ns = t + 12000;
  kernel.end_ns = t + 14560;
  kernel.correlation = 105;
  harness.writer.OnKernel(kernel);
  harness.clock.trace_ns += 500000;
  harness.writer.Finish("exit", 0);
  return harness.frames;
}

// Three frames with every kind of packet and record.
inline std::vector<std::string> SampleTrace() {
  WriterHarness harness;
  harness.add_packets = &AddSamplePackets;
  harness.Init();
  AddSampleFacts(&harness);
  RecordLog ignored;
  RandomRecords random(&harness, &ignored, 42);
  for (int frame = 0; frame < 3; ++frame) {
    for (int i = 0; i < 40; ++i) random.Kernel();
    for (int i = 0; i < 40; ++i) random.Api();
    for (int i = 0; i < 3; ++i) {
      random.Copy();
      random.Set();
      random.Graph();
      random.Sync();
      random.CudaEvent();
      random.Overhead();
    }
    harness.clock.trace_ns += 500000000;
    if (frame == 1) {
      harness.writer.AddLoss(LossCause::kCuptiDropped, 12, kTestStartNs + 5, kTestStartNs + 9, 3);
      harness.writer.AddBlind(kTestStartNs + 100, kTestStartNs + 200, "libother.so",
                              "cuptiSubscribe");
    }
    if (frame < 2) harness.writer.CloseFrame();
  }
  harness.writer.Finish("exit", 1);
  return harness.frames;
}

// Two frames with host samples of a process and eight children, and what the process used.
inline std::vector<std::string> HostSampleTrace() {
  WriterHarness harness;
  SampleLoad load(kTestStartNs);
  std::string piece;
  harness.add_packets = [&piece](PacketBuilder* out) {
    AddSamplePackets(out);
    out->AddSerializedPacket(kPacketHostSamples, piece.data(), piece.size());
    out->BeginPacket(kPacketUsage);
    for (uint32_t field = 1; field <= 7; ++field) out->AddUint(field, 1000 + field);
    out->EndPacket();
  };
  harness.Init();
  AddSampleFacts(&harness);
  for (int frame = 0; frame < 2; ++frame) {
    const int64_t begin_ns = kTestStartNs + frame * 60'000'000;
    SampleMaker maker(begin_ns);
    for (int tick = 0; tick < 3; ++tick) {
      load.Tick(&maker, [&](uint32_t pid, uint32_t tid, const SampleRecord& sample) {
        maker.encoder.AddSample(pid, tid, sample);
      });
    }
    const uint32_t native =
        maker.Location(9999, "", "/usr/lib/libc.so.6", 0, 0x10a2f0, LOCATION_NATIVE);
    SampleRecord sample = {.time_ns = begin_ns + 1000, .state = 3, .flags = 17, .syscall = 0};
    sample.stack = maker.encoder.InternStack(&native, 1);
    sample.gil_holder = SampleLoad::kPid + 1;
    maker.encoder.AddSample(SampleLoad::kPid, 1, sample);
    maker.encoder.NameThread(SampleLoad::kPid, SampleLoad::kPid, "python3", true);
    maker.encoder.AddModule(maker.encoder.InternText("/usr/lib/libc.so.6"), "\x12\xab", 2);
    maker.encoder.AddProcess({.pid = SampleLoad::kPid,
                              .parent_pid = 1,
                              .name = "python3",
                              .command_line = "python3 train.py",
                              .python_version = "3.11.7",
                              .start_ticks = 900,
                              .allowed_cpus = 16});
    const std::string_view reason = "memory: Operation not permitted";
    maker.encoder.AddProcess({.pid = 4819,
                              .parent_pid = SampleLoad::kPid,
                              .name = "worker",
                              .unreadable = &reason,
                              .unreadable_count = 1,
                              .start_ticks = 950,
                              .ended = frame == 1});
    piece = maker.SealBytes(begin_ns + 60'000'000, {123456, 3, 1, 2, 3});
    harness.clock.trace_ns += 500'000'000;
    harness.writer.OnApi({begin_ns, begin_ns + 6200, ApiDomain::kRuntime, 211, 4711, 4711, 101, 0});
    if (frame < 1) harness.writer.CloseFrame();
  }
  harness.writer.Finish("exit", 0);
  return harness.frames;
}

}  // namespace gpuprobe::proto

#endif  // GPUPROBE_TESTS_PROTO_SAMPLE_TRACE_H_
