"""Directories that go with the command that made them, or with the next one."""

from __future__ import annotations

import fcntl
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from outrigger import scratch
from outrigger.errors import UserError

PREFIX = f"outrigger-run-{socket.gethostname()}-"

_KILLED = """
import os, signal, sys
from pathlib import Path
from outrigger import scratch
with scratch.directory(Path(sys.argv[1])) as directory:
    (directory / "report.json").write_text("{}")
    print(directory, flush=True)
    os.kill(os.getpid(), signal.SIGKILL)
"""


def left_by_a_killed_command(place: Path) -> Path:
    """The directory of a command that could not remove it."""
    killed = subprocess.run(
        [sys.executable, "-c", _KILLED, str(place)], capture_output=True, text=True, timeout=60, check=False
    )
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    left = Path(killed.stdout.strip())
    assert (left / "report.json").exists()
    return left


def test_a_directory_goes_with_its_command(tmp_path: Path) -> None:
    with scratch.directory(tmp_path) as directory:
        (directory / "report.json").touch()
        assert directory.parent == tmp_path
        assert directory.stat().st_mode & 0o777 == 0o700
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_command_has_left_goes_with_the_next(tmp_path: Path) -> None:
    left = left_by_a_killed_command(tmp_path)
    with scratch.directory(tmp_path) as directory:
        assert list(tmp_path.iterdir()) == [directory]
    assert not left.exists()


def test_what_is_held_stays(tmp_path: Path) -> None:
    with scratch.directory(tmp_path) as mine, scratch.directory(tmp_path) as other:
        scratch.sweep(tmp_path)
        assert sorted(tmp_path.iterdir()) == sorted((mine, other))


def test_what_others_have_put_in_stays(tmp_path: Path) -> None:
    left = left_by_a_killed_command(tmp_path)
    (left / "mine").mkdir()
    scratch.sweep(tmp_path)
    assert [path.name for path in left.iterdir()] == ["mine"]


def test_links_are_not_followed(tmp_path: Path) -> None:
    """Neither one that has the name of a directory of ours, nor one in it."""
    precious = tmp_path / "precious"
    precious.mkdir()
    (precious / "file").touch()
    (tmp_path / f"{PREFIX}link").symlink_to(precious)
    left = left_by_a_killed_command(tmp_path)
    (left / "link").symlink_to(precious)
    scratch.sweep(tmp_path)
    assert not left.exists()
    assert (precious / "file").exists()
    assert (tmp_path / f"{PREFIX}link").is_symlink()


def test_other_names_and_other_hosts_are_left_alone(tmp_path: Path) -> None:
    names = ["outrigger-run-elsewhere-abc", "outrigger-data", "outrigger"]
    for name in names:
        (tmp_path / name).mkdir()
    scratch.sweep(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(names)


def test_without_locks_nothing_is_taken_for_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(_descriptor: int, _operation: int) -> None:
        raise OSError(38, "no locks")

    left = left_by_a_killed_command(tmp_path)
    monkeypatch.setattr(fcntl, "flock", refused)
    with scratch.directory(tmp_path) as directory:
        assert sorted(tmp_path.iterdir()) == sorted((left, directory))
    assert list(tmp_path.iterdir()) == [left]


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    expected = f"cannot make a directory in {tmp_path}/missing: No such file"
    with pytest.raises(UserError, match=expected), scratch.directory(tmp_path / "missing"):
        pass


def test_many_at_once_lose_none(tmp_path: Path) -> None:
    """Each sweeps while others make theirs."""
    code = (
        "import sys\nfrom pathlib import Path\nfrom outrigger import scratch\n"
        "for _ in range(100):\n"
        "    with scratch.directory(Path(sys.argv[1])) as directory:\n"
        "        (directory / 'report.json').touch()\n"
    )
    running = [subprocess.Popen([sys.executable, "-c", code, str(tmp_path)]) for _ in range(3)]
    assert [process.wait(60) for process in running] == [0, 0, 0]
    assert os.listdir(tmp_path) == []
