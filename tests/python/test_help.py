"""The helps of all commands, as a terminal of 120 columns shows them."""

from __future__ import annotations

import re

import pytest
from typed import typed

from outrigger.cli import COMMANDS

_BELOW_CLUSTER = ("up", "exec", "hostfile", "agent", "status", "link", "kill", "down")
_ALL = [name for name in COMMANDS if name != "lab cluster"] + [f"lab cluster {name}" for name in _BELOW_CLUSTER]
_OPTION = re.compile(r"│ +--?[a-z]")


@pytest.mark.parametrize("words", [[], ["lab"], ["lab", "cluster"]])
def test_each_command_takes_one_line(words: list[str]) -> None:
    said = typed([*words, "--help"])
    lines = [line for line in said.output.splitlines() if line.startswith("│")]
    assert len(lines) > 7 and not any(line.startswith("│     ") for line in lines)


@pytest.mark.parametrize("name", _ALL)
def test_each_option_takes_one_line(name: str) -> None:
    said = typed([*name.split(), "--help"])
    assert said.exit_code == 0, said.output
    panels = said.output[said.output.index("─ Options") :]
    options = [line for line in panels.splitlines() if line.startswith("│")]
    assert options and [line for line in options if not _OPTION.match(line)] == []
