"""Repository rules that make Bazel targets of what Debian has installed."""

_BUILD = """\
load("@optireduce//third_party/system:cc.bzl", "system_cc_library")

# pkg-config {packages}
system_cc_library(
    name = "{name}",
    defines = {defines},
    linkopts = {linkopts},
    system_includes = {includes},
    visibility = ["//visibility:public"],
)
"""

def _pkg_config(ctx, pkg_config, flag):
    result = ctx.execute([pkg_config, flag] + ctx.attr.packages)
    if result.return_code != 0:
        fail("pkg-config {} {}: {}\nInstall the -dev package; ./deploy/test.sh does.".format(
            flag,
            " ".join(ctx.attr.packages),
            result.stderr,
        ))
    return [word for word in result.stdout.strip().split(" ") if word]

def _pkg_config_repository_impl(ctx):
    pkg_config = ctx.which("pkg-config")
    if not pkg_config:
        fail("pkg-config is missing. ./deploy/test.sh installs it.")
    includes = {}
    defines = {}
    copts = []
    follows_include = False
    for word in _pkg_config(ctx, pkg_config, "--cflags"):
        if follows_include:
            copts.append(word)
            follows_include = False
        elif word == "-include":
            copts.append(word)
            follows_include = True
        elif word.startswith("-I"):
            path = str(ctx.path(word[2:]).realpath)
            if path != "/usr/include":
                includes[path] = None
        elif word.startswith("-D"):
            defines[word[2:]] = None
        else:
            copts.append(word)
    ctx.file("BUILD.bazel", _BUILD.format(
        packages = " ".join(ctx.attr.packages),
        name = ctx.name,
        defines = repr(list(defines)),
        linkopts = repr(_pkg_config(ctx, pkg_config, "--libs")),
        includes = repr(list(includes)),
    ))

    # Options that do not travel along dependencies: a target whose sources
    # include such headers (DPDK's) names them in its own copts.
    ctx.file("copts.bzl", "COPTS = {}\n".format(repr(copts)))

pkg_config_repository = repository_rule(
    implementation = _pkg_config_repository_impl,
    attrs = {"packages": attr.string_list(mandatory = True)},
    environ = ["PKG_CONFIG_PATH"],
    local = True,
    configure = True,
)

def _system_library_repository_impl(ctx):
    if not ctx.path("/usr/include/" + ctx.attr.header).exists:
        fail("<{}> is missing. ./deploy/test.sh installs it.".format(ctx.attr.header))
    ctx.file("BUILD.bazel", _BUILD.format(
        packages = "has nothing about it",
        name = ctx.name,
        defines = "[]",
        linkopts = repr(["-l" + library for library in ctx.attr.libraries]),
        includes = "[]",
    ))

# A library that pkg-config does not know.
system_library_repository = repository_rule(
    implementation = _system_library_repository_impl,
    attrs = {
        "header": attr.string(mandatory = True),
        "libraries": attr.string_list(mandatory = True),
    },
    local = True,
    configure = True,
)

def _system_binary_repository_impl(ctx):
    path = ctx.which(ctx.attr.program)
    if not path:
        fail("{} is missing. ./deploy/test.sh installs it.".format(ctx.attr.program))
    ctx.symlink(path, ctx.attr.program)
    ctx.file("BUILD.bazel", """\
filegroup(
    name = "bin",
    srcs = ["{}"],
    visibility = ["//visibility:public"],
)
""".format(ctx.attr.program))

system_binary_repository = repository_rule(
    implementation = _system_binary_repository_impl,
    attrs = {"program": attr.string(mandatory = True)},
    local = True,
    configure = True,
)
