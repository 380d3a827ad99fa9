// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
#include "proto/trace_reader.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
#include <zstd.h>

#include <algorithm>
#include <cstdlib>
#include <string>

#include "gtest/gtest.h"
#include "proto/format.h"
#include "proto/wire.h"
#include "tests/proto/trace_log.h"
#include "tests/proto/writer_harness.h"

namespace gpuprobe::proto {
namespace {

// A small trace of `frames` frames of a few records of every kind, closed unless told otherwise.
struct SmallTrace {
  explicit SmallTrace(int frame_count, bool finish = true, uint64_t file_id = 7) {
    WriterOptions options;
    options.file_id = file_id;
    WriterHarness harness(options);
    EXPECT_TRUE(harness.Init());
    RandomRecords random(&harness, &log, static_cast<uint32_t>(file_id));
    for (int i = 0; i < frame_count; ++i) {
      random.Kernel();
      random.Api();
      random.Copy();
      random.Set();
      random.Sync();
      harness.clock.trace_ns += 1000000;
      if (finish && i == frame_count - 1) {
        EXPECT_TRUE(harness.writer.Finish("exit", 0));
      } else {
        EXPECT_TRUE(harness.writer.CloseFrame());
      }
    }
    frames = harness.frames;
  }
  std::string Bytes(size_t begin = 0, size_t end = SIZE_MAX) const {
    std::string bytes;
    for (size_t i = begin; i < std::min(end, frames.size()); ++i) bytes += frames[i];
    return bytes;
  }
  RecordLog log;
  std::vector<std::string> frames;
};

TEST(TraceReaderTest, AHealthyClosedTraceHasNoDamage) {
  const SmallTrace trace(3);
  const ReadResult read = ReadBytes(trace.Bytes());
  ASSERT_TRUE(read.status.ok());
  EXPECT_EQ(read.log, trace.log);
  EXPECT_TRUE(read.damage.empty());
  EXPECT_TRUE(read.ended);
  EXPECT_EQ(read.counts.frames, 3u);
  EXPECT_EQ(read.counts.unknown_packets, 0u);
}

TEST(TraceReaderTest, AnEmptyFileOpensAndHasNoFrames) {
  const ReadResult read = ReadBytes("");
  EXPECT_TRUE(read.status.ok());
  EXPECT_TRUE(read.frames.empty());
  EXPECT_TRUE(read.damage.empty());
  EXPECT_FALSE(read.ended);
}

TEST(TraceReaderTest, AMissingFileIsNotFound) {
  EXPECT_EQ(ReadPath(testing::TempDir() + "no_such_file").status.code(),
            absl::StatusCode::kNotFound);
}

TEST(TraceReaderTest, OtherFilesAreRefusedWithWhatStandsThere) {
  const struct {
    std::string content;
    const char* named;
  } kCases[] = {{"hello, world\n", "hello, world"},
                {"\x89PNG\r\n\x1a\n....", "PNG"},
                {"{\"traceEvents\": []}", "JSON"},
                {std::string("SQLite format 3\0....", 20), "SQLite"},
                {"x", "x"},
                {Compress("some text"), "zstd data"},
                {Compress(""), "zstd data"},
                {Compress(std::string(40 << 20, 'a')), "zstd data"}};
  for (const auto& c : kCases) {
    const TemporaryFile file(c.content);
    const absl::Status status = ReadPath(file.path()).status;
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << c.named;
    EXPECT_NE(std::string(status.message()).find(c.named), std::string::npos) << status;
    EXPECT_NE(std::string(status.message()).find(file.path()), std::string::npos) << status;
    EXPECT_NE(std::string(status.message()).find("offset 0"), std::string::npos) << status;
  }
}

TEST(TraceReaderTest, WhatIsNoRegularFileIsRefusedWithoutBlocking) {
  const std::string base = testing::TempDir() + "gpuprobe_special_" + std::to_string(getpid());
  ASSERT_EQ(mkfifo(base.c_str(), 0600), 0);
  EXPECT_EQ(ReadPath(base).status.code(), absl::StatusCode::kInvalidArgument);
  unlink(base.c_str());

  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  ASSERT_LT(base.size(), sizeof(address.sun_path));
  std::copy(base.begin(), base.end(), address.sun_path);
  ASSERT_EQ(bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  EXPECT_EQ(ReadPath(base).status.code(), absl::StatusCode::kInvalidArgument);
  close(fd);
  unlink(base.c_str());

  EXPECT_EQ(ReadPath(testing::TempDir()).status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ReadPath("/dev/null").status.code(), absl::StatusCode::kInvalidArgument);
}

// What a damaged file may do: yield a part of the content, in order, and say so.
void ExpectHonest(const ReadResult& read, const SmallTrace& trace, const std::string& what) {
  if (!read.status.ok()) {
    EXPECT_EQ(read.status.code(), absl::StatusCode::kInvalidArgument) << what;
    return;
  }
  for (const auto& [lane, rows] : read.log) {
    const auto original = trace.log.find(lane);
    ASSERT_NE(original, trace.log.end()) << what << ": invented lane " << lane;
    size_t at = 0;
    for (const std::string& row : rows) {
      while (at < original->second.size() && original->second[at] != row) ++at;
      ASSERT_LT(at, original->second.size()) << what << ": invented record " << row;
      ++at;
    }
  }
  if (read.log != trace.log) {
    ASSERT_FALSE(read.damage.empty()) << what << ": silently shorter";
  }
  for (const Damage& d : read.damage) {
    ASSERT_FALSE(d.detail.empty()) << what;
  }
}

TEST(TraceReaderTest, ATraceCutAnywhereIsNeverSilentlyShorter) {
  const SmallTrace trace(3);
  const std::string bytes = trace.Bytes();
  const size_t ends[] = {trace.frames[0].size(), trace.frames[0].size() + trace.frames[1].size(),
                         bytes.size()};
  for (size_t cut = 1; cut < bytes.size(); ++cut) {
    const std::string what = "cut at " + std::to_string(cut);
    const ReadResult read = ReadBytes(bytes.substr(0, cut));
    ASSERT_TRUE(read.status.ok()) << what << read.status;
    ExpectHonest(read, trace, what);
    const size_t whole =
        static_cast<size_t>(std::upper_bound(std::begin(ends), std::end(ends), cut) - ends);
    ASSERT_EQ(read.frames.size(), whole) << what;
    ASSERT_EQ(read.damage.size(), 1u) << what;
    ASSERT_FALSE(read.ended) << what;
    const size_t boundary = whole == 0 ? 0 : ends[whole - 1];
    const Damage& damage = read.damage[0];
    ASSERT_EQ(damage.kind, cut == boundary ? Damage::Kind::kNoEnd : Damage::Kind::kTornTail)
        << what;
    ASSERT_EQ(damage.offset, boundary) << what;
    ASSERT_EQ(damage.bytes, cut - boundary) << what;
  }
}

TEST(TraceReaderTest, AFlippedBitAnywhereIsNeverSilent) {
  const SmallTrace trace(3);
  const std::string bytes = trace.Bytes();
  int whole = 0;
  for (size_t i = 0; i < bytes.size(); ++i) {
    for (int bit : {0, 3, 7}) {
      std::string damaged = bytes;
      damaged[i] = static_cast<char>(damaged[i] ^ 1 << bit);
      const ReadResult read = ReadBytes(damaged);
      ASSERT_NO_FATAL_FAILURE(
          ExpectHonest(read, trace, "bit " + std::to_string(bit) + " of " + std::to_string(i)));
      ASSERT_GE(read.frames.size(), 2u) << i;  // the other frames are always found
      whole += read.log == trace.log;
    }
  }
  // Header bits without meaning for the content (the checksum flag leaves four foreign bytes, which
  // are told).
  EXPECT_LT(whole, 20);
}

TEST(TraceReaderTest, ADamagedFrameIsReportedWithItsBytesAndTimes) {
  const SmallTrace trace(5);
  std::string bytes = trace.Bytes();
  const size_t begin = trace.Bytes(0, 2).size();
  bytes[begin + trace.frames[2].size() / 2] ^= 0x10;
  const ReadResult read = ReadBytes(bytes);
  ASSERT_EQ(read.frames.size(), 4u);
  ASSERT_EQ(read.damage.size(), 1u);
  const Damage& damage = read.damage[0];
  EXPECT_EQ(damage.kind, Damage::Kind::kCorrupt);
  EXPECT_EQ(damage.offset, begin);
  EXPECT_EQ(damage.bytes, trace.frames[2].size());
  EXPECT_EQ(damage.frames, 1u);
  EXPECT_EQ(damage.begin_ns, read.headers[1].last_ns());
  EXPECT_EQ(damage.end_ns, read.headers[2].first_ns());
  EXPECT_TRUE(read.ended);
}

TEST(TraceReaderTest, DamageAtTheBeginningIsOpenOnThatSide) {
  const SmallTrace trace(3);
  std::string bytes = trace.Bytes();
  bytes[2] ^= 0xff;  // the very magic
  const ReadResult read = ReadBytes(bytes);
  ASSERT_TRUE(read.status.ok());
  ASSERT_EQ(read.damage.size(), 1u);
  EXPECT_EQ(read.damage[0].kind, Damage::Kind::kForeignData);
  EXPECT_EQ(read.damage[0].offset, 0u);
  EXPECT_EQ(read.damage[0].bytes, trace.frames[0].size());
  EXPECT_EQ(read.damage[0].begin_ns, 0);
  EXPECT_EQ(read.damage[0].end_ns, read.headers[0].first_ns());
}

TEST(TraceReaderTest, AMissingFrameIsAHoleInTheSequence) {
  const SmallTrace trace(5);
  const ReadResult read = ReadBytes(trace.Bytes(0, 1) + trace.Bytes(3));
  ASSERT_EQ(read.damage.size(), 1u);
  EXPECT_EQ(read.damage[0].kind, Damage::Kind::kMissing);
  EXPECT_EQ(read.damage[0].frames, 2u);
  EXPECT_EQ(read.damage[0].bytes, 0u);
  EXPECT_EQ(read.damage[0].offset, trace.frames[0].size());
  EXPECT_EQ(read.damage[0].begin_ns, read.headers[0].last_ns());
  EXPECT_EQ(read.damage[0].end_ns, read.headers[1].first_ns());
}

TEST(TraceReaderTest, FramesThatComeLateFillTheirHole) {
  const SmallTrace trace(5);
  const ReadResult read = ReadBytes(trace.Bytes(0, 1) + trace.Bytes(3, 4) + trace.Bytes(2, 3) +
                                    trace.Bytes(1, 2) + trace.Bytes(4));
  EXPECT_EQ(read.frames.size(), 5u);
  EXPECT_TRUE(read.damage.empty());
}

TEST(TraceReaderTest, FramesDeliveredBeforeAreSkippedAndCounted) {
  const SmallTrace trace(3);
  const ReadResult read = ReadBytes(trace.Bytes() + trace.Bytes());
  EXPECT_EQ(read.log, trace.log);
  EXPECT_EQ(read.counts.duplicate_frames, 3u);
  EXPECT_TRUE(read.damage.empty());
}

TEST(TraceReaderTest, ConcatenatedTracesAreBothKept) {
  const SmallTrace a(3, true, 7), b(2, true, 8);
  const ReadResult read = ReadBytes(a.Bytes() + b.Bytes());
  EXPECT_EQ(read.frames.size(), 5u);
  EXPECT_TRUE(read.damage.empty());
  EXPECT_TRUE(read.ended);

  const SmallTrace open(2, false, 9);
  const ReadResult one_open = ReadBytes(a.Bytes() + open.Bytes());
  EXPECT_FALSE(one_open.ended);
  ASSERT_EQ(one_open.damage.size(), 1u);
  EXPECT_EQ(one_open.damage[0].kind, Damage::Kind::kNoEnd);
}

TEST(TraceReaderTest, AGrowingFileIsReadAsFarAsItGoes) {
  const SmallTrace trace(4);
  TemporaryFile file(trace.Bytes(0, 2) + trace.frames[2].substr(0, 50));
  auto open_before = TraceReader::Open(file.path());
  ASSERT_TRUE(open_before.ok());
  const ReadResult first = ReadPath(file.path());
  EXPECT_EQ(first.frames.size(), 2u);
  EXPECT_EQ(first.Count(Damage::Kind::kTornTail), 1u);
  file.Append(trace.frames[2].substr(50) + trace.frames[3]);
  const ReadResult second = ReadPath(file.path());
  EXPECT_EQ(second.log, trace.log);
  EXPECT_TRUE(second.damage.empty());
  // The reader from before keeps to what it saw.
  Frame frame;
  int frames = 0;
  while ((*open_before)->Next(&frame)) ++frames;
  EXPECT_EQ(frames, 2);
  EXPECT_EQ((*open_before)->damage().size(), 1u);
}

TEST(TraceReaderTest, AFileThatShrinksWhileItIsReadIsReported) {
  const SmallTrace trace(2000);
  TemporaryFile file(trace.Bytes() + std::string(4 << 20, '\0'));
  auto reader = TraceReader::Open(file.path());
  ASSERT_TRUE(reader.ok());
  ASSERT_EQ(truncate(file.path().c_str(), static_cast<off_t>(trace.Bytes(0, 1000).size())), 0);
  Frame frame;
  while ((*reader)->Next(&frame)) {
  }
  EXPECT_FALSE((*reader)->damage().empty());
}

TEST(TraceReaderTest, ATailOfZerosIsATornTail) {
  const SmallTrace trace(2, false);
  const ReadResult read = ReadBytes(trace.Bytes() + std::string(100000, '\0'));
  EXPECT_EQ(read.log, trace.log);
  ASSERT_EQ(read.damage.size(), 1u);
  EXPECT_EQ(read.damage[0].kind, Damage::Kind::kTornTail);
  EXPECT_EQ(read.damage[0].offset, trace.Bytes().size());
  EXPECT_EQ(read.damage[0].bytes, 100000u);
  EXPECT_EQ(read.damage[0].detail, "zeros");

  const ReadResult zeros = ReadBytes(std::string(5000, '\0'));
  EXPECT_TRUE(zeros.status.ok());
  EXPECT_EQ(zeros.Count(Damage::Kind::kTornTail), 1u);
}

TEST(TraceReaderTest, AFrameCutByZerosIsDamagedAndTheNextIsFound) {
  const SmallTrace trace(4);
  std::string bytes = trace.Bytes(0, 1) + trace.frames[1];
  const size_t hole = 100;
  std::fill(bytes.end() - hole, bytes.end(), '\0');
  bytes += trace.Bytes(2);
  const ReadResult read = ReadBytes(bytes);
  EXPECT_EQ(read.frames.size(), 3u);
  ASSERT_EQ(read.damage.size(), 1u);
  EXPECT_EQ(read.damage[0].bytes, trace.frames[1].size());
}

TEST(TraceReaderTest, ForeignBytesBetweenFramesAreReportedExactly) {
  const SmallTrace trace(2);
  const ReadResult read =
      ReadBytes(trace.frames[0] + "some text in between" + trace.frames[1] + "and after");
  EXPECT_EQ(read.log, trace.log);
  ASSERT_EQ(read.damage.size(), 2u);
  EXPECT_EQ(read.damage[0].kind, Damage::Kind::kForeignData);
  EXPECT_EQ(read.damage[0].offset, trace.frames[0].size());
  EXPECT_EQ(read.damage[0].bytes, 20u);
  EXPECT_EQ(read.damage[0].frames, 0u);
  EXPECT_EQ(read.damage[1].bytes, 9u);
}

std::string Skippable(uint32_t claimed_bytes, const std::string& content) {
  std::string frame = "\x5a\x2a\x4d\x18";
  for (int i = 0; i < 4; ++i) frame += static_cast<char>(claimed_bytes >> (8 * i));
  return frame + content;
}

TEST(TraceReaderTest, SkippableFramesAreSkippedAndCounted) {
  const SmallTrace trace(2);
  const ReadResult read =
      ReadBytes(Skippable(5, "index") + trace.frames[0] + Skippable(0, "") + trace.frames[1]);
  EXPECT_EQ(read.log, trace.log);
  EXPECT_TRUE(read.damage.empty());
  EXPECT_EQ(read.counts.skippable_frames, 2u);
}

TEST(TraceReaderTest, ASkippableFrameThatClaimsMoreThanTheFileIsDamage) {
  const SmallTrace trace(2);
  const ReadResult read = ReadBytes(trace.frames[0] + Skippable(1u << 30, "x") + trace.frames[1]);
  EXPECT_EQ(read.log, trace.log);
  ASSERT_EQ(read.damage.size(), 1u);
  EXPECT_EQ(read.damage[0].bytes, 9u);
}

Trace TraceWith(uint64_t sequence) {
  Trace trace;
  FrameHeader* header = trace.add_packet()->mutable_frame_header();
  header->set_format_version(kFormatVersion);
  header->set_file_id(7);
  header->set_sequence(sequence);
  header->set_base_ns(kTestStartNs);
  return trace;
}

TEST(TraceReaderTest, WhatANewerVersionAddsIsSkippedAndCounted) {
  Trace trace = TraceWith(0);
  trace.mutable_packet(0)->mutable_frame_header()->set_format_version(kFormatVersion + 1);
  LaunchShape* shape = trace.add_packet()->mutable_dictionary()->add_shapes();
  KernelBatch* batch = trace.add_packet()->mutable_kernels();
  batch->set_count(2);
  batch->add_correlation_delta(5);
  batch->add_correlation_delta(1);
  const auto add_unknown = [](google::protobuf::Message* message, int field) {
    message->GetReflection()->MutableUnknownFields(message)->AddVarint(field, 12345);
  };
  add_unknown(trace.mutable_packet(0)->mutable_frame_header(), 500);
  add_unknown(shape, 501);
  add_unknown(batch, 502);
  Packet* unknown = trace.add_packet();
  unknown->GetReflection()->MutableUnknownFields(unknown)->AddLengthDelimited(999,
                                                                              "a packet to come");
  const ReadResult read = ReadBytes(Compress(trace.SerializeAsString()));
  ASSERT_EQ(read.frames.size(), 1u);
  EXPECT_EQ(read.counts.newer_frames, 1u);
  EXPECT_EQ(read.counts.unknown_packets, 1u);
  EXPECT_EQ(read.counts.unknown_fields, 3u);
  EXPECT_EQ(read.records(), 2u);
}

// As `zstd` writes it from a pipe: the size of the content is not known in advance.
TEST(TraceReaderTest, FramesWithoutContentSizeAndChecksumAreRead) {
  const SmallTrace trace(2);
  std::string bytes;
  for (const std::string& frame : trace.frames) {
    const std::string content = Decompress(frame);
    std::string out(content.size() + 1000, '\0');
    ZSTD_CCtx* context = ZSTD_createCCtx();
    ZSTD_outBuffer output = {out.data(), out.size(), 0};
    ZSTD_inBuffer input = {content.data(), content.size(), 0};
    ZSTD_compressStream2(context, &output, &input, ZSTD_e_continue);
    ASSERT_EQ(ZSTD_compressStream2(context, &output, &input, ZSTD_e_end), 0u);
    ZSTD_freeCCtx(context);
    bytes.append(out, 0, output.pos);
  }
  ASSERT_EQ(ZSTD_getFrameContentSize(bytes.data(), bytes.size()), ZSTD_CONTENTSIZE_UNKNOWN);
  const ReadResult read = ReadBytes(bytes);
  EXPECT_EQ(read.log, trace.log);
  EXPECT_TRUE(read.damage.empty());
}

// ---- hostile files: no crash, no endless work, bounded memory (AddressSanitizer and the fuzzer
// look on) ----

TEST(HostileTraceTest, AFrameThatGrowsBeyondTheLimitIsRefused) {
  Trace trace = TraceWith(0);
  std::string bomb = trace.SerializeAsString();
  bomb += std::string(kMaxFrameBytes, '\0');
  const SmallTrace good(1);
  const ReadResult read = ReadBytes(good.Bytes() + Compress(bomb));
  EXPECT_EQ(read.frames.size(), 1u);
  ASSERT_EQ(read.damage.size(), 1u);
  EXPECT_EQ(read.damage[0].kind, Damage::Kind::kCorrupt);
}

TEST(HostileTraceTest, AFrameOfCountlessTinyMessagesIsRefused) {
  const std::string header = TraceWith(0).SerializeAsString();
  std::string tiny;  // an empty packet in a Trace, an empty name in a Dictionary
  for (size_t i = 0; i < 2 * kMaxFrameMessages; ++i) tiny += std::string("\x0a\x00", 2);
  EXPECT_TRUE(ReadBytes(Compress(header + tiny)).frames.empty());

  std::string dictionary(tiny.size() + 32, '\0');
  WireWriter writer(reinterpret_cast<uint8_t*>(dictionary.data()), dictionary.size());
  const WireWriter::Mark packet = writer.Open(1, tiny.size());
  writer.Bytes(kPacketDictionary, tiny.data(), tiny.size());
  writer.Close(packet);
  dictionary.resize(writer.size());
  EXPECT_TRUE(ReadBytes(Compress(header + dictionary)).frames.empty());
}

TEST(HostileTraceTest, ClaimedCountsCostNothing) {
  Trace trace = TraceWith(0);
  for (int i = 0; i < 1000; ++i) {
    trace.add_packet()->mutable_kernels()->set_count(UINT32_MAX);
    trace.add_packet()->mutable_api()->set_count(UINT32_MAX);
    trace.add_packet()->mutable_overheads()->set_count(UINT32_MAX);
  }
  const ReadResult read = ReadBytes(Compress(trace.SerializeAsString()));
  EXPECT_EQ(read.frames.size(), 1u);
  EXPECT_EQ(read.records(), 0u);
}

TEST(HostileTraceTest, AFileFullOfMagicsIsReadInLinearTime) {
  std::string magics;
  for (int i = 0; i < 1 << 20; ++i) magics += "\x28\xb5\x2f\xfd";
  const SmallTrace trace(2);
  const ReadResult read = ReadBytes(trace.frames[0] + magics + trace.frames[1]);
  EXPECT_EQ(read.log, trace.log);
  ASSERT_EQ(read.damage.size(), 1u);
  EXPECT_EQ(read.damage[0].bytes, magics.size());
}

// Each half-frame opens a raw block that holds all later ones, so each candidate runs on to the
// end.
TEST(HostileTraceTest, NestedHalfFramesDoNotTakeQuadraticTime) {
  std::string nested;
  for (int i = 0; i < 300000; ++i) {
    nested += "\x28\xb5\x2f\xfd";
    nested += '\x00';  // window descriptor follows, no content size, no checksum
    nested += '\x70';  // window of 16 MiB
    // Raw block of as many bytes as reach exactly behind a later half-frame.
    const uint32_t block = 10000u * 9u << 3;
    nested += static_cast<char>(block);
    nested += static_cast<char>(block >> 8);
    nested += static_cast<char>(block >> 16);
  }
  const SmallTrace trace(3);
  const std::string gap(1 << 20, 'x');  // further than any of them reaches
  const ReadResult read =
      ReadBytes(trace.frames[0] + nested + trace.frames[1] + gap + trace.frames[2]);
  ASSERT_NO_FATAL_FAILURE(ExpectHonest(read, trace, "nested"));
  EXPECT_EQ(read.headers.front().sequence(), 0u);
  EXPECT_EQ(read.headers.back().sequence(), 2u);
}

TEST(HostileTraceTest, SequenceNumbersAtTheEdgeAreCounted) {
  std::string bytes;
  for (uint64_t sequence : {uint64_t{0}, UINT64_MAX, uint64_t{5}, UINT64_MAX - 1, UINT64_MAX}) {
    bytes += Compress(TraceWith(sequence).SerializeAsString());
  }
  const ReadResult read = ReadBytes(bytes);
  EXPECT_EQ(read.frames.size() + read.counts.duplicate_frames, 5u);
  EXPECT_EQ(read.Count(Damage::Kind::kMissing), 1u);
}

TEST(HostileTraceTest, HolesAndFileIdsWithoutEndAreBounded) {
  std::string bytes;
  for (uint64_t i = 0; i < 12000; ++i) {
    Trace trace = TraceWith(3 * i + 1);
    trace.mutable_packet(0)->mutable_frame_header()->set_file_id(i % 5000);
    bytes += Compress(trace.SerializeAsString());
  }
  const ReadResult read = ReadBytes(bytes);
  EXPECT_LE(read.damage.size(), 10000u);
  EXPECT_GT(read.counts.damage_not_listed, 0u);
  EXPECT_EQ(read.frames.size() + read.counts.duplicate_frames, 12000u);
}

TEST(StockToolsTest, ZstdAndProtocDecodeATrace) {
  if (std::system("command -v zstd >/dev/null && command -v protoc >/dev/null") != 0) {
    GTEST_SKIP() << "zstd or protoc is not installed";
  }
  WriterHarness harness;
  ASSERT_TRUE(harness.Init());
  RecordLog log;
  RandomRecords random(&harness, &log, 11);
  for (int i = 0; i < 3000; ++i) {
    random.Any();
    if (i % 1000 == 999) {
      ASSERT_TRUE(harness.writer.CloseFrame());
    }
  }
  KernelRecord bad_name = {};
  bad_name.name = harness.Name("not utf-8: \xff\xfe");
  harness.writer.OnKernel(bad_name);
  ASSERT_TRUE(harness.writer.Finish("exit", 0));
  const TemporaryFile file(harness.File());
  const std::string command =
      "zstd -dcq < '" + file.path() + "' | protoc --decode=gpuprobe.Trace -I '" +
      GPUPROBE_SOURCE_DIR "' '" GPUPROBE_SOURCE_DIR "/proto/gpuprobe.proto' 2>&1";
  FILE* pipe = popen(command.c_str(), "r");
  ASSERT_NE(pipe, nullptr);
  std::string text;
  char chunk[4096];
  for (size_t got; (got = fread(chunk, 1, sizeof(chunk), pipe)) > 0;) text.append(chunk, got);
  EXPECT_EQ(pclose(pipe), 0);
  EXPECT_NE(text.find("not utf-8: ??"), std::string::npos);
  EXPECT_NE(text.find("sequence: 3"), std::string::npos);
  EXPECT_NE(text.find("reason: \"exit\""), std::string::npos);
  EXPECT_EQ(text.find("Failed"), std::string::npos);
  EXPECT_EQ(text.find("\n  999:"), std::string::npos);  // no field that the schema lacks
}

}  // namespace
}  // namespace gpuprobe::proto
