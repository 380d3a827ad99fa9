# SPDX-License-Identifier: Apache-2.0
import os
import shutil
import tempfile
import unittest

import include_rules

ROOT = os.environ.get("GPUPROBE_TEST_SOURCE_DIR", os.path.join(os.path.dirname(__file__), "../.."))

CLEAN = {
    "ringbuf/ring.h": "#include <atomic>\n#include <sys/mman.h>\n",
    "cupti/api.h": '#include "ringbuf/ring.h"\n',
    "cupti/decode.cc": '#include <cupti.h>\n#include "cupti/api.h"\n',
    "proto/format.h": "#include <cstdint>\n",
    "proto/trace_writer.h": '#include "ringbuf/ring.h"\n',
    "proto/trace_writer.cc": '#include "proto/trace_writer.h"\n#include <zstd.h>\n'
                             '#include "proto/format.h"\n',
    "proto/trace_reader.h": '#include <string>\n#include "absl/status/status.h"\n#include "proto/gpuprobe.pb.h"\n',
    "proto/trace_reader.cc": '#include "proto/trace_reader.h"\n#include <zstd.h>\n#include "proto/format.h"\n',
    "proto/CMakeLists.txt": "gpuprobe_injected_library(gpuprobe_proto_write trace_writer.cc)\n"
                            "gpuprobe_offline_library(gpuprobe_proto_read trace_reader.cc ${_gen}/x.pb.cc)\n",
    "inject/session.cc": '#include "cupti/api.h"\n#include "proto/trace_writer.h"\n',
    "tools/report.cc": '#include <vector>\n#include "absl/flags/flag.h"\n#include "gpuprobe_version.h"\n'
                       '#include "proto/trace_reader.h"\n',
    "tests/cupti/decode_test.cc": '#include <cupti.h>\n#include "cupti/api.h"\n#include "proto/trace_reader.h"\n',
}


class IncludeRulesTest(unittest.TestCase):
    def test_the_project_keeps_them(self):
        problems = include_rules.problems_of(ROOT)
        self.assertEqual(problems, [], "\n" + "\n".join(problems))

    def problems_with(self, changed):
        root = tempfile.mkdtemp(prefix="include-rules-")
        self.addCleanup(shutil.rmtree, root)
        for name, text in {**CLEAN, **changed}.items():
            path = os.path.join(root, name)
            os.makedirs(os.path.dirname(path), exist_ok=True)
            if name.endswith(".h") and "#ifndef" not in text:
                guard = "GPUPROBE_" + name.replace("/", "_").replace(".", "_").upper() + "_"
                text = f"#ifndef {guard}\n#define {guard}\n{text}#endif\n"
            with open(path, "w", encoding="ascii") as file:
                file.write(text)
        return include_rules.problems_of(root)

    def assert_found(self, changed, *words):
        problems = self.problems_with(changed)
        self.assertTrue(problems, "nothing was found")
        for word in words:
            self.assertIn(word, "\n".join(problems))

    def test_clean_tree_has_no_problem(self):
        self.assertEqual(self.problems_with({}), [])

    def test_ring_reaching_out_is_found(self):
        self.assert_found({"ringbuf/pool.cc": '#include "cupti/api.h"\n'}, "ringbuf must not reach cupti")
        self.assert_found({"ringbuf/pool.cc": '#include "absl/base/macros.h"\n'}, "absl/base/macros.h")

    def test_cupti_headers_outside_their_folder_are_found(self):
        for name in ("inject/door.cc", "tools/x.cc", "ringbuf/x.cc", "proto/x.cc"):
            self.assert_found({name: "#include <cupti_activity.h>\n"}, name, "cupti_activity.h")

    def test_reader_that_reaches_the_ring_through_a_shared_header_is_found(self):
        self.assert_found({"proto/format.h": '#include "ringbuf/ring.h"\n'}, "proto read must not reach ringbuf",
                          "proto/trace_reader.cc -> proto/format.h -> ringbuf/ring.h")

    def test_writer_that_reaches_the_reader_is_found(self):
        self.assert_found({"proto/trace_writer.cc": '#include "proto/trace_writer.h"\n#include "absl/status/status.h"\n'},
                          "proto write must not include absl/status/status.h")

    def test_tool_that_reaches_the_library_is_found(self):
        for header in ("ringbuf/ring.h", "cupti/api.h", "proto/trace_writer.h"):
            self.assert_found({"tools/x.cc": f'#include "{header}"\n'}, "tools must not reach")

    def test_product_that_includes_tests_is_found(self):
        self.assert_found({"tests/fake.h": "", "tools/x.cc": '#include "tests/fake.h"\n'}, "tools must not reach tests")

    def test_standard_headers_with_a_runtime_are_found_in_the_library_only(self):
        self.assert_found({"inject/x.cc": "#include <mutex>\n"}, "inject/x.cc: <mutex>")
        self.assertEqual(self.problems_with({"tools/x.cc": "#include <mutex>\n"}), [])

    def test_include_not_from_the_root_is_found(self):
        self.assert_found({"tools/x.cc": '#include "report_parts.h"\n', "tools/report_parts.h": ""},
                          "no file of the project")

    def test_own_header_that_does_not_come_first_is_found(self):
        self.assert_found({"proto/trace_writer.cc": '#include <zstd.h>\n#include "proto/trace_writer.h"\n'},
                          "own header comes first")

    def test_wrong_guard_is_found(self):
        self.assert_found({"proto/format.h": "#ifndef FORMAT_H\n#define FORMAT_H\n#endif\n"},
                          "GPUPROBE_PROTO_FORMAT_H_")


if __name__ == "__main__":
    unittest.main()
