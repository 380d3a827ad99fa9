// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "proto/frame_validation.h"

#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"
#include "google/protobuf/stubs/common.h"
#include "google/protobuf/stubs/logging.h"
#include "google/protobuf/unknown_field_set.h"
#include "proto/format.h"

namespace gpuprobe::proto {
namespace {

constexpr char kTracePacketTag = 1 << 3 | 2;
constexpr char kFrameHeaderTag = kPacketFrameHeader << 3 | 2;
// Packets whose repeated strings and messages cost far more memory than bytes: ProcessInfo's
// command line, CaptureInfo's settings, the Dictionary, HostSamples.
constexpr uint32_t kListPackets[] = {kPacketDictionary, 16, 17, kPacketHostSamples};
// Entries of HostSamples that hold lists themselves (columns, texts): threads, processes.
constexpr uint32_t kListEntries[] = {12, 13};

// Reads one varint; false at the end or if it is too long.
bool ReadVarint(std::string_view* data, uint64_t* value) {
  *value = 0;
  for (size_t i = 0; i < data->size() && i < 10; ++i) {
    const uint64_t byte = static_cast<unsigned char>((*data)[i]);
    *value |= (byte & 0x7f) << (7 * i);
    if (byte < 0x80) {
      data->remove_prefix(i + 1);
      return true;
    }
  }
  return false;
}

// Takes one field off `data`; `body` is what a length-delimited one holds.
bool ReadField(std::string_view* data, uint64_t* tag, std::string_view* body) {
  *body = {};
  uint64_t value;
  if (!ReadVarint(data, tag)) return false;
  switch (*tag & 7) {
    case 0:
      return ReadVarint(data, &value);
    case 1:
      if (data->size() < 8) return false;
      data->remove_prefix(8);
      return true;
    case 2:
      if (!ReadVarint(data, &value) || value > data->size()) return false;
      *body = data->substr(0, value);
      data->remove_prefix(value);
      return true;
    case 5:
      if (data->size() < 4) return false;
      data->remove_prefix(4);
      return true;
    default:
      return false;
  }
}

void AppendVarint(uint64_t value, std::string* out) {
  for (; value >= 0x80; value >>= 7) out->push_back(static_cast<char>(value | 0x80));
  out->push_back(static_cast<char>(value));
}

bool IsBatch(uint64_t tag) {
  if ((tag & 7) != 2) return false;
  const uint64_t field = tag >> 3;
  return (field >= kPacketKernels && field <= kPacketCudaEvents) || field == kPacketMarkers;
}

// The fields of a batch that are no columns.
bool AppendLane(std::string_view batch, std::string* out) {
  while (!batch.empty()) {
    const std::string_view before = batch;
    uint64_t tag;
    std::string_view column;
    if (!ReadField(&batch, &tag, &column)) return false;
    if ((tag & 7) != 2) out->append(before.substr(0, before.size() - batch.size()));
  }
  return true;
}

bool IsLengthDelimited(uint64_t tag) { return (tag & 7) == 2; }

bool IsOneOf(std::span<const uint32_t> fields, uint64_t tag) {
  return std::any_of(fields.begin(), fields.end(),
                     [tag](uint32_t field) { return tag == (field << 3 | 2); });
}

// Adds the fields of `message` that libprotobuf makes objects of; false if the wire format is
// broken. `nested`: those whose own fields count, too.
bool CountFields(std::string_view message, std::span<const uint32_t> nested, size_t* count) {
  uint64_t tag;
  std::string_view field;
  while (!message.empty()) {
    if (!ReadField(&message, &tag, &field)) return false;
    *count += IsLengthDelimited(tag);
    if (IsOneOf(nested, tag) && !CountFields(field, {}, count)) return false;
  }
  return true;
}

// Packets and list entries in a frame; SIZE_MAX if the wire format is broken at these levels.
size_t CountMessages(std::string_view data) {
  size_t count = 0;
  uint64_t tag;
  std::string_view packet, field;
  while (!data.empty()) {
    if (!ReadField(&data, &tag, &packet)) return SIZE_MAX;
    ++count;
    while (!packet.empty()) {
      if (!ReadField(&packet, &tag, &field)) return SIZE_MAX;
      ++count;
      if (!IsOneOf(kListPackets, tag)) continue;
      const bool samples = tag == (kPacketHostSamples << 3 | 2);
      const auto nested =
          samples ? std::span<const uint32_t>(kListEntries) : std::span<const uint32_t>();
      if (!CountFields(field, nested, &count)) return SIZE_MAX;
    }
  }
  return count;
}

// Decodes the batches of a frame and leaves the rest of it in `rest`, with an empty packet for each
// batch that was taken. The levels that CountMessages has seen are well-formed. False: the header
// is no valid protobuf.
bool TakeBatches(std::string_view data, FrameBatches* batches, std::string* rest) {
  constexpr std::string_view kEmptyPacket("\x0a\x00", 2);
  constexpr size_t kMostPrefixBytes = 6;  // tag and length
  std::string_view left = data;
  Packet header;
  for (int index = 0; !left.empty(); ++index) {
    uint64_t tag;
    std::string_view packet;
    const std::string_view from_here = left;
    if (!ReadField(&left, &tag, &packet)) return false;
    const bool is_packet = tag == static_cast<uint64_t>(kTracePacketTag);
    if (index == 0 &&
        !(is_packet && header.ParseFromArray(packet.data(), static_cast<int>(packet.size())))) {
      return false;
    }
    // A length that is written longer than it need be is libprotobuf's to judge.
    const size_t prefix_bytes = from_here.size() - left.size() - packet.size();
    if (is_packet && prefix_bytes <= kMostPrefixBytes &&
        batches->Take(packet, index, header.frame_header())) {
      rest->append(kEmptyPacket);
    } else {
      rest->append(from_here.substr(0, from_here.size() - left.size()));
      index -= is_packet ? 0 : 1;
    }
  }
  return true;
}

bool HoldsMessages(const google::protobuf::Descriptor& type) {
  for (int i = 0; i < type.field_count(); ++i) {
    if (type.field(i)->cpp_type() == google::protobuf::FieldDescriptor::CPPTYPE_MESSAGE)
      return true;
  }
  return false;
}

void CountUnknownFields(const google::protobuf::Message& message, bool holds_messages,
                        uint64_t* fields) {
  const google::protobuf::Reflection* reflection = message.GetReflection();
  *fields += static_cast<uint64_t>(reflection->GetUnknownFields(message).field_count());
  if (!holds_messages) return;
  std::vector<const google::protobuf::FieldDescriptor*> present;
  reflection->ListFields(message, &present);
  for (const auto* field : present) {
    if (field->cpp_type() != google::protobuf::FieldDescriptor::CPPTYPE_MESSAGE) continue;
    const bool deeper = HoldsMessages(*field->message_type());
    if (!field->is_repeated()) {
      CountUnknownFields(reflection->GetMessage(message, field), deeper, fields);
      continue;
    }
    for (int i = 0; i < reflection->FieldSize(message, field); ++i) {
      CountUnknownFields(reflection->GetRepeatedMessage(message, field, i), deeper, fields);
    }
  }
}

}  // namespace

bool BeginsLikeFrame(std::string_view data) {
  if (data.empty() || data[0] != kTracePacketTag) return false;
  data.remove_prefix(1);
  uint64_t length;
  if (!ReadVarint(&data, &length)) return data.size() < 10;  // cut off inside the length
  return data.empty() || data[0] == kFrameHeaderTag;
}

std::string WithoutColumns(std::string_view data) {
  std::string out, lane;
  for (std::string_view rest = data; !rest.empty();) {
    const std::string_view before = rest;
    uint64_t tag, field_tag;
    std::string_view packet, field;
    if (!ReadField(&rest, &tag, &packet)) return std::string(data);
    std::string_view inside = packet;
    const bool one_batch = tag == kTracePacketTag && ReadField(&inside, &field_tag, &field) &&
                           IsBatch(field_tag) && inside.empty();
    if (!one_batch) {
      out.append(before.substr(0, before.size() - rest.size()));
      continue;
    }
    lane.clear();
    if (!AppendLane(field, &lane)) return std::string(data);
    std::string stripped;
    AppendVarint(field_tag, &stripped);
    AppendVarint(lane.size(), &stripped);
    stripped += lane;
    AppendVarint(tag, &out);
    AppendVarint(stripped.size(), &out);
    out += stripped;
  }
  return out;
}

const char* ParseFrame(std::string_view data, Trace* trace, FrameBatches* batches) {
  // Damage is reported by the reader, not line by line on stderr by libprotobuf.
  const google::protobuf::LogSilencer silencer;
  if (!BeginsLikeFrame(data)) return "does not begin with a FrameHeader";
  const size_t messages = CountMessages(data);
  if (messages == SIZE_MAX) return "no valid protobuf";
  if (messages > kMaxFrameMessages) return "too many packets or dictionary entries";
  std::string rest;
  if (batches != nullptr) {
    batches->Clear();
    if (!TakeBatches(data, batches, &rest)) return "no valid protobuf";
    data = rest;
  }
  if (!trace->ParseFromArray(data.data(), static_cast<int>(data.size())))
    return "no valid protobuf";
  if (trace->packet_size() == 0 || !trace->packet(0).has_frame_header()) {
    return "does not begin with a FrameHeader";
  }
  return nullptr;
}

void CountUnknown(const Trace& trace, const FrameBatches& batches, uint64_t* packets,
                  uint64_t* fields) {
  for (const Packet& packet : trace.packet()) {
    if (packet.data_case() == Packet::DATA_NOT_SET) {
      ++*packets;
    } else {
      CountUnknownFields(packet, true, fields);
    }
  }
  *packets -= batches.batches().size();
  *fields += static_cast<uint64_t>(trace.GetReflection()->GetUnknownFields(trace).field_count());
}

}  // namespace gpuprobe::proto
