"""The lists of files in the recipes of packages take all that is installed, each file once."""

from __future__ import annotations

import re
from collections.abc import Iterable
from fnmatch import fnmatchcase

import pytest
from conftest import ROOT, Tree

DEBIAN = ROOT / "packaging" / "debian"
SPEC = ROOT / "packaging" / "outrigger.spec"

# Recipes remove the licence, which they have in a place of its own, and build without Slurm and for two ABIs.
LEFT_OUT = {"share/doc/outrigger/LICENSE", "lib/spank_outrigger.so", "lib/liboutrigger-mpiabi.so"}
# In a spec: what stands for a directory below /usr.
MACROS = {
    "%{_bindir}": "bin", "%{_datadir}": "share", "%{_docdir}": "share/doc", "%{_includedir}": "include",
    "%{_libdir}": "lib64", "%{_mandir}": "share/man", "%{_unitdir}": "lib/systemd/system", "%{name}": "outrigger",
}  # fmt: skip


def _debian_lists() -> list[str]:
    """The files below usr that dh_install installs: the first word of each line."""
    lines = [line for file in sorted(DEBIAN.glob("*.install")) for line in file.read_text().splitlines() if line]
    return [line.split()[0].removeprefix("usr/") for line in lines if not line.startswith("#")]


def _spec_lists() -> list[str]:
    """The files listed under %files."""
    lines = [
        line.split()[-1]
        for section in re.split(r"^%files.*$", SPEC.read_text(), flags=re.MULTILINE)[1:]
        for line in section.split("%changelog")[0].splitlines()
        if line and not line.startswith("%license")
    ]
    for macro, directory in MACROS.items():
        lines = [line.replace(macro, directory) for line in lines]
    return lines


def _takes(pattern: str, path: str) -> bool:
    """True if the pattern matches the file, or a directory above it."""
    words, names = pattern.split("/"), path.split("/")
    return len(words) <= len(names) and all(map(fnmatchcase, names, words))


def _as_packaged(path: str, libraries: str) -> str:
    if path.startswith("lib/") and not path.startswith("lib/systemd/"):
        return f"{libraries}/{path.removeprefix('lib/')}"
    return path


def _installed(tree: Tree) -> Iterable[str]:
    found = (path.relative_to(tree.prefix) for path in tree.prefix.rglob("*") if not path.is_dir())
    return (str(path) for path in found if "__pycache__" not in path.parts and str(path) not in LEFT_OUT)


@pytest.mark.parametrize(
    ("patterns", "libraries"), [(_debian_lists(), "lib/x86_64-linux-gnu"), (_spec_lists(), "lib64")], ids=["deb", "rpm"]
)
def test_a_recipe_takes_each_file_once_and_names_none_in_vain(tree: Tree, patterns: list[str], libraries: str) -> None:
    assert len(patterns) > 10
    files = [_as_packaged(path, libraries) for path in _installed(tree)]
    taken = {file: [pattern for pattern in patterns if _takes(pattern, file)] for file in files}
    assert {file: by for file, by in taken.items() if len(by) != 1} == {}
    assert {pattern for pattern in patterns if not any(pattern in by for by in taken.values())} == set()
