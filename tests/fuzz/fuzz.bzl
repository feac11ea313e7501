"""fuzz_target: one fuzz function, run two ways."""

load("@rules_cc//cc:defs.bzl", "cc_binary", "cc_library", "cc_test")

def fuzz_target(name, corpus, deps):
    """A fuzz function for libFuzzer, and over its corpus as an ordinary test.

    NAME.cc defines LLVMFuzzerTestOneInput.

        bazel build --config=fuzz //tests/fuzz:NAME
        bazel-bin/tests/fuzz/NAME -max_total_time=600 tests/fuzz/corpus/CORPUS

    NAME_test runs the same function over the corpus and thousands of random
    changes of it, with whatever compiler and sanitizer the build uses.

    Args:
      name: of the libFuzzer binary, the source file and the test (NAME_test).
      corpus: folder in tests/fuzz/corpus with at least one file.
      deps: what the function needs besides fuzz.h.
    """
    cc_library(
        name = name + "_function",
        testonly = True,
        srcs = [name + ".cc"],
        deps = [":fuzz"] + deps,
        alwayslink = True,
    )
    cc_binary(
        name = name,
        testonly = True,
        linkopts = ["-fsanitize=fuzzer"],
        tags = ["manual"],
        deps = [":" + name + "_function"],
    )
    cc_test(
        name = name + "_test",
        size = "small",
        args = ["tests/fuzz/corpus/" + corpus],
        data = native.glob(["corpus/{}/*".format(corpus)]),
        deps = [
            ":" + name + "_function",
            ":replay",
        ],
    )
