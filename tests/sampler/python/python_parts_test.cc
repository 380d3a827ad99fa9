// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// The parts below the reader: line tables, texts, the location table, memory, and rubbish.
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "sampler/python/python_layout.h"
#include "sampler/python/python_lines.h"
#include "sampler/python/python_runtime.h"
#include "sampler/python/python_text.h"
#include "tests/sampler/python/python_child.h"

namespace gpuprobe::sampler {
namespace {

// Prints, for the code objects of standard modules, "code FIRST_LINE HEX(table) BYTES" and then a
// line "range BEGIN END LINE" for each stretch, 0 for none.
constexpr char kCodeScript[] = R"py(
import dis, importlib.util, marshal, os, sys, time, types
folder = os.path.dirname(os.__file__)
deadline = time.monotonic() + 4
def codes(code):
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from codes(constant)
def ranges(code):
    if hasattr(code, "co_lines"):
        return [(b, e, l or 0) for b, e, l in code.co_lines()]
    starts = list(dis.findlinestarts(code))
    ends = [s[0] for s in starts[1:]] + [len(code.co_code)]
    return [(s[0], e, s[1]) for s, e in zip(starts, ends)]
files = []
for path, folders, names in os.walk(folder):
    if "test" in path or "site-packages" in path:
        continue
    files += [os.path.join(path, name) for name in sorted(names) if name.endswith(".py")]
done = 0
for file in files:
    try:
        with open(importlib.util.cache_from_source(file), "rb") as f:
            module = marshal.loads(f.read()[16:])
    except (OSError, ValueError, EOFError):
        try:
            module = compile(open(file, "rb").read(), file, "exec")
        except (SyntaxError, ValueError):
            continue
    for code in codes(module):
        table = code.co_linetable if hasattr(code, "co_lines") else code.co_lnotab
        out = ["code %d %s %d" % (code.co_firstlineno, table.hex() or "-", len(code.co_code))]
        out += ["range %d %d %d" % r for r in ranges(code)]
        print("\n".join(out))
    done += 1
    if time.monotonic() > deadline and done > 20:
        break
print("end", flush=True)
time.sleep(600)
)py";

std::vector<uint8_t> FromHex(const char* hex) {
  std::vector<uint8_t> bytes;
  if (*hex == '-') return bytes;
  for (; hex[0] != '\0' && hex[1] != '\0'; hex += 2) {
    const char pair[3] = {hex[0], hex[1], '\0'};
    bytes.push_back(static_cast<uint8_t>(strtoul(pair, nullptr, 16)));
  }
  return bytes;
}

class PythonLines : public testing::TestWithParam<Interpreter> {};

TEST_P(PythonLines, AreThoseThatPythonTellsOfItsOwnLibrary) {
  ScriptFolder folder;
  ChildProcess child({GetParam().path, folder.Write("codes.py", kCodeScript)});
  std::vector<uint8_t> table;
  int first_line = 0, codes = 0, compared = 0;
  while (true) {
    const std::string line = child.Line();
    ASSERT_FALSE(line.empty()) << "the script ended";
    if (line == "end") break;
    if (line.rfind("code ", 0) == 0) {
      char* after = nullptr;
      first_line = static_cast<int>(strtol(line.c_str() + 5, &after, 10));
      std::string hex = after + 1;
      hex.resize(hex.find(' '));
      table = FromHex(hex.c_str());
      ++codes;
      continue;
    }
    int begin, end, expected;
    ASSERT_EQ(sscanf(line.c_str(), "range %d %d %d", &begin, &end, &expected), 3) << line;
    if (begin >= end) continue;
    // Both ends and the middle, which for 3.11+ may lie in an instruction's cache.
    for (const int offset : {begin, (begin + end) / 2 & ~1, end - 2}) {
      ASSERT_EQ(PythonLine(GetParam().minor, table, first_line, offset),
                static_cast<uint32_t>(expected))
          << "code " << codes << " at " << offset;
      ++compared;
    }
  }
  EXPECT_GT(codes, 200);
  EXPECT_GT(compared, 2000);
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(PythonLines);
INSTANTIATE_TEST_SUITE_P(, PythonLines, testing::ValuesIn(FindInterpreters()),
                         [](const auto& tested) { return NameOf(tested.param, tested.index); });

// 3.13 and later list their opcodes, specialised and instrumented spellings included.
std::vector<Interpreter> InterpretersThatListOpcodes() {
  std::vector<Interpreter> all = FindInterpreters();
  std::erase_if(all, [](const Interpreter& one) { return one.minor < 13; });
  return all;
}

class PythonOpcodes : public testing::TestWithParam<Interpreter> {};

TEST_P(PythonOpcodes, AreTheCallsThatPythonNames) {
  std::map<std::string, int> number_of;
  ChildProcess child({GetParam().path, "-c",
                      "import _opcode_metadata as m\n"
                      "for name, number in [*m.opmap.items(), *m._specialized_opmap.items()]:\n"
                      "  if number < 256: print(name, number)\n"});
  for (std::string line = child.Line(); !line.empty(); line = child.Line()) {
    const size_t space = line.find(' ');
    number_of[line.substr(0, space)] = std::stoi(line.substr(space + 1));
  }
  ASSERT_GT(number_of.size(), 200u);
  const int minor = GetParam().minor;
  EXPECT_EQ(LineTracingOpcode(minor), number_of["INSTRUMENTED_LINE"]);
  const std::set<std::string> any = {"IMPORT_NAME", "BEFORE_WITH", "WITH_EXCEPT_START", "FOR_ITER",
                                     "CALL",        "CALL_KW",     "CALL_FUNCTION_EX"};
  // Specialised for Python functions, or (intrinsics) no calls.
  const char* const others[] = {
      "CALL_PY_",      "CALL_BOUND_METHOD_",   "CALL_KW_PY",
      "CALL_EX_PY",    "CALL_KW_BOUND_METHOD", "CALL_ALLOC_AND_ENTER_INIT",
      "CALL_INTRINSIC"};
  std::set<int> numbers;
  for (const auto& [name, number] : number_of) {
    const bool instrumented = name.starts_with("INSTRUMENTED_");
    const bool may_call_python = any.contains(instrumented ? name.substr(13) : name);
    const bool of_others = std::ranges::any_of(
        others, [&name](const char* prefix) { return name.starts_with(prefix); });
    const bool call = may_call_python || (name.starts_with("CALL_") && !of_others);
    const auto opcode = static_cast<uint8_t>(number);
    EXPECT_EQ(IsPythonCallOpcode(minor, opcode), call) << name << " " << number;
    EXPECT_EQ(MayCallPython(minor, opcode), may_call_python) << name << " " << number;
    numbers.insert(number);
  }
  for (int number = 0; number < 256; ++number) {
    if (numbers.contains(number)) continue;
    EXPECT_FALSE(IsPythonCallOpcode(minor, static_cast<uint8_t>(number))) << number;
  }
}

GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(PythonOpcodes);
INSTANTIATE_TEST_SUITE_P(, PythonOpcodes, testing::ValuesIn(InterpretersThatListOpcodes()),
                         [](const auto& tested) { return NameOf(tested.param, tested.index); });

TEST(PythonLine, EndsWhateverTheTableHolds) {
  std::mt19937 random(7);
  for (int round = 0; round < 2000; ++round) {
    std::vector<uint8_t> table(random() % 300);
    for (uint8_t& byte : table) byte = static_cast<uint8_t>(random());
    for (const int minor : {9, 10, 11, 12, 13, 14, 15}) {
      PythonLine(minor, table, static_cast<int32_t>(random()),
                 static_cast<int64_t>(random() % 4096));
      PythonLine(minor, table, INT32_MAX, INT64_MAX);
      EXPECT_EQ(PythonLine(minor, table, 12, -2), 12u);
    }
  }
  for (const int minor : {10, 11, 12, 13, 14, 15}) EXPECT_EQ(PythonLine(minor, {}, 5, 0), 0u);
}

std::string Utf8(const void* characters, size_t length, uint32_t kind, size_t room = 64) {
  std::string out(room, '\0');
  out.resize(EncodeUtf8(static_cast<const uint8_t*>(characters), length, kind, out.data(), room));
  return out;
}

TEST(PythonText, IsEncodedWholeCharacterByCharacter) {
  const uint8_t latin[] = {'a', 0xE9};
  const uint16_t two[] = {0x3BB, 0x4E2D, 0xD800};
  const uint32_t four[] = {0x1F40D, 0x110000, 0xFFFFFFFF, 'z'};
  EXPECT_EQ(Utf8(latin, 2, 1), "a\u00e9");
  EXPECT_EQ(Utf8(two, 3, 2), "\u03bb\u4e2d?");
  EXPECT_EQ(Utf8(four, 4, 4), "\U0001f40d??z");
  EXPECT_EQ(Utf8(four, 1, 4, 3), "");
  EXPECT_EQ(Utf8(latin, 2, 1, 2), "a");
}

TEST(PythonText, RefusesWhatIsNoStr) {
  const PythonLayout& layout = *FixedPythonLayout(12);
  uint8_t header[64] = {};
  PythonTextShape shape;
  EXPECT_FALSE(ParsePythonText(layout, header, &shape));
  const uint32_t ascii_bits = 1u << 2 | 1u << 5 | 1u << 6;
  memcpy(header + layout.text_state, &ascii_bits, 4);
  header[layout.text_length] = 7;
  ASSERT_TRUE(ParsePythonText(layout, header, &shape));
  EXPECT_EQ(shape.length, 7u);
  EXPECT_EQ(shape.kind, 1u);
  EXPECT_EQ(shape.data_begin, layout.text_header_bytes);
  // 3.14 has the same bits in the upper half.
  const uint32_t upper_bits = 3u | 2u << 16 | 1u << 19;
  memcpy(header + layout.text_state, &upper_bits, 4);
  ASSERT_TRUE(ParsePythonText(layout, header, &shape));
  EXPECT_EQ(shape.kind, 2u);
  EXPECT_EQ(shape.data_begin, layout.text_compact_header_bytes);
  memset(header + layout.text_length, 0xFF, 8);
  EXPECT_FALSE(ParsePythonText(layout, header, &shape));
}

class Locations : public testing::Test {
 protected:
  void Make(size_t bytes) {
    memory_.assign(bytes / 8, 0);
    ASSERT_TRUE(table_.Init(memory_.data(), bytes));
  }
  std::vector<uint64_t> memory_;
  LocationTable table_;
};

TEST_F(Locations, AreKeptOnceEach) {
  Make(64 << 10);
  const TextId a = table_.InternText("alpha"), b = table_.InternText("beta");
  EXPECT_NE(a, b);
  EXPECT_EQ(table_.InternText("alpha"), a);
  EXPECT_EQ(table_.InternText(""), 0u);
  EXPECT_EQ(table_.Text(a), "alpha");
  EXPECT_EQ(table_.Text(0), "");
  EXPECT_EQ(table_.Text(9999), "");
  const LocationId python = table_.Intern({a, b, 7, 0, LocationKind::kPython});
  const LocationId other = table_.Intern({a, b, 8, 0, LocationKind::kPython});
  const LocationId native = table_.Intern({0, b, 0, 7, LocationKind::kNative});
  EXPECT_EQ(table_.Intern({a, b, 7, 0, LocationKind::kPython}), python);
  EXPECT_NE(python, other);
  EXPECT_NE(python, native);
  EXPECT_EQ(table_.Get(native).offset, 7u);
  EXPECT_EQ(table_.Get(0).line, 0u);
  EXPECT_EQ(table_.location_count(), 3u);
}

TEST_F(Locations, AreRefusedAndCountedWhenTheTableIsFull) {
  Make(16 << 10);
  LocationId last = 1;
  uint32_t line = 0;
  while (last != 0 && line < 100'000)
    last = table_.Intern({0, 0, ++line, 0, LocationKind::kPython});
  EXPECT_EQ(last, 0u);
  EXPECT_EQ(table_.refused(), 1u);
  EXPECT_EQ(table_.location_count(), line - 1);
  EXPECT_EQ(table_.Intern({0, 0, 1, 0, LocationKind::kPython}), 1u);  // what is in stays in
  int texts = 0;
  while (table_.InternText("text " + std::to_string(texts)) != 0 && texts < 100'000) ++texts;
  EXPECT_GT(texts, 10);
  EXPECT_LT(texts, 100'000);
  EXPECT_EQ(table_.refused(), 2u);
  EXPECT_EQ(table_.Text(table_.InternText("text 0")), "text 0");
}

TEST_F(Locations, HaveTextsOfAtMostAKilobyteInWholeCharacters) {
  Make(64 << 10);
  EXPECT_EQ(table_.Text(table_.InternText(std::string(3000, 'x'))), std::string(1024, 'x'));
  std::string odd(1023, 'y');
  odd += "\u00e9z";
  EXPECT_EQ(table_.Text(table_.InternText(odd)), std::string(1023, 'y'));
}

TEST(LocationTableInit, RefusesTooLittleMemory) {
  uint64_t memory[64] = {};
  LocationTable table;
  EXPECT_FALSE(table.Init(memory, sizeof(memory)));
  EXPECT_EQ(table.InternText("x"), 0u);
  EXPECT_EQ(table.location_count(), 0u);
}

TEST(ProcessMemoryRead, StopsAtAHoleWithoutFaulting) {
  constexpr size_t kPage = 4096;
  auto* pages = static_cast<char*>(
      mmap(nullptr, 3 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(pages, MAP_FAILED);
  memset(pages, 'a', 2 * kPage);
  munmap(pages + 2 * kPage, kPage);
  ProcessMemory memory;
  ASSERT_TRUE(memory.Open(getpid()));
  const auto base = reinterpret_cast<uint64_t>(pages);
  std::vector<char> out(4 * kPage);
  EXPECT_TRUE(memory.Read(base + 100, out.data(), kPage));
  EXPECT_EQ(out[kPage - 1], 'a');
  EXPECT_FALSE(memory.Read(base + kPage, out.data(), kPage + 1));
  EXPECT_EQ(memory.ReadUpTo(base + 100, out.data(), 3 * kPage), 2 * kPage - 100);
  EXPECT_EQ(memory.ReadUpTo(base + 2 * kPage, out.data(), 10), 0u);
  EXPECT_FALSE(memory.Read(0, out.data(), 1));
  EXPECT_FALSE(memory.Read(UINT64_MAX - 2, out.data(), 8));
  std::vector<ProcessMemory::Piece> pieces;
  for (size_t i = 0; i < 300; ++i) pieces.push_back({base + i, out.data() + 2 * i, 1});
  out.assign(out.size(), 'b');
  EXPECT_TRUE(memory.ReadPieces(pieces.data(), pieces.size()));
  EXPECT_EQ(out[598], 'a');
  EXPECT_EQ(out[599], 'b');
  pieces[200].address = base + 2 * kPage;
  EXPECT_FALSE(memory.ReadPieces(pieces.data(), pieces.size()));
  munmap(pages, 2 * kPage);
}

TEST(ProcessMemoryRead, TellsHowManyPiecesThereAreUpToAHole) {
  constexpr size_t kPage = 4096;
  auto* pages = static_cast<uint8_t*>(
      mmap(nullptr, 3 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(pages, MAP_FAILED);
  for (size_t i = 0; i < 2 * kPage; ++i) pages[i] = static_cast<uint8_t>(i * 7);
  munmap(pages + 2 * kPage, kPage);
  ProcessMemory memory;
  const auto base = reinterpret_cast<uint64_t>(pages);
  ASSERT_TRUE(memory.Open(getpid(), base));
  // Side by side, with gaps, backwards, over the end of a page, and apart: each gets its own bytes.
  const struct {
    size_t at, size;
  } places[] = {{0, 8},    {8, 8},    {20, 4},      {600, 100}, {590, 8}, {590, 8},
                {4090, 6}, {4096, 2}, {4100, 3000}, {7200, 1},  {8184, 8}};
  constexpr size_t kCount = std::size(places);
  for (const bool apart : {false, true}) {
    std::vector<std::vector<uint8_t>> out(kCount);
    std::vector<ProcessMemory::Piece> pieces;
    for (size_t i = 0; i < kCount; ++i) {
      out[i].assign(places[i].size + 1, 0xEE);
      pieces.push_back(
          {base + places[i].at, out[i].data(), static_cast<uint32_t>(places[i].size), apart});
    }
    const uint64_t before = ProcessMemory::calls();
    EXPECT_EQ(memory.ReadPiecesUpTo(pieces.data(), kCount), kCount);
    EXPECT_EQ(ProcessMemory::calls() - before, 1u);
    for (size_t i = 0; i < kCount; ++i) {
      EXPECT_EQ(memcmp(out[i].data(), pages + places[i].at, places[i].size), 0) << i;
      EXPECT_EQ(out[i].back(), 0xEE) << i;
    }
    // A hole anywhere: those before it, all of them, and none behind.
    for (size_t hole = 0; hole < kCount; ++hole) {
      std::vector<ProcessMemory::Piece> with_hole = pieces;
      for (auto& bytes : out) bytes.assign(bytes.size(), 0xEE);
      with_hole[hole].address = base + 2 * kPage - (hole % 2);  // at once, or behind a byte
      with_hole[hole].size = std::max<size_t>(places[hole].size, 2);
      std::vector<uint8_t> lost(4096);
      with_hole[hole].out = lost.data();
      EXPECT_EQ(memory.ReadPiecesUpTo(with_hole.data(), kCount), hole);
      for (size_t i = 0; i < hole; ++i) {
        EXPECT_EQ(memcmp(out[i].data(), pages + places[i].at, places[i].size), 0) << i;
      }
    }
  }
  munmap(pages, 2 * kPage);
}

TEST(ProcessMemoryOpen, TellsThatAProcessIsGone) {
  const pid_t child = fork();
  if (child == 0) _exit(0);
  waitpid(child, nullptr, 0);
  ProcessMemory memory;
  EXPECT_FALSE(memory.Open(child));
  EXPECT_NE(memory.error(), 0);
  AttachedReader attached;
  EXPECT_EQ(attached.Attach(child), PythonStatus::kUnreadable);
  EXPECT_FALSE(attached.reader().BeginLook());
}

TEST(PythonReaderAttach, FindsNothingInAProcessWithoutPython) {
  AttachedReader attached;
  EXPECT_EQ(attached.Attach(getpid()), PythonStatus::kNone);
  EXPECT_FALSE(attached.reader().BeginLook());
  PythonStack stack;
  EXPECT_EQ(attached.reader().ReadStack(getpid(), &attached.table(), &stack),
            PythonReader::Read::kNoPython);
  EXPECT_STREQ(attached.reader().version(), "");
}

TEST(PublishedLayout, IsRefusedUnlessItCanBe) {
  uint8_t bytes[kDebugOffsetsBytes] = {};
  const auto set = [&](int index, uint64_t value) { memcpy(bytes + index * 8, &value, 8); };
  PythonLayout layout;
  const char* reason = "";
  EXPECT_EQ(PublishedPythonVersion(bytes), 0u);
  memcpy(bytes, "xdebugpy", 8);
  set(1, 0x031000F0);
  EXPECT_FALSE(PublishedPythonLayout(bytes, &layout, &reason));
  EXPECT_THAT(reason, testing::HasSubstr("not known"));
  set(1, 0x030D01F0);
  EXPECT_EQ(PublishedPythonVersion(bytes), 0x030D01F0u);
  set(2, 1);
  EXPECT_FALSE(PublishedPythonLayout(bytes, &layout, &reason));
  EXPECT_THAT(reason, testing::HasSubstr("free-threaded"));
  set(2, 0);
  std::mt19937_64 random(3);
  for (int round = 0; round < 3000; ++round) {
    for (int i = 3; i < int{kDebugOffsetsBytes / 8}; ++i) set(i, random() >> (round % 64));
    if (!PublishedPythonLayout(bytes, &layout, &reason)) continue;
    EXPECT_LE(layout.thread_bytes, kMaxThreadStateBytes);
    EXPECT_LE(layout.frame_bytes, kMaxFrameBytes);
    EXPECT_LE(layout.code_bytes, kMaxCodeBytes);
  }
}

// A heap of words that point at each other or anywhere, with small numbers in between, read as if
// an interpreter of each version were in it.
TEST(PythonReaderRubbish, IsReadWithoutHarm) {
  constexpr size_t kWords = 1 << 14;
  std::vector<uint64_t> heap(kWords);
  const auto base = reinterpret_cast<uint64_t>(heap.data());
  std::mt19937_64 random(11);
  ProcessMemory memory;
  ASSERT_TRUE(memory.Open(getpid()));
  AttachedReader attached;
  int looks = 0, told = 0;
  for (int round = 0; round < 400; ++round) {
    for (uint64_t& word : heap) {
      const uint64_t dice = random() % 16;
      word = dice < 10   ? base + random() % kWords * 8
             : dice < 12 ? random() % 300
             : dice < 14 ? base + random() % (kWords * 8)
                         : random();
    }
    PythonRuntime runtime;
    runtime.address = base;
    runtime.layout = *FixedPythonLayout(9 + round % 4);
    heap[runtime.layout.runtime_finalizing / 8] = 0;
    ASSERT_EQ(attached.reader().AttachRuntime(&memory, runtime), PythonStatus::kReady);
    const uint64_t interpreter = heap[runtime.layout.runtime_interpreters / 8];
    if (interpreter < base || interpreter + 512 > base + kWords * 8 || interpreter % 8 != 0)
      continue;
    const uint64_t thread = base + 4096 + random() % 1024 * 8;
    const auto at = [&](uint64_t address) -> uint64_t& { return heap[(address - base) / 8]; };
    at(interpreter + runtime.layout.interpreter_threads) = thread;
    at(thread + runtime.layout.thread_interpreter) = interpreter;
    at(thread + runtime.layout.thread_prev) = 0;
    if (runtime.layout.thread_native_id != kNoOffset) {
      at(thread + runtime.layout.thread_native_id) = 77;
    } else {
      const uint64_t pthread = base + 65536;
      at(thread + runtime.layout.thread_pthread) = pthread;
      at(pthread + kTidInPthread) = 77;
    }
    if (!attached.reader().BeginLook()) continue;
    ++looks;
    for (int repeat = 0; repeat < 3; ++repeat) {
      PythonStack stack;
      if (attached.reader().ReadStack(77, &attached.table(), &stack) == PythonReader::Read::kOk) {
        ++told;
        EXPECT_LE(stack.depth, kMaxStackDepth);
      }
    }
  }
  EXPECT_GT(looks, 50);
  RecordProperty("told", told);
}

}  // namespace
}  // namespace gpuprobe::sampler
