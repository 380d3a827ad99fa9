// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#ifndef GPUPROBE_TESTS_PROTO_TRACE_DUMP_H_
#define GPUPROBE_TESTS_PROTO_TRACE_DUMP_H_

#include <sstream>
#include <string>

#include "google/protobuf/text_format.h"
#include "proto/sample_columns.h"
#include "tests/proto/trace_log.h"

namespace gpuprobe::proto {

// The samples of a piece, a line each, with stacks as ids and texts of locations.
inline std::string DumpPiece(const HostSamples& piece) {
  std::ostringstream out;
  SampleTables tables;
  Decode(piece, &tables);
  const auto text = [&piece](uint32_t id) {
    return id == 0 ? std::string("-") : piece.strings(static_cast<int>(id - 1));
  };
  out << "piece " << piece.begin_ns() << ' ' << piece.end_ns() << ' ' << piece.sampler_cpu_ns()
      << ' ' << piece.looks() << ' ' << piece.ticks_missed() << ' ' << piece.samples_dropped()
      << ' ' << piece.stacks_unreadable() << '\n';
  for (const auto& l : tables.locations) {
    out << "  location " << text(l.function) << ' ' << text(l.file) << ' ' << l.line << ' '
        << l.offset << ' ' << l.native << '\n';
  }
  for (const auto& n : tables.nodes) out << "  node " << n.parent << ' ' << n.location << '\n';
  for (const ThreadSamples& thread : piece.threads()) {
    SampleColumns c;
    Decode(thread, piece, tables, &c);
    out << "  thread " << thread.pid() << ' ' << thread.tid() << ' ' << thread.name() << ' '
        << thread.main() << '\n';
    for (size_t i = 0; i < c.count; ++i) {
      out << "    " << c.time_ns[i] << ' ' << c.interval_ns[i] << ' ' << c.cpu_ns[i] << ' '
          << c.runnable_ns[i] << ' ' << c.state[i] << ' ' << c.flags[i] << ' ' << c.stack[i] << ' '
          << c.syscall[i] << ' ' << text(c.wait_target[i]) << ' ' << c.gil_holder[i] << '\n';
    }
  }
  for (const auto& process : piece.processes()) out << "  " << process.ShortDebugString() << '\n';
  for (const auto& module : piece.modules()) out << "  " << module.ShortDebugString() << '\n';
  return out.str();
}

// All that a trace says: its packets other than batches and dictionaries, then its records by lane.
inline std::string DumpTrace(const ReadResult& read) {
  std::string out;
  for (const Trace& trace : read.frames) {
    for (const Packet& packet : trace.packet()) {
      switch (packet.data_case()) {
        case Packet::kFrameHeader:
        case Packet::kProcess:
        case Packet::kCapture:
        case Packet::kLoss:
        case Packet::kBlind:
        case Packet::kCost:
        case Packet::kEnd:
        case Packet::kThread:
        case Packet::kUsage: {
          std::string text;
          google::protobuf::TextFormat::PrintToString(packet, &text);
          out += text;
          break;
        }
        case Packet::kHostSamples:
          out += DumpPiece(packet.host_samples());
          break;
        case Packet::kDictionary: {
          Dictionary facts = packet.dictionary();  // the rest is in the records
          facts.clear_names();
          facts.clear_shapes();
          facts.clear_api_symbols();
          facts.clear_copy_shapes();
          std::string text;
          google::protobuf::TextFormat::PrintToString(facts, &text);
          out += text;
          break;
        }
        default:
          break;
      }
    }
  }
  for (const auto& [lane, rows] : read.log) {
    out += "lane " + lane + "\n";
    for (const std::string& row : rows) out += "  " + row + "\n";
  }
  return out;
}

}  // namespace gpuprobe::proto

#endif  // GPUPROBE_TESTS_PROTO_TRACE_DUMP_H_
