"""Where commands write: told before anything is measured, not after."""

from __future__ import annotations

from pathlib import Path

import pytest
from typed import typed

from outrigger import settings
from outrigger.calibrate import command as calibrating
from outrigger.errors import UserError
from outrigger.out import check_picture, check_place
from outrigger.predict import clusters


@pytest.mark.parametrize(
    ("command", "program"),
    [
        ("bench", ""),
        ("bench fft3d", ""),
        ("bench harm", ""),
        ("lab skew", ""),
        ("lab tune", ""),
        ("lab calibrate", ""),
        ("advise", "prog"),
        ("lab chaos", "prog"),
    ],
)
def test_a_place_that_is_none_is_refused_before_anything_is_measured(
    command: str, program: str, tmp_path: Path
) -> None:
    words = [*command.split(), "--json", str(tmp_path / "none" / "figures.json"), *program.split()]
    found = typed(words)
    assert isinstance(found.exception, UserError)
    assert f"there is no directory {tmp_path / 'none'}" in str(found.exception)


def test_a_directory_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="that is a directory"):
        check_place(tmp_path)


def test_a_place_where_nothing_can_be_written_is_refused() -> None:
    with pytest.raises(UserError, match=r"^/proc/figures: cannot write in /proc: .+; name another place$"):
        check_place(Path("/proc/figures"))
    assert check_place(Path("/dev/null")) == Path("/dev/null")


def test_a_picture_has_an_ending_that_can_be_drawn(tmp_path: Path) -> None:
    assert check_picture(tmp_path / "p.svg") == tmp_path / "p.svg"
    with pytest.raises(UserError, match=r"write .png, .svg or .pdf"):
        check_picture(tmp_path / "p.foo")


def test_every_choice_that_the_help_names_is_taken() -> None:
    assert [settings.parse_choice(one) for one in ("measured", "early", "fixed")] == ["measured", "early", "fixed"]
    with pytest.raises(UserError, match="measured, early, fixed"):
        settings.parse_choice("x")


def test_files_that_are_no_text_are_named(tmp_path: Path) -> None:
    noise = tmp_path / "noise"
    noise.write_bytes(bytes(range(256)))
    with pytest.raises(UserError, match="this is not a text file"):
        clusters.read(noise)
    with pytest.raises(UserError, match="cannot be read"):
        calibrating.read(noise)
    with pytest.raises(UserError, match=r"cannot be read: Is a directory$"):
        clusters.read(tmp_path)
