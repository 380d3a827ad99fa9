# SPDX-License-Identifier: Apache-2.0
"""A process that never initialises CUDA gets nothing and cannot tell that the library is there."""

import os
import shutil
import subprocess
import sys

import host

# Ordinary tools, as a build or a job script starts them by the thousand. What they print must not depend on
# time, process or address.
TOOLS = {
    "true": ["true"],
    "false": ["false"],
    "ls": ["ls", "-la", "/usr/lib"],
    "ls_of_nothing": ["ls", "/nonexistent"],
    "cat": ["cat", "/etc/passwd"],
    "head": ["head", "-c", "100000", "/bin/sh"],
    "tail": ["tail", "-n", "3", "/etc/passwd"],
    "wc": ["wc", "/etc/passwd"],
    "sort": ["sort", "-r", "/etc/passwd"],
    "tr": ["tr", "a-z", "A-Z"],
    "cut": ["cut", "-d:", "-f1", "/etc/passwd"],
    "od": ["od", "-c", "/etc/hostname"],
    "seq": ["seq", "20000"],
    "expr": ["expr", "6", "*", "7"],
    "test": ["test", "-e", "/nonexistent"],
    "dirname": ["dirname", "/a/b/c"],
    "readlink": ["readlink", "-f", "/proc/self/cwd"],
    "uname": ["uname", "-a"],
    "id": ["id"],
    "sha256sum": ["sha256sum", "/bin/sh"],
    "find": ["find", "/etc/ld.so.conf.d"],
    "grep": ["grep", "-c", ":", "/etc/passwd"],
    "grep_without_match": ["grep", "zzzzzz", "/etc/passwd"],
    "sed": ["sed", "s/:.*//", "/etc/passwd"],
    "awk": ["awk", "-F:", "{ n += $3 } END { print n }", "/etc/passwd"],
    "xargs": ["xargs", "echo"],
    "env": ["env", "-i", "/bin/echo", "x"],
    "timeout": ["timeout", "20", "sh", "-c", "exit 5"],
    "tar": ["tar", "-cf", "-", "-C", "/etc", "passwd"],
    "gzip": ["gzip", "-nc", "/etc/passwd"],
    "perl": ["perl", "-e", "print 6*7; exit 9"],
    "git": ["git", "--version"],
    "python": [sys.executable, "-c", "pass"],
    "python_exit": [sys.executable, "-c", "import sys; print('out'); sys.exit('err')"],
    "python_error": [sys.executable, "-c", "1/0"],
    "python_subprocess": [sys.executable, "-c",
                          "import subprocess; subprocess.run(['sh', '-c', 'echo a; exit 3'], check=True)"],
    "bash": ["bash", "-c", "echo x; exit 3"],
    "bash_variables": ["bash", "-c", "X=1; export X; unset HOME; bash -c 'echo $X ${HOME-none}'"],
    "sh_pipeline": ["sh", "-c", "seq 1000 | sort -n | head -3 | tr '\\n' ,; false"],
    "sh_broken_pipe": ["sh", "-c", "yes | head -1; kill -TERM $$"],
    "sh_here_document": ["sh", "-c", "cat <<E\n$(ls /etc/passwd)\nE"],
    "compiler": ["gcc", "-x", "c", "-E", "-P", "-"],
    "make": ["make", "-f", "/dev/null", "-n"],
    "ldconfig": ["ldconfig", "-p"],
    "openssl": ["openssl", "version"],
    "ssh": ["ssh", "-V"],
    "curl": ["curl", "--version"],
    "node": ["node", "-e", "console.log(1); process.exit(4)"],
    "java": ["java", "-version"],
}


class ToolTest(host.ContractTest):
    """One test a tool, added below."""


def _tool_test(command):
    def test(self):
        if shutil.which(command[0]) is None:
            self.skipTest(f"no {command[0]} here")
        _, watched = self.assert_cannot_tell(command, stdin=b"one two\nthree\n")
        self.assertEqual(watched.files, [])
    return test


for _name, _command in TOOLS.items():
    setattr(ToolTest, f"test_{_name}_cannot_tell", _tool_test(_command))


class StateTest(host.ContractTest):
    def lines(self, probe, **more):
        result = self.run_host([host.host("contract_state")], probe, **more)
        self.assertEqual((result.status, result.stderr), (0, b""))
        return result.stdout.decode().splitlines()

    def test_main_starts_in_the_state_that_it_would_have_without_us(self):
        def facts(probe):
            return [line for line in self.lines(probe) if not line.startswith(("map ", "environment "))]
        watched = facts("preload")
        self.assertEqual(watched, facts("none"))
        self.assertIn("threads: 1", watched)
        self.assertEqual(sum(line.startswith("descriptor ") for line in watched), 3)

    def test_ignored_and_blocked_signals_stay_so(self):
        script = ("import os, signal, sys\n"
                  "signal.signal(signal.SIGHUP, signal.SIG_IGN); signal.signal(signal.SIGUSR1, signal.SIG_IGN)\n"
                  "signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGXFSZ})\n"
                  "os.execv(sys.argv[1], sys.argv[1:])\n")
        command = [sys.executable, "-c", script, host.host("contract_state")]

        def facts(probe):
            stdout = self.run_host(command, probe).stdout.decode()
            return [line for line in stdout.splitlines() if line.startswith("signal ")]
        self.assertEqual(facts("preload"), facts("none"))

    def test_nothing_but_the_library_and_libc_is_mapped(self):
        def maps(probe):
            return {line[4:] for line in self.lines(probe) if line.startswith("map ")}
        added = maps("preload") - maps("none")
        libc = {"libdl.so.2", "libpthread.so.0", "libm.so.6", "librt.so.1"}
        self.assertEqual({os.path.basename(path) for path in added} - libc, {"libgpuprobe.so"})

    def test_the_environment_gains_the_second_door_and_the_directory_alone(self):
        def variables(probe):
            return dict(line[12:].split("=", 1) for line in self.lines(probe) if line.startswith("environment "))
        before, after = variables("none"), variables("preload")
        directory = after.pop("GPUPROBE_OUT")
        self.assertTrue(directory.startswith(str(self.root / "run") + "/gpuprobe-"), directory)
        self.assertEqual(after.pop("CUDA_INJECTION64_PATH"), os.path.realpath(host.LIBRARY))
        self.assertEqual(after.pop("LD_PRELOAD"), str(host.LIBRARY))
        self.assertEqual(after, before)

    def test_a_second_door_that_somebody_else_uses_is_left_alone(self):
        lines = self.lines("preload", env={"CUDA_INJECTION64_PATH": "/opt/other/tool.so"})
        self.assertIn("environment CUDA_INJECTION64_PATH=/opt/other/tool.so", lines)

    def test_functions_of_libc_that_the_host_defines_are_not_called_before_main(self):
        _, watched = self.assert_cannot_tell([host.host("contract_own_functions")])
        self.assertEqual(watched.stdout, b"environment=0 memory=0\n")

    def test_an_empty_environment_is_survived(self):
        program = ("import ctypes, os; os.execve('/bin/cat', ['cat', '/proc/self/environ'], {'LD_PRELOAD': %r})"
                   % str(host.LIBRARY))
        result = self.run_host([sys.executable, "-c", program], "none")
        self.assertEqual((result.status, result.stderr), (0, b""))
        self.assertEqual(result.stdout, b"LD_PRELOAD=" + os.fsencode(host.LIBRARY) + b"\0")

    def test_a_working_directory_that_is_gone_is_survived(self):
        script = "mkdir gone && cd gone && rmdir ../gone && /bin/echo still here"
        _, watched = self.assert_cannot_tell(["sh", "-c", script])
        self.assertEqual(watched.stdout, b"still here\n")

    def test_closed_standard_descriptors_stay_closed(self):
        script = "exec 0<&- 1>&- 2>&-; exec %s -c 'import os; os.open(\"new\", os.O_CREAT | os.O_WRONLY); \
open(\"fds\", \"w\").write(str(sorted(map(int, os.listdir(\"/proc/self/fd\")))))'" % sys.executable
        folder = self.folder()
        fds = []
        for probe in ("none", "preload"):
            self.run_host(["sh", "-c", script], probe, folder=folder)
            fds.append((folder / "fds").read_text())
            os.remove(folder / "fds")
        self.assertEqual(fds[0], fds[1])


class PreloadListTest(host.ContractTest):
    """LD_PRELOAD as children get it."""

    def list_of_child(self, preload, children=None):
        env = {"LD_PRELOAD": preload, "GPUPROBE_CHILDREN": children}
        result = self.run_host(["sh", "-c", "printf %s \"$LD_PRELOAD\""], "none", env=env)
        self.assertEqual((result.status, result.stderr), (0, b""))
        return result.stdout.decode()

    def setUp(self):
        super().setUp()
        self.first, self.second = (str(host.HOSTS / f"libcontract_other{n}.so") for n in "12")

    def test_the_list_is_inherited_byte_for_byte(self):
        for preload in (f"{host.LIBRARY}", f"{self.first} {self.second}:{host.LIBRARY}",
                        f"{self.first}:{host.LIBRARY} {self.second}", f":{host.LIBRARY}: "):
            with self.subTest(preload=preload):
                self.assertEqual(self.list_of_child(preload), preload)

    def test_with_children_off_our_entry_is_gone_and_no_other_byte(self):
        a, b, us = self.first, self.second, host.LIBRARY
        for preload, expected in ((f"{us}", ""), (f"{a}:{us}", a), (f"{us}:{a}", a), (f"{us} {a}", a),
                                  (f"{a} {b}:{us}", f"{a} {b}"), (f"{a} {us} {b}", f"{a} {b}"),
                                  (f"{b}:{us}:{a}", f"{b}:{a}"), (f"{b}:{us} {a}", f"{b} {a}"),
                                  (f"{a}  {b}::{us}", f"{a}  {b}"), (f"{us}:{b}:{us}:{a}", f"{b}:{a}")):
            with self.subTest(preload=preload):
                self.assertEqual(self.list_of_child(preload, children="0"), expected)

    def test_with_children_off_the_entry_is_found_below_any_folder(self):
        link = self.folder("elsewhere") / "libgpuprobe.so"
        os.symlink(host.LIBRARY, link)
        self.assertEqual(self.list_of_child(f"{self.first}:{link}", children="0"), self.first)

    def test_children_of_children_get_the_list_too(self):
        script = "sh -c 'bash -c \"printf %s \\\"\\$LD_PRELOAD\\\"\"'"
        result = self.run_host(["sh", "-c", script])
        self.assertEqual(result.stdout, os.fsencode(host.LIBRARY))

    def test_the_directory_of_the_run_is_one_for_the_whole_tree(self):
        script = ("echo $GPUPROBE_OUT; cd /; sh -c 'echo $GPUPROBE_OUT';"
                  "env -u GPUPROBE_OUT sh -c 'echo $GPUPROBE_OUT'")
        lines = self.run_host(["sh", "-c", script]).stdout.decode().split()
        self.assertEqual(lines[0], lines[1])
        # Who takes the variable away begins a run of its own.
        self.assertTrue(lines[2].startswith("/gpuprobe-"), lines)

    def test_a_relative_directory_is_made_absolute_for_children_that_change_theirs(self):
        script = "cd /; sh -c 'echo $GPUPROBE_OUT'"
        result = self.run_host(["sh", "-c", script], env={"GPUPROBE_OUT": "traces/today"})
        self.assertEqual(result.stdout.decode().strip(), str(self.root / "run/traces/today"))


class SanitizedHostTest(host.ContractTest):
    def test_a_host_under_address_sanitizer_starts_and_finds_nothing(self):
        program = host.host("contract_asan_host")
        if not os.path.exists(program):
            self.skipTest("this compiler has no AddressSanitizer")
        runtime = subprocess.run(["gcc", "-print-file-name=libasan.so"], stdout=subprocess.PIPE,
                                 check=False).stdout.decode().strip()
        preload = f"{os.path.realpath(runtime)}:{host.LIBRARY}"
        result = self.run_host([program], "none", env={"LD_PRELOAD": preload})
        self.assertEqual(result.seen, self.run_host([program], "none").seen)
        first = self.run_host([program], "preload", env={"ASAN_OPTIONS": "verify_asan_link_order=0"})
        self.assertEqual(first.seen, result.seen)
