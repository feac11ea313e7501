"""Checks what the rooms without I/O need from the outside, on their object files.

The sources of these rooms may include only harmless headers (layers.py); this
looks at what was compiled: every symbol that the core's objects, and whatever
of ours they pull in, leave undefined must be on a list here. A socket, a clock,
a lock, a log or an allocation shows up as an offender, however it got in.
"""

import pathlib
import re
import subprocess
import unittest

ROOMS = ("dataplane/core/", "gradcodec/")

# What any of these objects may call. Patterns match the whole demangled name.
ALLOWED = r"""
    _GLOBAL_OFFSET_TABLE_|_Unwind_Resume|__gxx_personality_v0|__cxa_pure_virtual|__stack_chk_fail
    __u?(div|mod)ti3
    memcmp|memcpy|memmove|memset|sqrt
    XXH64|crc32_iscsi
    vtable for __cxxabiv1::.*
    # Abseil's headers bring in iostream's static initialiser.
    std::ios_base::Init::~?Init\(\)|__cxa_atexit|__dso_handle
"""

# What only the objects that form and dissolve a group may call besides: they
# allocate, and report a configuration they cannot take. That nothing allocates
# later is up to the simulator, which traps it.
ALLOWED_AT_FORMATION = r"""
    operator (new|delete)(\[\])?\(.*\)|aligned_alloc|free
    std::__throw_\w+\(.*\)|__cxa_(begin_catch|end_catch|rethrow)
    std::(__cxx11::)?basic_string<.*
    std::__detail::_Prime_rehash_policy::.*
    absl::.*
"""
FORMATION_OBJECTS = {"arena", "bound_controller", "config", "engine_core", "group", "ledger"}


def patterns(text):
    lines = [line.strip() for line in text.strip().split("\n")]
    return re.compile("|".join(f"(?:{line})" for line in lines if not line.startswith("#")))


def archives():
    here = pathlib.Path.cwd()  # the root of the runfiles
    return sorted(path for path in here.rglob("*.a"))


class Object:
    """One member of an archive: what it defines and what it needs."""

    def __init__(self):
        self.defined = set()
        self.undefined = set()


def read_objects(paths):
    """{(room path of the archive, object file): Object}, names demangled."""
    listing = subprocess.run(["nm", "-A", "-P", "-C", *paths], text=True, check=True, capture_output=True).stdout
    objects = {}
    for line in listing.splitlines():
        match = re.fullmatch(r"(\S+)\[(\S+?)(?:\.pic)?\.o\]: (.+) ([A-Za-z])(?: [0-9a-f]*){0,2}\s*", line)
        assert match, line
        archive, member, symbol, kind = match.groups()
        entry = objects.setdefault((archive, member), Object())
        (entry.undefined if kind in "Uw" else entry.defined).add(symbol)
    return objects


def reachable(objects, roots):
    """The roots and every object that a linker would pull in after them."""
    definer = {symbol: key for key, entry in objects.items() for symbol in entry.defined}
    todo, done = list(roots), set()
    while todo:
        key = todo.pop()
        if key in done:
            continue
        done.add(key)
        todo += [definer[symbol] for symbol in objects[key].undefined if symbol in definer]
    return done, definer


class SymbolsTest(unittest.TestCase):

    def test_the_one_rule_holds_in_object_files(self):
        objects = read_objects([str(path.relative_to(pathlib.Path.cwd())) for path in archives()])
        roots = [key for key in objects if key[0].startswith(ROOMS)]
        self.assertTrue(roots)
        done, definer = reachable(objects, roots)
        allowed, at_formation = patterns(ALLOWED), patterns(ALLOWED_AT_FORMATION)
        offenders = []
        for archive, member in sorted(done):
            for symbol in sorted(objects[archive, member].undefined - definer.keys()):
                if allowed.fullmatch(symbol):
                    continue
                if member in FORMATION_OBJECTS and at_formation.fullmatch(symbol):
                    continue
                offenders.append(f"{archive}[{member}] needs {symbol}")
        self.assertEqual(offenders, [], "\n".join(["", *offenders]))


if __name__ == "__main__":
    unittest.main()
