// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// Which line of a stack is the user's, and which calls and waits it is put to.
#include "tools/attribution/call_site.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "tests/tools/timeline_builder.h"
#include "tools/analysis/analysis.h"

namespace gpuprobe::tools {
namespace {

using Lines = std::vector<std::string>;
constexpr int64_t kMs = 1'000'000;
constexpr std::string_view kPackages = "/usr/lib/python3.11/site-packages/";

TEST(OwnerOfFile, IsToldByThePath) {
  for (const char* user :
       {"/job/train.py", "train.py", "<string>", "<stdin>", "/tmp/ipykernel_7/123.py",
        "<ipython-input-3-0a>", "/srv/lib/pythonic/x.py", "/opt/python/x.py"}) {
    EXPECT_EQ(OwnerOfFile(user), CodeOwner::kUser) << user;
  }
  for (const char* library : {"/usr/lib/python3.11/site-packages/torch/nn/modules/module.py",
                              "/usr/local/lib/python3.12/dist-packages/vllm/v1/engine/core.py",
                              "/usr/lib/python3/dist-packages/numpy/__init__.py"}) {
    EXPECT_EQ(OwnerOfFile(library), CodeOwner::kLibrary) << library;
  }
  for (const char* standard :
       {"/usr/lib/python3.11/queue.py", "/opt/conda/lib/python3.9/multiprocessing/queues.py",
        "/usr/lib64/python3.12/threading.py", "/x/lib/python3.13t/queue.py",
        "/usr/lib/python311.zip/queue.py"}) {
    EXPECT_EQ(OwnerOfFile(standard), CodeOwner::kStandard) << standard;
  }
  for (const char* generated :
       {"<frozen importlib._bootstrap>", "<eval_with_key>.3", "/tmp/torchinductor_root/ab/cabc.py",
        "/job/.triton/cache/x/y.py"}) {
    EXPECT_EQ(OwnerOfFile(generated), CodeOwner::kGenerated) << generated;
  }
}

class SiteText : public testing::Test {
 protected:
  std::string Site(std::initializer_list<std::string_view> innermost_first) {
    const int32_t stack = b_.Stack(innermost_first);
    const CallSites sites(b_.t);
    return sites.TextOf(sites.SiteOf(stack)) + " | " + sites.Below(stack);
  }
  TimelineBuilder b_;
};

TEST_F(SiteText, IsTheInnermostFrameOfTheUsers) {
  EXPECT_EQ(Site({std::string(kPackages) + "torch/nn/modules/module.py:1511 Module._call_impl",
                  "/job/model.py:40 Block.forward",
                  std::string(kPackages) + "torch/nn/modules/module.py:1511 Module._call_impl",
                  "/job/train.py:27 main", "/job/train.py:99 <module>"}),
            "model.py:40 in Block.forward | torch/nn/modules/module.py:1511 in Module._call_impl");
}

TEST_F(SiteText, OfTheStandardLibraryNamesTheFunctionThatWasEntered) {
  EXPECT_EQ(Site({"/usr/lib/python3.11/threading.py:320 Condition.wait",
                  "/usr/lib/python3.11/queue.py:171 Queue.get", "/job/train.py:27 main"}),
            "train.py:27 in main | queue.get");
  EXPECT_EQ(Site({"/usr/lib/python3.11/selectors.py:415 _PollLikeSelector.select",
                  "/usr/lib/python3.11/multiprocessing/connection.py:947 wait",
                  std::string(kPackages) + "torch/utils/data/dataloader.py:1 _next",
                  "/job/train.py:27 main"}),
            "train.py:27 in main | multiprocessing.connection.wait");
}

TEST_F(SiteText, OfGeneratedCodeIsTheUsersCaller) {
  EXPECT_EQ(Site({"/tmp/torchinductor_root/ab/cabc.py:77 call",
                  std::string(kPackages) + "torch/_inductor/codecache.py:1131 __call__",
                  "/job/train.py:27 main"}),
            "train.py:27 in main | /tmp/torchinductor_root/ab/cabc.py:77 in call");
}

TEST_F(SiteText, OfLibrariesAloneIsWhereTheOutermostIsEntered) {
  EXPECT_EQ(Site({std::string(kPackages) + "torch/nn/modules/module.py:1511 _call_impl",
                  std::string(kPackages) + "vllm/v1/engine/core.py:812 run_busy_loop",
                  "/usr/lib/python3.11/threading.py:975 Thread.run"}),
            "vllm/v1/engine/core.py:812 in run_busy_loop | "
            "torch/nn/modules/module.py:1511 in _call_impl");
}

TEST_F(SiteText, OfTheStandardLibraryAloneIsInnermost) {
  EXPECT_EQ(Site({"/usr/lib/python3.11/threading.py:320 Condition.wait",
                  "/usr/lib/python3.11/threading.py:975 Thread.run"}),
            "threading.py:320 in Condition.wait | ");
}

TEST_F(SiteText, OfNativeCodeIsASymbolOrAnOffset) {
  EXPECT_EQ(Site({"/usr/lib/libjpeg.so.62+0x1a2b decode_mcu", "/opt/loop+0x10"}),
            "decode_mcu (libjpeg.so.62) | ");
  EXPECT_EQ(Site({"/opt/loop+0x1A2B"}), "loop+0x1a2b | ");
}

TEST_F(SiteText, OfNativeCodeIsNeverTheWaitOfTheCLibrary) {
  EXPECT_EQ(Site({"/usr/lib/libc.so.6+0x98d61", "/opt/loop+0x10 NextRequest"}),
            "NextRequest (loop) | ");
  EXPECT_EQ(Site({"/usr/lib/libc.so.6+0x98d61"}), "libc.so.6+0x98d61 | ");
}

TEST_F(SiteText, BelowPythonNamesTheNativeFunction) {
  EXPECT_EQ(Site({"/usr/lib/libc.so.6+0x1", "/usr/lib/libjpeg.so.62+0x1a2b decode_mcu",
                  "/job/data.py:12 decode"}),
            "data.py:12 in decode | decode_mcu (libjpeg.so.62)");
}

TEST_F(SiteText, FilesOfOneNameGetTheFoldersThatTellThemApart) {
  b_.Stack({"/job/a/model/utils.py:1 f"});
  b_.Stack({"/job/b/model/utils.py:1 f"});
  b_.Stack({std::string(kPackages) + "torch/utils.py:1 f"});
  EXPECT_EQ(Site({"/job/a/model/utils.py:1 f"}), "a/model/utils.py:1 in f | ");
  EXPECT_EQ(Site({"/job/other/utils.py:1 f"}), "other/utils.py:1 in f | ");
  EXPECT_EQ(Site({"/job/b/model/utils.py:1 f"}), "b/model/utils.py:1 in f | ");
  EXPECT_EQ(Site({"/job/train.py:1 f"}), "train.py:1 in f | ");
}

TEST_F(SiteText, AFileThatIsTheTailOfAnotherStaysWhole) {
  b_.Stack({"/job/train.py:1 f"});
  EXPECT_EQ(Site({"train.py:1 f"}), "train.py:1 in f | ");
  EXPECT_EQ(Site({"/job/train.py:1 f"}), "job/train.py:1 in f | ");
}

TEST_F(SiteText, OfAnEmptyStackIsNothing) {
  const CallSites sites(b_.t);
  EXPECT_EQ(sites.SiteOf(-1), -1);
  EXPECT_EQ(sites.TextOf(-1), "");
  EXPECT_EQ(sites.Below(-1), "");
}

// --- sites of calls -----------------------------------------------------------------------------

std::vector<std::string> WaitTexts(const Analysis& a) {
  Lines lines;
  for (const WaitRow& row : a.waits)
    lines.push_back(row.api + " " + std::to_string(row.count) + " " + row.where + " | " +
                    row.detail);
  return lines;
}

// Kernels of 1 ms, waited for by a synchronisation of 2 ms, every 10 ms.
class CallsWithSites : public testing::Test {
 protected:
  void Steps(int count) {
    for (int i = 0; i < count; ++i) {
      const int64_t at = i * 10 * kMs;
      b_.Kernel(at + kMs, at + 2 * kMs, b_.Launch(at, at + 5'000));
      b_.Sync(at + kMs, at + 3 * kMs);
    }
  }
  HostSample& Look(int64_t ns, std::string_view line) {
    return b_.AddSample(0, ns, 0, {}, HostState::kRunning, b_.Stack({line}));
  }
  void SetSite(CallClass of, std::string_view line) {
    const int32_t stack = b_.Stack({line});
    for (HostCall& call : b_.t.calls) {
      if (b_.t.symbols[call.symbol].call_class == of) call.site = stack;
    }
  }
  TimelineBuilder b_;
};

TEST_F(CallsWithSites, ARecordedStackIsTheSite) {
  Steps(2);
  SetSite(CallClass::kSync, "/job/train.py:31 step");
  const Analysis a = Analyse(b_.Build(), {});
  EXPECT_EQ(WaitTexts(a), (Lines{"cudaStreamSynchronize 2 train.py:31 in step | "}));
  ASSERT_EQ(PartsText(a)[0], "2000000-4000000 synchronisation: train.py:31 in step");
  const CauseTotal& total = a.devices[0].causes[0];
  EXPECT_EQ(total.cause, Cause::kHost);  // no sample tells about the time outside calls
  for (const CauseTotal& cause : a.devices[0].causes) {
    if (cause.cause != Cause::kSynchronisation) continue;
    EXPECT_EQ(cause.sites[0].detail, "cudaStreamSynchronize");
    EXPECT_EQ(cause.samples, 0u);
  }
}

TEST_F(CallsWithSites, ASampleInsideTheCallIsTheSite) {
  Steps(2);
  Look(2 * kMs, "/job/train.py:31 step");
  Look(12 * kMs, "/job/train.py:40 log");
  EXPECT_EQ(WaitTexts(Analyse(b_.Build(), {})),
            (Lines{"cudaStreamSynchronize 1 train.py:31 in step | ",
                   "cudaStreamSynchronize 1 train.py:40 in log | "}));
}

TEST_F(CallsWithSites, ACallThatWasNotHitTakesTheNearestOfItsKind) {
  Steps(4);
  Look(2 * kMs, "/job/train.py:31 step");
  Look(32 * kMs, "/job/train.py:40 log");
  Look(15 * kMs, "/job/train.py:50 elsewhere");  // outside of calls
  EXPECT_EQ(WaitTexts(Analyse(b_.Build(), {})),
            (Lines{"cudaStreamSynchronize 2 train.py:31 in step | ",
                   "cudaStreamSynchronize 2 train.py:40 in log | "}));
}

TEST_F(CallsWithSites, NeitherAnotherThreadNorAnotherFunctionNorALongTimeAgoCounts) {
  Steps(2);
  const int32_t other = b_.AddThread(12, "other");
  b_.Sync(11 * kMs, 13 * kMs, other);
  b_.AddSample(other, 12 * kMs, 0, {}, HostState::kRunning, b_.Stack({"/job/train.py:1 f"}));
  Look(2'000, "/job/train.py:2 g");  // in a launch
  b_.Sync(5'000 * kMs, 5'002 * kMs);
  Look(5'001 * kMs, "/job/train.py:3 h");
  EXPECT_EQ(WaitTexts(Analyse(b_.Build(), {})),
            (Lines{"cudaStreamSynchronize 2 thread 11 main | ",
                   "cudaStreamSynchronize 1 train.py:1 in f | ",
                   "cudaStreamSynchronize 1 train.py:3 in h | "}));
}

TEST_F(CallsWithSites, ThreadsThatWaitAtOneLineAreOneRow) {
  const int32_t other = b_.AddThread(12, "other");
  Steps(1);
  b_.Sync(kMs, 3 * kMs, other);
  SetSite(CallClass::kSync, "/job/train.py:31 step");
  EXPECT_EQ(WaitTexts(Analyse(b_.Build(), {})),
            (Lines{"cudaStreamSynchronize 2 train.py:31 in step | "}));
}

TEST_F(CallsWithSites, ACopySaysWhatItCopies) {
  b_.Copy(kMs, 2 * kMs, b_.Call("cudaMemcpyAsync", CallClass::kCopy, kMs, 2 * kMs), true, 2);
  SetSite(CallClass::kCopy, "/job/train.py:31 step");
  EXPECT_EQ(WaitTexts(Analyse(b_.Build(), {})),
            (Lines{"cudaMemcpyAsync 1 train.py:31 in step | DtoH, pageable"}));
}

TEST_F(CallsWithSites, LaunchBoundPiecesKeepTheirCauseAndGetALine) {
  for (int i = 0; i < 4; ++i) {
    const int64_t at = i * 20'000;
    b_.Kernel(at + 5'000, at + 6'000, b_.Launch(at, at + 4'000));
  }
  Look(21'000, "/job/model.py:4 forward");  // in a launch
  Look(10'000, "/job/model.py:3 forward");  // between launches
  const Analysis a = Analyse(b_.Build(), {});
  EXPECT_EQ(PartsText(a)[0], "6000-20000 launch_bound: model.py:3 in forward");
  EXPECT_EQ(PartsText(a)[1], "20000-24000 launch_bound: model.py:4 in forward");
  const CauseTotal& total = a.devices[0].causes[0];
  EXPECT_EQ(total.cause, Cause::kLaunchBound);
  ASSERT_EQ(total.sites.size(), 2u);
  EXPECT_EQ(total.sites[0].where, "model.py:3 in forward");
  EXPECT_EQ(total.sites[0].total_ns, 3 * 14'000);
  EXPECT_EQ(total.sites[0].detail, "between submissions");
  EXPECT_EQ(total.sites[1].where, "model.py:4 in forward");
  EXPECT_EQ(total.sites[1].total_ns, 3 * 4'000);
  EXPECT_EQ(total.sites[1].detail, "cudaLaunchKernel");
  EXPECT_EQ(total.samples, 2u);
}

TEST_F(CallsWithSites, WhatAWaitCostAfterItsEndIsPutToItsLine) {
  b_.Kernel(0, 10 * kMs, b_.Launch(0, 5'000));
  b_.Sync(kMs, 10 * kMs + 1'000);
  b_.Kernel(15 * kMs, 16 * kMs, b_.Launch(15 * kMs, 15 * kMs + 5'000));
  SetSite(CallClass::kSync, "/job/train.py:31 step");
  EXPECT_EQ(PartsText(Analyse(b_.Build(), {})),
            (Lines{"10000000-15000000 synchronisation: train.py:31 in step"}));
}

}  // namespace
}  // namespace gpuprobe::tools
