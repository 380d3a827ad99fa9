// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// The native code that the sampler names for threads, and its modules.
#include <elf.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <link.h>
#include <unistd.h>

#include <cstring>
#include <string>

#include "tests/sampler/host_run.h"
#include "tests/sampler/planted_thread.h"

namespace gpuprobe::sampler {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::Pair;

bool EndsIn(const std::string& text, const std::string& end) {
  return text.size() >= end.size() && text.compare(text.size() - end.size(), end.size(), end) == 0;
}

// A sanitizer's own library is what such code stands in most of the time.
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

TEST(HostNative, NativeCodeOfARunningThreadIsNamed) {
  if (kSanitized) GTEST_SKIP() << "instrumented";
  Planted busy(&Spin);
  HostRun run;
  run.sampler().NoteCudaThread(busy.tid());
  // Where it may not be asked for a note says so. A thread that gets little of a CPU is read at few
  // looks.
  std::string forbidden;
  const auto is_forbidden = [&] {
    const auto it = run.processes().find(static_cast<uint32_t>(getpid()));
    if (it == run.processes().end()) return false;
    for (const std::string& note : it->second.unreadable()) {
      if (note.find("perf_event_open") != std::string::npos) forbidden = note;
    }
    return !forbidden.empty();
  };
  const auto is_named = [](const SeenSample& s) {
    return !s.stack.empty() && EndsIn(s.stack[0], "sampler_host_native_test");
  };
  EXPECT_TRUE(
      run.Until([&] { return is_forbidden() || run.thread(busy.tid()).Count(is_named) >= 20; }));
  if (!forbidden.empty()) GTEST_SKIP() << forbidden;
}

TEST(HostNative, NativeCodeOfABlockedThreadIsNamed) {
  if (kSanitized) GTEST_SKIP() << "instrumented";
  Planted idle(&Sleep);
  HostRun run;
  run.sampler().NoteCudaThread(idle.tid());
  ASSERT_TRUE(run.UntilSamples(idle.tid(), 20));
  run.Stop();
  const SeenSample& last = run.thread(idle.tid()).samples.back();
  ASSERT_FALSE(last.stack.empty());
  EXPECT_TRUE(EndsIn(last.stack[0], "sampler_host_native_test")) << last.stack[0];
}

// The build id of the program itself, as the loader has it.
std::string OwnBuildId() {
  std::string id;
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* out) {
        for (int i = 0; i < info->dlpi_phnum; ++i) {
          const ElfW(Phdr)& segment = info->dlpi_phdr[i];
          if (segment.p_type != PT_NOTE || segment.p_align == 8) continue;
          const char* at = reinterpret_cast<const char*>(info->dlpi_addr + segment.p_vaddr);
          for (const char* end = at + segment.p_memsz; at < end;) {
            ElfW(Nhdr) note;
            std::memcpy(&note, at, sizeof note);
            const char* content = at + sizeof note + (note.n_namesz + 3) / 4 * 4;
            if (note.n_type == NT_GNU_BUILD_ID) {
              static_cast<std::string*>(out)->assign(content, note.n_descsz);
            }
            at = content + (note.n_descsz + 3) / 4 * 4;
          }
        }
        return 1;  // the program comes first
      },
      &id);
  return id;
}

TEST(HostNative, AModuleHasItsBuildIdInEveryPiece) {
  if (kSanitized) GTEST_SKIP() << "instrumented";
  const std::string own = OwnBuildId();
  if (own.empty()) GTEST_SKIP() << "linked without a build id";
  Planted idle(&Sleep);
  HostRun run;
  run.sampler().NoteCudaThread(idle.tid());
  ASSERT_TRUE(run.UntilSamples(idle.tid(), 20));
  run.Stop();
  const std::string& path = run.thread(idle.tid()).samples.back().stack.at(0);
  ASSERT_GT(run.pieces(), 1u);
  EXPECT_THAT(run.modules(), Contains(Pair(path, ElementsAre(own))));
}

TEST(HostNative, NativeCodeIsLeftOutWhereItIsNotWanted) {
  Planted busy(&Spin), idle(&Sleep);
  SamplerOptions options;
  options.native = false;
  HostRun run(options);
  run.sampler().NoteCudaThread(busy.tid());
  run.sampler().NoteCudaThread(idle.tid());
  ASSERT_TRUE(run.UntilSamples(busy.tid(), 30));
  for (const uint32_t tid : {busy.tid(), idle.tid()}) {
    EXPECT_EQ(run.thread(tid).Count([](const SeenSample& s) { return !s.stack.empty(); }), 0u);
  }
}

}  // namespace
}  // namespace gpuprobe::sampler
