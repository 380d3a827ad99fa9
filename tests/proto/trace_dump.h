// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#ifndef GPUPROBE_TESTS_PROTO_TRACE_DUMP_H_
#define GPUPROBE_TESTS_PROTO_TRACE_DUMP_H_

#include <string>

#include "google/protobuf/text_format.h"
#include "tests/proto/trace_log.h"

namespace gpuprobe::proto {

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
        case Packet::kThread: {
          std::string text;
          google::protobuf::TextFormat::PrintToString(packet, &text);
          out += text;
          break;
        }
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
