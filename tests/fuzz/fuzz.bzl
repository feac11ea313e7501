"""fuzz_target: one fuzz function, run two ways."""

load("@rules_cc//cc:defs.bzl", "cc_binary", "cc_library", "cc_test")

def fuzz_target(name, deps):
    """A fuzz function for libFuzzer, and over its corpus as an ordinary test.

    NAME.cc defines LLVMFuzzerTestOneInput. `tests/fuzz/run 600 NAME` builds and
    runs it for ten minutes. NAME is ROOM_fuzz; its seeds are the files in
    corpus/ROOM, at least one.

    NAME_test runs the same function over the corpus and thousands of random
    changes of it, with whatever compiler and sanitizer the build uses.

    Args:
      name: of the libFuzzer binary, the source file and the test (NAME_test).
      deps: what the function needs besides fuzz.h.
    """
    corpus = "corpus/" + name[:-len("_fuzz")]
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
        args = ["tests/fuzz/" + corpus],
        data = native.glob([corpus + "/*"]),
        deps = [
            ":" + name + "_function",
            ":replay",
        ],
    )
