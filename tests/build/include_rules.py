# SPDX-License-Identifier: Apache-2.0
"""Who may include whom (ARCHITECTURE.md). The rules are held over what a file reaches through its
includes, not only over what it names itself."""

import os
import re

from project_files import project_files, read

SOURCE = (".cc", ".h", ".c", ".inc")

# Headers of libc and the kernel; everything else with a slash or ".h" is a third party.
SYSTEM = re.compile(r"(sys|linux|asm|netinet|arpa|net|bits)/[\w/]+\.h|"
                    r"(aio|alloca|assert|cpuid|cxxabi|ctype|dirent|dlfcn|elf|emmintrin|errno|execinfo|fcntl|features|float|"
                    r"fnmatch|ftw|getopt|glob|immintrin|inttypes|langinfo|libgen|limits|link|locale|malloc|math|netdb|poll|"
                    r"pthread|pty|pwd|regex|sched|semaphore|setjmp|signal|spawn|stdalign|stdarg|stdatomic|stdbool|"
                    r"stddef|stdint|stdio|stdlib|string|strings|syscall|sysexits|syslog|termios|time|ucontext|"
                    r"unistd|utime|wait|wchar|x86intrin)\.h")
CUPTI = re.compile(r"(cupti|cuda|generated_cu|nvtx)\w*\.h|cuda_runtime_api\.h|Open(acc|mp)/.*")
PROTOBUF = re.compile(r"google/protobuf/.*|proto/gpuprobe\.pb\.h")
ABSEIL = re.compile(r"absl/.*")
SQLITE = re.compile(r"sqlite3\.h")
ZLIB = re.compile(r"zlib\.h")
ZSTD = re.compile(r"zstd(_errors)?\.h")
VERSION = re.compile(r"gpuprobe_version\.h")

# The library runs without libstdc++: these headers are of no use without its compiled part, or invite
# what the library must not do (allocate, throw, lock).
NEEDS_RUNTIME = re.compile(r"any|condition_variable|deque|exception|filesystem|forward_list|fstream|functional|future|"
                           r"iomanip|ios|iostream|istream|list|locale|map|mutex|ostream|queue|random|regex|set|"
                           r"shared_mutex|sstream|stack|stdexcept|streambuf|string|syncstream|system_error|thread|"
                           r"typeinfo|unordered_map|unordered_set|valarray|vector")

# area: (areas whose files it may reach, third parties that its own files may include, in the library?)
RULES = {
    "ringbuf": ({"ringbuf"}, [], True),
    "cupti": ({"cupti", "ringbuf"}, [CUPTI], True),
    "proto shared": ({"proto shared"}, [], True),
    "proto write": ({"proto write", "proto shared", "ringbuf"}, [ZSTD], True),
    "proto read": ({"proto read", "proto shared"}, [PROTOBUF, ABSEIL, ZSTD], False),
    "sampler": ({"sampler", "ringbuf", "proto write", "proto shared"}, [], True),
    "inject": ({"inject", "sampler", "cupti", "ringbuf", "proto write", "proto shared"}, [VERSION], True),
    "tools": ({"tools", "proto read", "proto shared"}, [PROTOBUF, ABSEIL, SQLITE, ZLIB, ZSTD, VERSION], False),
}
# Written by the build, so not there to be looked at.
GENERATED = re.compile(r"proto/gpuprobe\.pb\.h|gpuprobe_version\.h")

INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]+(?:"([^"]+)"|<([^>]+)>)', re.MULTILINE)


class Project:
    def __init__(self, root):
        self.root = root
        self.files = [f for f in project_files(root) if f.endswith(SOURCE)]
        self.known = set(self.files)
        self.project_includes = {}
        self.external_includes = {}
        for name in self.files:
            ours, theirs = [], []
            for quoted, angled in INCLUDE.findall(read(root, name)):
                include = quoted or angled
                (ours if include in self.known else theirs).append((include, bool(quoted)))
            self.project_includes[name] = [include for include, _ in ours]
            self.external_includes[name] = theirs
        self.proto_sides = self._find_proto_sides()

    def reached(self, name):
        """All project files that `name` includes, directly or not, with the way to each."""
        ways = {name: [name]}
        queue = [name]
        while queue:
            at = queue.pop()
            for include in self.project_includes[at]:
                if include not in ways:
                    ways[include] = ways[at] + [include]
                    queue.append(include)
        return ways

    def _find_proto_sides(self):
        """proto/ is two libraries: proto/CMakeLists.txt says which source is whose. A header belongs to the
        one side that reaches it, or to both."""
        sides = {"proto write": set(), "proto read": set()}
        path = os.path.join(self.root, "proto/CMakeLists.txt")
        text = read(self.root, "proto/CMakeLists.txt") if os.path.exists(path) else ""
        for kind, arguments in re.findall(r"gpuprobe_(injected|offline)_library\(([^)]*)\)", text):
            side = sides["proto write" if kind == "injected" else "proto read"]
            for word in arguments.split():
                source = "proto/" + word
                for file in (source, os.path.splitext(source)[0] + ".h"):
                    if file in self.known:
                        side.update(f for f in self.reached(file) if f.startswith("proto/"))
        return sides

    def area(self, name):
        top = name.split("/")[0]
        if top != "proto":
            return top
        write = name in self.proto_sides["proto write"]
        read_side = name in self.proto_sides["proto read"]
        if write != read_side:
            return "proto write" if write else "proto read"
        return "proto shared"


def is_standard(include):
    return "/" not in include and "." not in include


def check_external(project, name, area, problems):
    _, parties, injected = RULES[area]
    for include, quoted in project.external_includes[name]:
        if is_standard(include):
            if injected and NEEDS_RUNTIME.fullmatch(include):
                problems.append(f"{name}: <{include}> needs libstdc++ at run time; {area} is linked into the library")
        elif SYSTEM.fullmatch(include) or any(party.fullmatch(include) for party in parties):
            continue
        elif quoted and not GENERATED.fullmatch(include) and include.split("/")[0] not in ("absl", "google"):
            problems.append(f"{name}: \"{include}\" is no file of the project (includes count from its root)")
        else:
            problems.append(f"{name}: {area} must not include {include}")


def check_reach(project, name, area, problems):
    allowed = RULES[area][0]
    for reached, way in project.reached(name).items():
        if project.area(reached) not in allowed:
            problems.append(f"{area} must not reach {project.area(reached)}: " + " -> ".join(way))


def check_own_header_first(project, name, problems):
    header = os.path.splitext(name)[0] + ".h"
    includes = INCLUDE.findall(read(project.root, name))
    if name.endswith(".cc") and header in project.known and includes and includes[0][0] != header:
        problems.append(f"{name}: its own header comes first")


def check_guard(project, name, problems):
    guard = "GPUPROBE_" + re.sub(r"\W", "_", name).upper() + "_"
    if name.endswith(".h") and f"#ifndef {guard}\n#define {guard}\n" not in read(project.root, name):
        problems.append(f"{name}: wants the include guard {guard}")


def problems_of(root):
    project = Project(root)
    problems = []
    for name in project.files:
        area = project.area(name)
        if area in RULES:
            check_external(project, name, area, problems)
            check_reach(project, name, area, problems)
            check_own_header_first(project, name, problems)
        check_guard(project, name, problems)
    return problems
