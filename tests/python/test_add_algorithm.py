"""CONTRIBUTING.md says how to add an algorithm: its steps are followed in a copy of the files that they name."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
_TEXT = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
INSTRUCTION = _TEXT[_TEXT.index("## Adding an algorithm") : _TEXT.index("## Adding a port")]
_PATHS = re.findall(r"`((?:src|scripts|tests|docs)/[^`\s]+)`", INSTRUCTION)

NAME, COLLECTIVE = "followed", "ibcast"
_PROBE = """
#include <cstdio>
#include "protocol/options/selection.hpp"
int main() {
  using namespace outrigger;
  const Result<SelectionTable> rules = SelectionTable::decode("COLLECTIVE=NAME");
  if (!rules) return std::puts(rules.error().c_str()), 1;
  const Decision decided = rules.value().decide(false, Collective::COLLECTIVE, GroupShape{}, std::nullopt);
  std::puts(std::string(name_of(*decided.algorithm)).c_str());
}
"""


@pytest.mark.parametrize("path", dict.fromkeys(_PATHS))
def test_files_that_it_names_exist(path: str) -> None:
    assert list(ROOT.glob(re.sub(r"<\w+>", "*", path))), path


@pytest.mark.parametrize(
    ("file", "names"),
    [
        ("src/protocol/collective.hpp", ("enum class Algorithm", "kAlgorithms", "kCollectives", "passes_on(")),
        ("src/engine/registry.cpp", ("kBuiltIn",)),
        ("src/protocol/options/selection.cpp", ("kBuiltIn",)),
        ("tests/sim/simulation_test.cpp", ("eager_sends",)),
        ("src/engine/algorithms/alltoall_ring_pull.cpp", ("announce_send_blocks",)),
        ("src/engine/algorithms/alltoall_scatter_dest.cpp", ("announce_receive_blocks",)),
    ],
)
def test_what_it_names_is_in_these_files(file: str, names: tuple[str, ...]) -> None:
    text = (ROOT / file).read_text(encoding="utf-8")
    for name in names:
        assert name in text, f"{file}: {name}"
        assert name.removeprefix("enum class ").rstrip("(") in INSTRUCTION, name


class Copy:
    """A copy of the files that the steps change."""

    def __init__(self, place: Path) -> None:
        self.src = place / "src"

    def edit(self, name: str, pattern: str, replacement: str) -> Path:
        """Makes one change."""
        path = self.src / name
        path.parent.mkdir(parents=True, exist_ok=True)
        if not path.exists():
            shutil.copy(ROOT / "src" / name, path)
        text, count = re.subn(pattern, replacement, path.read_text(encoding="utf-8"), count=1, flags=re.DOTALL)
        assert count == 1, f"{name}: {pattern}"
        path.write_text(text, encoding="utf-8")
        return path

    def compile(self, *words: str | Path) -> None:
        """With the copies in front of the sources."""
        command = ["c++", "-std=c++20", "-Wall", "-Werror", "-I", self.src, "-I", ROOT / "src", *words]
        done = subprocess.run(
            [str(word) for word in command], capture_output=True, text=True, timeout=600, check=False
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-4000:]


@pytest.mark.skipif(shutil.which("c++") is None, reason="there is no compiler")
def test_who_follows_it_can_name_the_algorithm(tmp_path: Path) -> None:
    copy = Copy(tmp_path)
    # 1. Name it: number, row, collective.
    header = "protocol/collective.hpp"
    numbers = re.search(r"enum class Algorithm .*?\};", (ROOT / "src" / header).read_text(), re.DOTALL)
    assert numbers is not None
    last = max(int(number) for number in re.findall(r"= (\d+)", numbers[0]))
    copy.edit(header, r"(enum class Algorithm .*?)\};", rf"\1  {NAME} = {last + 1},\n}};")
    copy.edit(header, r"(kAlgorithms\{.*?)\};", rf'\1    AlgorithmName{{Algorithm::{NAME}, "{NAME}"}},\n}};')
    copy.edit(header, r"(kBroadcasts\{[^}]*), Algorithm::(\w+)\};", rf"\1, Algorithm::{NAME}}};")
    # 2. Write it, from the closest example.
    copy.edit("engine/algorithms/bcast_flat.cpp", r"Task bcast_flat", f"Task bcast_{NAME}")
    written = copy.src / f"engine/algorithms/bcast_{NAME}.cpp"
    (copy.src / "engine/algorithms/bcast_flat.cpp").rename(written)
    # 3. Register it.
    copy.edit("engine/registry.hpp", r"(Task bcast_)flat(\(.*?\);\n)", rf"\1flat\2\1{NAME}\2")
    row = f"BuiltIn{{Collective::{COLLECTIVE}, Algorithm::{NAME}, bcast_{NAME}}},"
    registry = copy.edit("engine/registry.cpp", r"(kBuiltIn\{.*?)\n\};", rf"\1\n    {row}\n}};")
    copy.compile("-fsyntax-only", registry, written)
    # 4. Choose it: what reads rules, for the library, outriggerd and outrigger-sim, is made of these tables.
    probe = tmp_path / "probe.cpp"
    probe.write_text(_PROBE.replace("COLLECTIVE", COLLECTIVE).replace("NAME", NAME), encoding="utf-8")
    copy.compile(probe, ROOT / "src/protocol/options/selection.cpp", "-o", tmp_path / "probe")
    assert subprocess.check_output([tmp_path / "probe"], text=True, timeout=60).strip() == NAME
