"""Every library the project takes from Debian, one line each."""

load("//third_party/system:pkg_config.bzl", "pkg_config_repository", "system_binary_repository", "system_library_repository")

# Repository name -> pkg-config modules. `@name` is the C++ target.
_PACKAGES = {
    "absl_status": ["absl_status", "absl_statusor"],
    "absl_strings": ["absl_strings", "absl_str_format"],
    "benchmark": ["benchmark"],
    "dpdk": ["libdpdk"],
    "gflags": ["gflags"],
    "glog": ["libglog"],
    "gmock": ["gmock"],
    "gtest": ["gtest"],
    "gtest_main": ["gtest_main"],
    "isal": ["libisal"],
    "nlohmann_json": ["nlohmann_json"],
    "protobuf": ["protobuf"],
    "protobuf_lite": ["protobuf-lite"],
    "systemd": ["libsystemd"],
    "xxhash": ["libxxhash"],
}

def system_packages():
    for name, modules in _PACKAGES.items():
        pkg_config_repository(name = name, packages = modules)

    # Debian's package has no .pc file.
    system_library_repository(name = "gloo", header = "gloo/allreduce.h", libraries = ["gloo"])
    system_binary_repository(name = "protoc_bin", program = "protoc")
