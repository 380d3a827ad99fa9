// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// The parts of the sampler that need no process to look at: texts of /proc, and what goes between
// the threads.
#include <elf.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

#include "sampler/locations/module_ids.h"
#include "sampler/look/wait_target.h"
#include "sampler/output/sealed_pieces.h"
#include "sampler/system/proc_files.h"
#include "sampler/watched/noted_threads.h"

namespace gpuprobe::sampler {
namespace {

// An ELF header, its segments and notes, as they lie in memory.
class FakeModule {
 public:
  FakeModule() {
    std::memcpy(header()->e_ident, ELFMAG, SELFMAG);
    header()->e_phoff = sizeof(Elf64_Ehdr);
    header()->e_phentsize = sizeof(Elf64_Phdr);
  }
  Elf64_Ehdr* header() { return reinterpret_cast<Elf64_Ehdr*>(bytes_); }
  Elf64_Phdr* AddNotes(uint64_t alignment) {
    Elf64_Phdr* segment = reinterpret_cast<Elf64_Phdr*>(header() + 1) + header()->e_phnum++;
    *segment = {};
    segment->p_type = PT_NOTE;
    segment->p_align = alignment;
    segment->p_vaddr = end_;
    return segment;
  }
  Elf64_Nhdr* AddNote(Elf64_Phdr* segment, uint32_t type, const std::string& content) {
    auto* note = reinterpret_cast<Elf64_Nhdr*>(bytes_ + end_);
    *note = {4, static_cast<uint32_t>(content.size()), type};
    std::memcpy(note + 1, "GNU", 4);
    std::memcpy(bytes_ + end_ + 16, content.data(), content.size());
    const uint64_t a = segment->p_align;
    end_ += (16 + content.size() + a - 1) / a * a;
    segment->p_filesz = end_ - segment->p_vaddr;
    return note;
  }
  std::string BuildId() {
    ProcessMemory memory;
    const uint64_t at = reinterpret_cast<uint64_t>(bytes_);
    EXPECT_TRUE(memory.Open(getpid(), at));
    uint8_t id[kMaxBuildIdBytes];
    const size_t size = ReadBuildId(memory, at, at, id);
    return std::string(reinterpret_cast<char*>(id), size);
  }

 private:
  alignas(8) char bytes_[4096] = {};
  uint64_t end_ = 1024;
};

TEST(BuildId, IsFoundAmongOtherNotes) {
  FakeModule module;
  module.AddNote(module.AddNotes(8), NT_GNU_PROPERTY_TYPE_0, "some 12 byte");
  Elf64_Phdr* notes = module.AddNotes(4);
  module.AddNote(notes, NT_GNU_ABI_TAG, "abcde");
  module.AddNote(notes, NT_GNU_BUILD_ID, "0123456789abcdefghij");
  EXPECT_EQ(module.BuildId(), "0123456789abcdefghij");
}

TEST(BuildId, LengthsAreNotBelieved) {
  for (const uint32_t length : {25u, 4096u, 0x7fffffffu, 0xffffffffu}) {
    FakeModule module;
    module.AddNote(module.AddNotes(4), NT_GNU_BUILD_ID, "0123456789abcdefghij")->n_descsz = length;
    EXPECT_EQ(module.BuildId(), "") << length;
    FakeModule other;
    Elf64_Phdr* notes = other.AddNotes(4);
    other.AddNote(notes, NT_GNU_ABI_TAG, "abcd")->n_namesz = length;
    other.AddNote(notes, NT_GNU_BUILD_ID, "0123456789");
    EXPECT_EQ(other.BuildId(), "") << length;
  }
}

TEST(BuildId, OneLongerThanItsPlaceIsLeftOut) {
  FakeModule module;
  module.AddNote(module.AddNotes(4), NT_GNU_BUILD_ID, std::string(kMaxBuildIdBytes + 4, 'x'));
  EXPECT_EQ(module.BuildId(), "");
}

TEST(BuildId, HeadersAreNotBelieved) {
  FakeModule module;
  Elf64_Phdr* notes = module.AddNotes(4);
  module.AddNote(notes, NT_GNU_BUILD_ID, "0123456789");
  notes->p_filesz = ~uint64_t{0};
  EXPECT_EQ(module.BuildId(), "0123456789");
  notes->p_vaddr = uint64_t{1} << 62;
  EXPECT_EQ(module.BuildId(), "");
  module.header()->e_phnum = 0xffff;
  EXPECT_EQ(module.BuildId(), "");
  module.header()->e_phnum = 1;
  module.header()->e_phoff = uint64_t{1} << 62;
  EXPECT_EQ(module.BuildId(), "");
}

TEST(ModuleIds, EachOnceAndTwoOfOnePathBoth) {
  ModuleIds ids;
  const uint8_t a[] = {1, 2, 3}, b[] = {1, 2, 4};
  ids.Add(7, a, sizeof a);
  ids.Add(7, a, sizeof a);
  ids.Add(7, b, sizeof b);
  ids.Add(8, a, sizeof a);
  ids.Add(9, a, 0);
  ids.Add(0, a, sizeof a);
  ASSERT_EQ(ids.entries().size(), 3u);
  EXPECT_EQ(ids.entries()[1].module, 7u);
  EXPECT_EQ(ids.entries()[1].bytes[2], 4);
  for (uint32_t i = 0; i < 1000; ++i) ids.Add(100 + i, a, sizeof a);
  EXPECT_LT(ids.entries().size(), 1000u);
  EXPECT_EQ(ids.entries()[2].module, 8u);
}

TEST(ProcFiles, SchedStatIsThreeNumbers) {
  SchedStat s;
  ASSERT_TRUE(ParseSchedStat("77773 1511085 2\n", &s));
  EXPECT_EQ(s.cpu_ns, 77773u);
  EXPECT_EQ(s.runnable_ns, 1511085u);
  EXPECT_EQ(s.slices, 2u);
  EXPECT_FALSE(ParseSchedStat("77773 15", &s));
  EXPECT_FALSE(ParseSchedStat("", &s));
}

TEST(ProcFiles, ASystemCallHasArgumentsAndRegisters) {
  SyscallFile call;
  ASSERT_TRUE(
      ParseSyscallFile("202 0x7f01 0x189 0x0 0x0 0x0 0xffffffff 0x7ffc01a4 0x7f137513\n", &call));
  EXPECT_FALSE(call.running);
  EXPECT_EQ(call.number, 202);
  EXPECT_EQ(call.args[0], 0x7f01u);
  EXPECT_EQ(call.args[5], 0xffffffffu);
  EXPECT_EQ(call.sp, 0x7ffc01a4u);
  EXPECT_EQ(call.pc, 0x7f137513u);
  ASSERT_TRUE(ParseSyscallFile("running\n", &call));
  EXPECT_TRUE(call.running);
  ASSERT_TRUE(ParseSyscallFile("-1 0x7ffc 0x7f13\n", &call));
  EXPECT_EQ(call.number, -1);
  EXPECT_EQ(call.sp, 0x7ffcu);
  EXPECT_FALSE(ParseSyscallFile("202 0x7f01 0x189", &call));
  EXPECT_FALSE(ParseSyscallFile("", &call));
}

TEST(ProcFiles, ANameMayHoldAnything) {
  StatFile stat;
  ASSERT_TRUE(
      ParseStatFile("17 (a) S (b) R 3 17 17 0 -1 4194304 90 0 0 0 12 30 0 0 20 0 5 0 "
                    "6789 1 2\n",
                    &stat));
  EXPECT_STREQ(stat.name, "a) S (b");
  EXPECT_EQ(stat.state, 'R');
  EXPECT_EQ(stat.parent_pid, 3u);
  EXPECT_EQ(stat.cpu_ticks, 42u);
  EXPECT_EQ(stat.threads, 5u);
  EXPECT_EQ(stat.start_ticks, 6789u);
  EXPECT_FALSE(ParseStatFile("17 (a S", &stat));
  EXPECT_FALSE(ParseStatFile("17 (a) S 3 17", &stat));
  EXPECT_FALSE(ParseStatFile("", &stat));
}

TEST(ProcFiles, PathsHaveRoomForTheLargestNumbers) {
  char path[kTaskPathBytes];
  ProcPath(4294967295u, 4294967295u, "fd/4294967295", path);
  EXPECT_STREQ(path, "/proc/4294967295/task/4294967295/fd/4294967295");
  ProcPath(1, 0, "maps", path);
  EXPECT_STREQ(path, "/proc/1/maps");
}

TEST(WaitTarget, LinksBecomeKinds) {
  const struct {
    const char *link, *kind;
  } cases[] = {{"pipe:[17]", "pipe"},
               {"socket:[17]", "socket"},
               {"anon_inode:[eventfd]", "eventfd"},
               {"anon_inode:[eventpoll]", "epoll"},
               {"anon_inode:[timerfd]", "timerfd"},
               {"anon_inode:inotify", "inotify"},
               {"/dev/nvidia0", "/dev/nvidia0"},
               {"", ""}};
  for (const auto& c : cases) {
    char out[kWaitTargetBytes];
    DescribeLink(c.link, out);
    EXPECT_STREQ(out, c.kind) << c.link;
  }
}

TEST(WaitTarget, ALongPathIsCut) {
  char out[kWaitTargetBytes];
  DescribeLink(std::string(1000, 'x').c_str(), out);
  EXPECT_EQ(std::strlen(out), kWaitTargetBytes - 1);
}

TEST(SealedPieces, ArriveWholeAndInOrder) {
  std::vector<uint8_t> memory(SealedPieces::kMemoryBytes);
  SealedPieces pieces;
  pieces.Init(memory.data());
  constexpr uint32_t kCount = 5'000;
  // Not a yield: on one core that others want too, each would cost a time slice of theirs, for four
  // messages.
  const auto pause = [] { std::this_thread::sleep_for(std::chrono::microseconds(20)); };
  std::thread producer([&pieces, &pause] {
    for (uint32_t i = 0; i < kCount;) {
      uint8_t* slot = pieces.BeginWrite();
      if (slot == nullptr) {
        pause();
        continue;
      }
      const size_t bytes = 4 + i % 200;
      std::memset(slot, static_cast<int>(i % 251), bytes);
      std::memcpy(slot, &i, sizeof i);
      pieces.EndWrite(bytes);
      ++i;
    }
  });
  for (uint32_t expected = 0; expected < kCount;) {
    const uint8_t* data;
    size_t bytes;
    if (!pieces.Take(&data, &bytes)) {
      pause();
      continue;
    }
    uint32_t number;
    std::memcpy(&number, data, sizeof number);
    ASSERT_EQ(number, expected);
    ASSERT_EQ(bytes, 4 + expected % 200);
    for (size_t i = sizeof number; i < bytes; ++i) ASSERT_EQ(data[i], expected % 251);
    pieces.Release();
    ++expected;
  }
  producer.join();
}

TEST(SealedPieces, AFullRingRefuses) {
  std::vector<uint8_t> memory(SealedPieces::kMemoryBytes);
  SealedPieces pieces;
  pieces.Init(memory.data());
  for (uint32_t i = 0; i < SealedPieces::kSlots; ++i) {
    ASSERT_NE(pieces.BeginWrite(), nullptr);
    pieces.EndWrite(1);
  }
  EXPECT_EQ(pieces.BeginWrite(), nullptr);
  const uint8_t* data;
  size_t bytes;
  ASSERT_TRUE(pieces.Take(&data, &bytes));
  pieces.Release();
  EXPECT_NE(pieces.BeginWrite(), nullptr);
}

TEST(SealedPieces, SeveralCanBeLookedAtBeforeTheFirstIsReleased) {
  std::vector<uint8_t> memory(SealedPieces::kMemoryBytes);
  SealedPieces pieces;
  pieces.Init(memory.data());
  const uint8_t* data;
  size_t bytes;
  // Round the ring more than once.
  for (uint32_t i = 0; i < 3 * SealedPieces::kSlots; i += 3) {
    for (uint32_t k = 0; k < 3; ++k) {
      *pieces.BeginWrite() = static_cast<uint8_t>(i + k);
      pieces.EndWrite(i + k + 1);
    }
    for (int look = 0; look < 2; ++look) {
      for (uint32_t k = 0; k < 3; ++k) {
        ASSERT_TRUE(pieces.Take(&data, &bytes, k));
        EXPECT_EQ(*data, i + k);
        EXPECT_EQ(bytes, i + k + 1);
      }
      EXPECT_FALSE(pieces.Take(&data, &bytes, 3));
    }
    for (uint32_t k = 0; k < 3; ++k) pieces.Release();
    EXPECT_FALSE(pieces.Take(&data, &bytes));
  }
}

TEST(NotedThreads, AnIdIsHandedOverOnceUntilItIsForgotten) {
  NotedThreads noted;
  for (int i = 0; i < 100; ++i) noted.Note(7);
  EXPECT_EQ(noted.Take(), 7u);
  EXPECT_EQ(noted.Take(), 0u);
  noted.Forget(7);
  noted.Note(7);
  EXPECT_EQ(noted.Take(), 7u);
}

// What found no room comes again, because its thread calls CUDA again; so does what was forgotten.
// (Forgotten at once, the first ids would fill the queue for ever where the two threads take
// turns.)
TEST(NotedThreads, NoIdIsLostForEver) {
  NotedThreads noted;
  constexpr uint32_t kIds = 300;
  std::atomic<bool> done{false};
  std::thread drain([&] {
    while (!done.load()) {
      for (uint32_t id = 1; id <= kIds; ++id) noted.Note(id);
      std::this_thread::yield();
    }
  });
  for (int round = 0; round < 5; ++round) {
    std::vector<bool> seen(kIds + 1);
    for (uint32_t left = kIds; left != 0;) {
      const uint32_t id = noted.Take();
      if (id == 0) {
        std::this_thread::yield();
        continue;
      }
      ASSERT_LE(id, kIds);
      if (!seen[id]) --left;
      seen[id] = true;
    }
    for (uint32_t id = 1; id <= kIds; ++id) noted.Forget(id);
  }
  done.store(true);
  drain.join();
}

}  // namespace
}  // namespace gpuprobe::sampler
