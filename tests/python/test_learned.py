"""`outrigger cache` reads the files in which the library keeps its choices."""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import datetime
from pathlib import Path

import pytest

from outrigger import learned

TEXT = (
    "outrigger-choices 4\nmachine AMD EPYC, 2 CPUs\nmpi MPICH Version:\t4.0.2\ncores ranks have their own\n"
    "program my solver\n"
    "ialltoall nonblocking 17 4 2 2 1 native 1764300000\nibcast blocking 16 4 2 2 1 node_pull 1764400000\n"
)


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    directory = tmp_path / "outrigger"
    directory.mkdir()
    (directory / "choices-0123456789abcdef.txt").write_text(TEXT)
    os.utime(directory / "choices-0123456789abcdef.txt", (1e9, 1e9))
    (directory / "choices-0123456789abcdef.txt.lock").touch()
    return directory


def command(cache: Path, *words: str) -> str:
    environment = os.environ | {"XDG_CACHE_HOME": str(cache.parent)}
    done = subprocess.run(
        [sys.executable, "-m", "outrigger", "cache", *words],
        env=environment, capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    return done.stdout


@pytest.mark.parametrize(
    ("environment", "place"),
    [
        ({"XDG_CACHE_HOME": "/c", "HOME": "/h"}, Path("/c/outrigger")),
        ({"XDG_CACHE_HOME": "c", "HOME": "/h"}, Path("/h/.cache/outrigger")),
        ({"HOME": "h"}, None),
    ],
)
def test_it_is_where_the_library_keeps_it(environment: dict[str, str], place: Path | None) -> None:
    assert learned.place(environment) == place


@pytest.mark.parametrize(("size", "number"), [(0, 0), (1, 0), (2, 1), (3, 2), (4, 2), (5, 3), (65536, 16), (65537, 17)])
def test_size_classes_are_the_librarys(size: int, number: int) -> None:
    assert learned.size_class(size) == number


def test_files_are_read(cache: Path) -> None:
    (kept,) = learned.read_all(cache)
    assert (kept.machine, kept.mpi, kept.cores) == ("AMD EPYC, 2 CPUs", "MPICH Version:\t4.0.2", "ranks have their own")
    assert kept.program == "my solver"
    assert kept.choices[0] == learned.Choice(
        "ialltoall", "nonblocking", 17, 4, 2, 2, 1, "native", datetime.fromtimestamp(1764300000).astimezone()
    )
    assert kept.changed == datetime.fromtimestamp(1e9).astimezone()


@pytest.mark.parametrize(
    "text",
    [
        "",
        "something",
        TEXT.replace("choices 4", "choices 3"),
        TEXT.replace("program my solver\n", ""),
        TEXT + "ibcast blocking\n",
        TEXT + "ibcast blocking 16 4 2 2 1 native\n",
    ],
)
def test_what_is_something_else_is_said(cache: Path, text: str) -> None:
    (cache / "choices-1.txt").write_text(text)
    assert [each.readable for each in learned.read_all(cache)] == [False, True]
    assert "choices-1.txt" in command(cache) and "not a decision file" in command(cache)


def test_choices_are_listed_with_their_date_and_cleared(cache: Path) -> None:
    (cache / "other.txt").touch()
    text = command(cache)
    for words in (
        "my solver with MPICH 4.0.2 on AMD",
        "AMD EPYC, 2 CPUs",
        "last changed 2001-09-",
        "MPI_Ialltoall",
        "128 KiB",
        "native",
        "2025-11-",
    ):
        assert words in text, words
    assert "MPI_Bcast" in text and "node_pull" in text and "64 KiB" in text
    assert "Removed 1 file in" in command(cache, "--clear")
    assert [path.name for path in cache.iterdir()] == ["other.txt"]
    assert "No run has saved a decision" in command(cache)


def test_orders_of_sums_are_counted_and_cleared(cache: Path) -> None:
    (cache / "sums-1.txt").touch()
    assert "1 file with orders in which MPIs add floating-point numbers." in command(cache)
    assert "Removed 1 file in" in command(cache, "--clear", "my solver")
    assert "1 file with orders" in command(cache)
    assert "Removed 1 file in" in command(cache, "--clear") and not list(cache.iterdir())


def test_a_programs_choices_are_listed_and_cleared_alone(cache: Path) -> None:
    (cache / "choices-1.txt").write_text(TEXT.replace("my solver", "halo.py"))
    (cache / "choices-2.txt").write_text("something")
    text = command(cache, "src/halo.py")
    assert "halo.py with MPICH" in text and "my solver" not in text and "not a decision file" not in text
    assert "No run of other has saved a decision" in command(cache, "other")
    assert "Removed 1 file in" in command(cache, "--clear", "halo.py")
    assert sorted(path.name for path in cache.glob("*.txt")) == ["choices-0123456789abcdef.txt", "choices-2.txt"]
