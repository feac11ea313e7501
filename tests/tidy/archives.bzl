"""The static archives behind C++ libraries, for a look at their symbols."""

def _archives_impl(ctx):
    found = []
    for dep in ctx.attr.deps:
        for input in dep[CcInfo].linking_context.linker_inputs.to_list():
            for library in input.libraries:
                archive = library.pic_static_library or library.static_library
                if archive:
                    found.append(archive)
    return [DefaultInfo(files = depset(found), runfiles = ctx.runfiles(found))]

archives = rule(
    implementation = _archives_impl,
    attrs = {"deps": attr.label_list(providers = [CcInfo])},
    doc = "The .a files of the libraries in deps and of all of ours that they use.",
)
