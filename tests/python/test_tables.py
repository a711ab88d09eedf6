"""The library's tables as the command has them."""

from __future__ import annotations

from pathlib import Path

import pytest

from outrigger import mpis, settings, tables
from outrigger.artifacts import Artifacts
from outrigger.bench import command
from outrigger.errors import UserError


def test_the_tables_are_there(built: Artifacts) -> None:
    found = tables.read(built)
    assert found is tables.read(built)
    assert [row.name for row in found.collectives] == list(command.COLLECTIVES)
    assert {row.blocking for row in found.collectives} == {name[1:] for name in command.COLLECTIVES}
    assert found.limits.services >= 1


def test_abis_are_known_without_a_build_as_with_one(built: Artifacts) -> None:
    """`outrigger info` finds MPIs before anything is built, so that their library names are here, too."""
    rows = tables.read(built).libraries
    assert {row.abi: set(row.sonames) for row in rows} == {abi: set(names) for abi, names in mpis.SONAMES.items()}
    assert {row.abi: row.title for row in rows} == mpis.ABI_NAMES


def test_the_launcher_sets_nothing_that_is_no_setting(built: Artifacts) -> None:
    names = {value for value in vars(settings).values() if isinstance(value, str) and value.startswith("OUTRIGGER_")}
    assert len(names) > 5 and names <= {row.name for row in tables.read(built).settings}


def test_a_build_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"outriggerd is missing; build it with \./dev build"):
        tables.read(Artifacts(tmp_path))


@pytest.mark.parametrize(
    ("script", "why"),
    [
        ("exit 109", r"older than this command and knows no 'tables'; run \./dev build"),
        ("kill -9 $$", r"outriggerd was ended by signal 9 \(Killed\)"),
    ],
)
def test_an_outriggerd_that_fails_is_named(script: str, why: str, tmp_path: Path) -> None:
    daemon = tmp_path / "bin" / "outriggerd"
    daemon.parent.mkdir()
    daemon.write_text(f"#!/bin/sh\n{script}\n")
    daemon.chmod(0o755)
    with pytest.raises(UserError, match=why):
        tables.read(Artifacts(tmp_path))
