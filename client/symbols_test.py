"""The shared library exports the calls of its header, versioned, and nothing
else; it needs only what every Debian 12 has."""

import pathlib
import re
import subprocess
import unittest

HERE = pathlib.Path(__file__).parent
LIBRARY = HERE / "liboptireduce.so.0"


def output_of(*command):
    return subprocess.run(
        command, check=True, capture_output=True, text=True
    ).stdout


class SymbolsTest(unittest.TestCase):
    def test_exports_are_the_header(self):
        header = (HERE / "optireduce.h").read_text()
        code = re.sub(r"/\*.*?\*/", "", header, flags=re.DOTALL)
        declared = set(re.findall(r"\b(or_[a-z_]+)\(", code))
        exported = set()
        for line in output_of("nm", "-D", "--defined-only", LIBRARY).splitlines():
            name = line.split()[-1]
            if name == "OPTIREDUCE_0":
                continue
            self.assertTrue(name.endswith("@@OPTIREDUCE_0"), name)
            exported.add(name.removesuffix("@@OPTIREDUCE_0"))
        self.assertEqual(exported, declared)

    def test_needs_little(self):
        dynamic = output_of("readelf", "-d", LIBRARY)
        needed = set(re.findall(r"\(NEEDED\).*\[(.*)\]", dynamic))
        allowed = r"lib(c|m|gcc_s|stdc\+\+|protobuf-lite)\.so\.\d+|ld-linux.*"
        for name in needed:
            # The sanitizers' own libraries are no part of what is shipped.
            if re.fullmatch(r"lib[atu]b?san\.so\.\d+", name):
                continue
            self.assertRegex(name, f"^({allowed})$")
        self.assertIn("[liboptireduce.so.0]", dynamic)

    def test_pkg_config_knows_the_version(self):
        header = (HERE / "optireduce.h").read_text()
        version = ".".join(re.findall(r"define OR_VERSION_\w+ (\d+)", header))
        pc = str(HERE / "optireduce.pc")
        self.assertEqual(output_of("pkg-config", "--modversion", pc).strip(), version)
        self.assertIn("-loptireduce", output_of("pkg-config", "--libs", pc))


if __name__ == "__main__":
    unittest.main()
