"""Stand-in for rules_proto: the rules that Bazel 4.2 has built in."""

proto_lang_toolchain = native.proto_lang_toolchain
proto_library = native.proto_library
