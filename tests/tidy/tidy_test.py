"""The checkers find what they are for, and let good files pass."""

import unittest

import build_format
import coverage
import layers
import words


def found(offences):
    return [text for _, text in offences]


class BuildFormatTest(unittest.TestCase):
    GOOD = """load("@rules_cc//cc:defs.bzl", "cc_library")

cc_library(
    name = "a",
    srcs = ["a.cc"],
    deps = [
        ":b",
        "//proto:wire",
        "@gtest",
    ],
)
"""

    def test_good_file(self):
        self.assertEqual(found(build_format.offences(self.GOOD)), [])

    def test_each_offence(self):
        for old, new, words_of in [
            ("    name", "\tname", "tab"),
            ('"a.cc"],', '"a.cc"], ', "end of the line"),
            ('["a.cc"]', "['a.cc']", "single quotes"),
            ('"@gtest",', '"@gtest"', "no comma"),
            ("    srcs", "  srcs", "multiple of 4"),
            ('        "//proto:wire",\n        "@gtest",', '        "@gtest",\n        "//proto:wire",', "belongs before"),
            ('["a.cc"]', '["a.cc", "b.cc"]', "more than one entry"),
            ('    name = "a",\n    srcs = ["a.cc"],', '    srcs = ["a.cc"],\n    name = "a",', "name is not the first"),
        ]:
            text = self.GOOD.replace(old, new, 1)
            self.assertTrue(any(words_of in w for w in found(build_format.offences(text))), (new, words_of))

    def test_comment_begins_a_new_sorted_run(self):
        text = self.GOOD.replace('        "@gtest",', '        # for tests\n        "//a",')
        self.assertEqual(found(build_format.offences(text)), [])


class LayersTest(unittest.TestCase):

    def test_downward_is_right_and_upward_is_wrong(self):
        include = '#include "dataplane/core/config.h"\n'
        self.assertEqual(found(layers.offences("dataplane/engine/e.cc", include)), [])
        self.assertEqual(found(layers.offences("dataplane/core/e.cc", include)), [])
        self.assertEqual(len(found(layers.offences("dataplane/nic/e.cc", include))), 1)
        self.assertEqual(len(found(layers.offences("proto/e.h", include))), 1)
        self.assertEqual(len(found(layers.offences("client/e.h", include))), 1)

    def test_labels(self):
        label = '    deps = ["//dataplane/engine:engine"],\n'
        self.assertEqual(found(layers.offences("control/BUILD.bazel", label)), [])
        self.assertEqual(len(found(layers.offences("dataplane/core/BUILD.bazel", label))), 1)
        short = '    deps = ["//dataplane/engine"],\n'
        self.assertEqual(len(found(layers.offences("dataplane/core/BUILD.bazel", short))), 1)
        visible = '    default_visibility = ["//control:__subpackages__"],\n'
        self.assertEqual(found(layers.offences("dataplane/core/BUILD.bazel", visible)), [])

    def test_the_one_rule(self):
        for header in ("rte_mbuf.h", "sys/socket.h", "thread", "mutex", "chrono", "glog/logging.h", "cstdlib", "time.h"):
            line = f"#include <{header}>\n"
            self.assertEqual(len(found(layers.offences("dataplane/core/e.cc", line))), 1, header)
            self.assertEqual(found(layers.offences("dataplane/core/e_test.cc", line)), [])
            self.assertEqual(found(layers.offences("dataplane/engine/e.cc", line)), [])
        self.assertEqual(found(layers.offences("dataplane/core/e.cc", "#include <cstdint>\n")), [])


class CoverageTest(unittest.TestCase):

    def test_lines_are_added_up_by_room_without_tests(self):
        report = "\n".join([
            "SF:proto/wire.cc", "DA:1,5", "DA:2,0", "DA:3,1", "end_of_record",
            "SF:proto/wire.h", "DA:9,0", "end_of_record",
            "SF:proto/wire_test.cc", "DA:1,1", "end_of_record",
            "SF:gradcodec/half.h", "DA:7,1", "end_of_record",
        ])
        self.assertEqual(dict(coverage.lines_by_room(report)), {"proto": [2, 4], "gradcodec": [1, 1]})


class WordsTest(unittest.TestCase):

    def test_offences(self):
        for line in ("// TO" "DO: later", "# FIX" "ME", "cd /ho" "me/ann/x", "see ../sha" "red/a", "/ro" "ot/.cache"):
            self.assertEqual(len(found(words.offences(line))), 1, line)
        for line in ("todo list", "$HOME/x", "./root/x", "a/home/b", "network/a"):
            self.assertEqual(found(words.offences(line)), [], line)


if __name__ == "__main__":
    unittest.main()
