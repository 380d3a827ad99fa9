// SPDX-License-Identifier: Apache-2.0
// Copyright the gpuprobe authors.
//
// ELF files made by hand, damaged in every way, and this very program.
#include "tools/symbolize/symbolize.h"

#include <dlfcn.h>
#include <elf.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <link.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "tests/tools/temp_folder.h"
#include "tools/format/kernel_name.h"
#include "tools/symbolize/elf_symbols.h"

namespace gpuprobe::tools {

// Not inlined, with a name that the test knows.
__attribute__((noinline)) int FunctionOfThisTest(int x) {
  asm volatile("" : "+r"(x));
  return x;
}

namespace {

struct MadeSymbol {
  std::string name;
  uint64_t address, size;
  int type = STT_FUNC, bind = STB_GLOBAL;
  uint16_t section = 1;
};

template <class T>
void Append(const T& value, std::string* out) {
  out->append(reinterpret_cast<const char*>(&value), sizeof(value));
}

// Header, note, symbols, names, section headers.
std::string MakeElf(const std::vector<MadeSymbol>& symbols, const std::string& build_id,
                    uint32_t table_type = SHT_SYMTAB) {
  std::string names(1, '\0'), table(sizeof(Elf64_Sym), '\0'), note;
  for (const MadeSymbol& made : symbols) {
    Elf64_Sym symbol = {};
    symbol.st_name = static_cast<uint32_t>(names.size());
    symbol.st_info = static_cast<unsigned char>(ELF64_ST_INFO(made.bind, made.type));
    symbol.st_shndx = made.section;
    symbol.st_value = made.address;
    symbol.st_size = made.size;
    Append(symbol, &table);
    names += made.name + '\0';
  }
  Append(Elf64_Nhdr{4, static_cast<uint32_t>(build_id.size()), NT_GNU_BUILD_ID}, &note);
  note += std::string("GNU\0", 4) + build_id;
  note.resize((note.size() + 7) / 8 * 8);
  names.resize((names.size() + 7) / 8 * 8);
  Elf64_Ehdr header = {};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  header.e_shentsize = sizeof(Elf64_Shdr);
  header.e_shnum = 4;
  header.e_shoff = sizeof(header) + note.size() + table.size() + names.size();
  std::string file;
  Append(header, &file);
  file += note + table + names;
  const auto section = [&file](uint32_t type, uint64_t offset, uint64_t size, uint32_t link) {
    Elf64_Shdr made = {};
    made.sh_type = type;
    made.sh_offset = offset;
    made.sh_size = size;
    made.sh_link = link;
    Append(made, &file);
  };
  uint64_t at = sizeof(header);
  section(SHT_NULL, 0, 0, 0);
  section(SHT_NOTE, at, note.size(), 0);
  section(table_type, at += note.size(), table.size(), 3);
  section(SHT_STRTAB, at += table.size(), names.size(), 0);
  return file;
}

absl::StatusOr<ElfSymbols> ReadBytes(const std::string& content) {
  const int fd = memfd_create("elf", MFD_CLOEXEC);
  EXPECT_EQ(write(fd, content.data(), content.size()), static_cast<ssize_t>(content.size()));
  absl::StatusOr<ElfSymbols> symbols = ElfSymbols::Read(fd);
  close(fd);
  return symbols;
}

const std::vector<MadeSymbol>& SomeSymbols() {
  static const std::vector<MadeSymbol> symbols = {
      {"decode_alias", 0x1000, 0x10, STT_FUNC, STB_LOCAL},
      {"_ZN2io6decodeEi@@LIBIO_1.0", 0x1000, 0x20},
      {"no_size", 0x2000, 0},
      {"data", 0x3000, 0x100, STT_OBJECT},
      {"imported", 0x4000, 0x100, STT_FUNC, STB_GLOBAL, SHN_UNDEF},
      {"resolver", 0x5000, 0x10, STT_GNU_IFUNC}};
  return symbols;
}

TEST(ElfSymbolsTest, FindsTheFunctionThatHoldsAnAddress) {
  for (const uint32_t type : {SHT_SYMTAB, SHT_DYNSYM}) {
    const auto symbols = ReadBytes(MakeElf(SomeSymbols(), "0123456789abcdef0123", type));
    ASSERT_TRUE(symbols.ok());
    EXPECT_EQ(symbols->Find(0xfff), "");
    EXPECT_EQ(symbols->Find(0x1000), "_ZN2io6decodeEi");  // global, and without its version
    EXPECT_EQ(symbols->Find(0x101f), "_ZN2io6decodeEi");
    EXPECT_EQ(symbols->Find(0x1020), "");  // between functions: nobody's
    EXPECT_EQ(symbols->Find(0x2000), "no_size");
    EXPECT_EQ(symbols->Find(0x2001), "");
    EXPECT_EQ(symbols->Find(0x3000), "");
    EXPECT_EQ(symbols->Find(0x4000), "");
    EXPECT_EQ(symbols->Find(0x500f), "resolver");
    EXPECT_EQ(symbols->Find(UINT64_MAX), "");
    EXPECT_EQ(symbols->build_id(), "0123456789abcdef0123");
  }
}

TEST(ElfSymbolsTest, WhatIsNoElfFileIsRefused) {
  EXPECT_FALSE(ReadBytes("").ok());
  EXPECT_FALSE(ReadBytes("#!/bin/sh\n").ok());
  std::string file = MakeElf(SomeSymbols(), "id");
  file[EI_CLASS] = ELFCLASS32;
  EXPECT_FALSE(ReadBytes(file).ok());
  EXPECT_FALSE(ElfSymbols::Open("/no/such/file").ok());
  EXPECT_FALSE(ElfSymbols::Open("/dev/zero").ok());
  EXPECT_FALSE(ElfSymbols::Open("/").ok());
  TempFolder folder;
  ASSERT_EQ(mkfifo(folder.Path("fifo").c_str(), 0600), 0);
  EXPECT_FALSE(ElfSymbols::Open(folder.Path("fifo")).ok());  // and does not hang
}

TEST(ElfSymbolsTest, DamagedFilesDoNoHarm) {
  const std::string good = MakeElf(SomeSymbols(), "0123456789abcdef0123");
  std::mt19937_64 random(3);
  int readable = 0;
  const auto use = [&](const std::string& content) {
    const auto symbols = ReadBytes(content);
    if (!symbols.ok()) return;
    ++readable;
    for (const uint64_t address : {uint64_t{0}, uint64_t{0x1008}, uint64_t{0x5000}, UINT64_MAX}) {
      EXPECT_LE(symbols->Find(address).size(), content.size());
    }
    EXPECT_LE(symbols->build_id().size(), 64u);
  };
  for (size_t size = 0; size <= good.size(); ++size) use(good.substr(0, size));
  for (int round = 0; round < 4000; ++round) {
    std::string bad = good;
    for (uint64_t flips = 1 + random() % 4; flips > 0; --flips) {
      // Extreme values more often than random ones: they are what overflows.
      const size_t at = random() % bad.size();
      bad[at] = static_cast<char>(random() % 2 ? random() : (random() % 2 ? 0xff : 0x7f));
      if (random() % 4 == 0 && at + 8 <= bad.size()) std::memset(&bad[at], 0xff, 8);
    }
    use(bad);
  }
  EXPECT_GT(readable, 1000);
}

// The path of this program, and the address of the function as its file counts it.
struct Self {
  std::string path;
  uint64_t offset = 0;
};
Self FindSelf() {
  Self self;
  char path[4096] = {};
  EXPECT_GT(readlink("/proc/self/exe", path, sizeof(path) - 1), 0);
  self.path = path;
  struct link_map* map = nullptr;
  Dl_info info;
  EXPECT_NE(dladdr1(reinterpret_cast<void*>(&FunctionOfThisTest), &info,
                    reinterpret_cast<void**>(&map), RTLD_DL_LINKMAP),
            0);
  self.offset = reinterpret_cast<uint64_t>(&FunctionOfThisTest) - map->l_addr;
  return self;
}

Timeline TimelineOf(const std::string& module, uint64_t offset) {
  Timeline t;
  t.strings = {module};
  CodeLocation native, python;
  native.file = python.file = 0;
  native.offset = offset;
  native.native = true;
  python.line = 3;
  t.locations = {native, python};
  t.stacks = {{-1, 0}};
  Process process;
  process.host = "here";
  process.capture_begin_ns = INT64_MAX;
  t.processes = {process};
  return t;
}

TEST(SymbolizeTest, AFunctionOfThisProgramGetsItsName) {
  const Self self = FindSelf();
  Timeline t = TimelineOf(self.path, self.offset + 1);
  const SymbolizeResult result = Symbolize({"here", ""}, &t);
  EXPECT_EQ(result.locations, 1u);
  EXPECT_EQ(result.named, 1u);
  ASSERT_GE(t.locations[0].function, 0);
  EXPECT_EQ(t.strings[static_cast<size_t>(t.locations[0].function)],
            "gpuprobe::tools::FunctionOfThisTest");
  EXPECT_EQ(t.locations[1].function, -1);  // Python is left alone
}

class BelievedTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::ofstream(folder_.Path("libio.so"), std::ios::binary) << MakeElf(SomeSymbols(), "good");
    t_ = TimelineOf("/libio.so", 0x1004);
  }
  bool Named(const std::string& host = "here") {
    Timeline t = t_;
    return Symbolize({host, folder_.Path("")}, &t).named == 1;
  }
  TempFolder folder_;
  Timeline t_;
};

TEST_F(BelievedTest, TheRecordedBuildIdDecides) {
  t_.modules = {{0, "good"}};
  EXPECT_TRUE(Named());
  EXPECT_TRUE(Named("elsewhere"));
  t_.modules = {{0, "other"}};
  EXPECT_FALSE(Named());
  t_.modules = {{0, "good"}, {0, "other"}};  // the path meant two files
  EXPECT_FALSE(Named());
}

TEST_F(BelievedTest, WithoutABuildIdHostAndTimeDecide) {
  EXPECT_TRUE(Named());
  EXPECT_FALSE(Named("elsewhere"));
  t_.processes[0].capture_begin_ns = 1'000'000'000;  // long before the file was written
  EXPECT_FALSE(Named());
}

TEST_F(BelievedTest, ModulesThatAreNoFileHaveNoNames) {
  t_.strings[0] = "[vdso]";
  EXPECT_FALSE(Named());
  t_.strings[0] = "/libio.so (deleted)";
  EXPECT_FALSE(Named());
  t_.locations[0].file = -1;
  EXPECT_FALSE(Named());
}

TEST(FunctionNameTest, IsTheNameAlone) {
  EXPECT_EQ(FunctionName("io::decode(int)"), "io::decode");
  EXPECT_EQ(FunctionName("(anonymous namespace)::f(int)::{lambda(int)#1}::operator()(int) const"),
            "{anonymous}::f");
  EXPECT_EQ(FunctionName("void ns::g<int (*)(char)>(int) [clone .cold]"), "ns::g<int (*)(char)>");
  EXPECT_EQ(FunctionName("memcpy"), "memcpy");
  EXPECT_EQ(FunctionName("()"), "()");
}

}  // namespace
}  // namespace gpuprobe::tools
