# SPDX-License-Identifier: Apache-2.0
"""libgpuprobe.so as the loader sees it, and loading it in places where loading is hard."""

import os
import re
import shutil
import subprocess
import unittest

import host

LIBC_FAMILY = {"libc.so.6", "libm.so.6", "libdl.so.2", "libpthread.so.0", "librt.so.1", "ld-linux-x86-64.so.2"}
OLDEST_GLIBC = (2, 28)
MAX_TLS_BYTES = 64


def readelf(*arguments):
    return subprocess.run(["readelf", "-W", *arguments, str(host.LIBRARY)], check=True,
                          stdout=subprocess.PIPE).stdout.decode()


def dynamic_symbols():
    """(name, binding, section) of every dynamic symbol; the version is cut off."""
    rows = (line.split() for line in readelf("--dyn-syms").splitlines())
    return [(row[7].split("@")[0], row[4], row[6]) for row in rows if len(row) > 7 and row[0][:-1].isdigit()]


@unittest.skipUnless(host.LIBRARY.exists(), "libgpuprobe.so was not built")
class ObjectTest(unittest.TestCase):
    def test_exports_are_the_list_in_the_version_script(self):
        script = (host.SOURCE / "inject/exports.map").read_text()
        script = re.sub(r"#.*", "", script)
        listed = re.findall(r"(\w+);", re.search(r"global:(.*)local:", script, re.DOTALL).group(1))
        exported = [name for name, _, section in dynamic_symbols() if section not in ("UND", "ABS")]
        self.assertEqual(sorted(exported), sorted(listed))
        self.assertIn("InitializeInjection", exported)

    def test_it_needs_the_family_of_libc_alone(self):
        needed = set(re.findall(r"\(NEEDED\)\s+Shared library: \[([^\]]+)\]", readelf("-d")))
        self.assertLessEqual(needed, LIBC_FAMILY)
        self.assertIn("libc.so.6", needed)

    def test_it_names_libdl_and_libpthread_for_glibc_before_2_34(self):
        self.assertIn("[libdl.so.2]", readelf("-d"))
        self.assertIn("[libpthread.so.0]", readelf("-d"))

    def test_no_symbol_version_is_newer_than_glibc_2_28(self):
        found = {tuple(map(int, v.split("."))) for v in re.findall(r"GLIBC_([\d.]+)", readelf("-V"))}
        self.assertTrue(found)
        self.assertLessEqual(max(found)[:2], OLDEST_GLIBC)
        self.assertNotIn("GLIBC_PRIVATE", readelf("-V"))

    def test_nothing_of_the_cxx_runtime_is_wanted(self):
        undefined = [name for name, _, section in dynamic_symbols() if section == "UND"]
        self.assertEqual([n for n in undefined if re.match(r"_Z|__cxa_(?!finalize|atexit)|__gxx_|_Unwind_", n)], [])

    def test_nothing_that_ends_or_interrupts_the_host_is_called(self):
        undefined = {name for name, _, section in dynamic_symbols() if section == "UND"}
        banned = """abort exit _exit _Exit quick_exit __assert_fail raise kill tgkill pthread_kill pthread_cancel
                    pthread_join signal sigaction sigaltstack setitimer timer_create alarm fork vfork system popen
                    execve posix_spawn setlocale chdir umask dup2 printf puts fputs perror getenv setenv putenv unsetenv"""
        banned = set(banned.split())
        self.assertEqual(undefined & banned, set())

    def test_no_code_of_ours_takes_memory_from_the_host_s_allocator(self):
        # zstd's default allocator is in the library too; hosts/memory.cc counts that nobody calls it.
        files = [host.BUILD / name for name in ("ringbuf/libgpuprobe_ringbuf.a", "cupti/libgpuprobe_cupti.a",
                                                "proto/libgpuprobe_proto_write.a", "inject/libgpuprobe_session.a")]
        files += [host.BUILD / "inject/CMakeFiles/gpuprobe.dir" / name
                  for name in ("doors.cc.o", "clients/foreign_client.cc.o")]
        allocating = {"malloc", "calloc", "realloc", "posix_memalign", "aligned_alloc", "memalign", "strdup",
                      "strndup", "fopen", "opendir", "getline", "asprintf", "_Znwm", "_Znam"}
        for file in files:
            wanted = set(subprocess.run(["nm", "-u", "--format=just-symbols", str(file)], check=True,
                                        stdout=subprocess.PIPE).stdout.decode().split())
            self.assertEqual(wanted & allocating, set(), file.name)

    def test_thread_local_storage_is_small_and_dynamic(self):
        sizes = [int(line.split()[5], 16) for line in readelf("-l").splitlines() if line.split()[:1] == ["TLS"]]
        self.assertLessEqual(sum(sizes), MAX_TLS_BYTES)
        self.assertNotIn("STATIC_TLS", readelf("-d"))

    def test_relocations_are_done_at_load_and_sealed(self):
        self.assertIn("GNU_RELRO", readelf("-l"))
        self.assertRegex(readelf("-d"), r"\(FLAGS_1\).*\bNOW\b")

    def test_it_stays_loaded_for_ever(self):
        self.assertRegex(readelf("-d"), r"\(FLAGS_1\).*\bNODELETE\b")

    def test_code_is_never_written_and_the_stack_not_executed(self):
        self.assertNotRegex(readelf("-d"), r"TEXTREL")
        rows = [line.split() for line in readelf("-l").splitlines()]
        segments = [row for row in rows if row[:1] in (["LOAD"], ["GNU_STACK"])]
        self.assertTrue(any(s[0] == "GNU_STACK" for s in segments))
        for segment in segments:
            self.assertFalse("W" in "".join(segment[6:-1]) and "E" in "".join(segment[6:-1]), segment)

    def test_it_has_no_search_path_and_one_name(self):
        self.assertNotRegex(readelf("-d"), r"\((RPATH|RUNPATH)\)")
        self.assertRegex(readelf("-d"), r"\(SONAME\)\s+Library soname: \[libgpuprobe.so\]")


class LoadingTest(host.ContractTest):
    def test_it_loads_late_when_static_tls_is_used_up(self):
        result = self.run_host([host.host("contract_tls"), host.HOSTS / "libcontract_tls.so", host.LIBRARY], "none")
        self.assertEqual(result.stderr, b"")
        self.assertEqual(result.status, 0, result.stdout)
        fields = result.fields()
        self.assertEqual(fields["exhausted"], 1)
        self.assertEqual(fields["door"], 1)

    def test_libraries_with_static_tls_load_after_it_as_before(self):
        command = [host.host("contract_tls"), host.HOSTS / "libcontract_tls.so", host.LIBRARY]
        without, watched = (self.run_host(command, probe).fields() for probe in ("none", "preload"))
        self.assertEqual(watched["loaded"], without["loaded"])

    def test_it_stays_when_the_driver_closes_it(self):
        result = self.run_host([host.host("contract_tls"), "-", host.LIBRARY], "none")
        self.assertEqual((result.status, result.fields().get("stays")), (0, 1), result.stdout)

    def test_it_loads_in_a_namespace_of_its_own_and_deeply_bound(self):
        for mode in ("namespace", "deep"):
            with self.subTest(mode=mode):
                result = self.run_host([host.host("contract_tls"), mode, host.LIBRARY], "none")
                self.assertEqual((result.status, result.stderr, result.fields().get("door")), (0, b"", 1))

    def door_below(self, path):
        """Preloads `path`; the second door that children are told."""
        result = self.run_host(["sh", "-c", "printf %s \"$CUDA_INJECTION64_PATH\""], "none",
                               env={"LD_PRELOAD": str(path)})
        self.assertEqual((result.status, result.stderr), (0, b""))
        return result.stdout.decode()

    def test_a_path_with_blanks_comes_in_through_a_link(self):
        folder = self.folder("my tools (new)")
        shutil.copy(host.LIBRARY, folder)
        link = self.folder("plain") / "libgpuprobe.so"
        os.symlink(folder / "libgpuprobe.so", link)
        self.assertEqual(self.door_below(link), str(folder / "libgpuprobe.so"))

    def test_a_link_to_a_folder_is_followed(self):
        folder = self.folder("opt")
        shutil.copy(host.LIBRARY, folder)
        os.symlink(folder, self.root / "current")
        self.assertEqual(self.door_below(self.root / "current/libgpuprobe.so"), str(folder / "libgpuprobe.so"))

    def test_a_name_alone_is_found_by_the_search_path_of_the_loader(self):
        folder = self.folder("lib")
        shutil.copy(host.LIBRARY, folder)
        result = self.run_host(["sh", "-c", "printf %s \"$CUDA_INJECTION64_PATH\""], "none",
                               env={"LD_PRELOAD": "libgpuprobe.so", "LD_LIBRARY_PATH": str(folder)})
        self.assertEqual(result.stdout.decode(), str(folder / "libgpuprobe.so"))
