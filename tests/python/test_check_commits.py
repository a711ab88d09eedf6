"""The check of commits' subjects finds what it is there to find, and leaves old history alone."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "scripts" / "check_commits.py"
LONG = "Add " + "x" * 62


def git(root: Path, *words: str) -> None:
    person = ("-c", "user.name=Somebody", "-c", "user.email=somebody@example.org")
    subprocess.run(["git", "-C", root, *person, *words], check=True, capture_output=True)


def commit(root: Path, *subjects: str) -> None:
    for subject in subjects:
        git(root, "commit", "--allow-empty", "--message", subject)


def check(root: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, SCRIPT, root], capture_output=True, text=True, check=False)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """One in which the check has just been added, after a commit that it would refuse."""
    git(tmp_path, "init", "--initial-branch=main")
    commit(tmp_path, LONG + ".")
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts" / "check_commits.py").touch()
    git(tmp_path, "add", ".")
    commit(tmp_path, "Check the subjects of commits, at a length that is not allowed after this.")
    return tmp_path


def test_older_commits_are_left_alone(repository: Path) -> None:
    done = check(repository)
    assert (done.returncode, done.stdout) == (0, "0 commits, 0 wrong subjects\n")


@pytest.mark.parametrize(("subject", "why"), [(LONG, "66 characters, 65 allowed"), ("Add it.", "ends with a period")])
def test_a_wrong_subject_is_found(repository: Path, subject: str, why: str) -> None:
    commit(repository, LONG[:-1], subject, "Remove it")
    done = check(repository)
    assert (done.returncode, done.stdout) == (1, "3 commits, 1 wrong subjects\n")
    assert f": {why}: {subject}\n" in done.stderr


def test_what_main_has_is_left_alone(repository: Path) -> None:
    commit(repository, LONG)
    git(repository, "update-ref", "refs/remotes/origin/main", "HEAD")
    commit(repository, *(f"Add {number}" for number in range(25)))
    done = check(repository)
    assert (done.returncode, done.stdout) == (0, "25 commits, 0 wrong subjects\n")


def test_without_main_the_last_twenty_count(repository: Path) -> None:
    commit(repository, LONG, *(f"Add {number}" for number in range(20)))
    assert check(repository).returncode == 0


def test_merges_are_left_alone(repository: Path) -> None:
    git(repository, "checkout", "-b", "side")
    commit(repository, "Add it")
    git(repository, "checkout", "main")
    git(repository, "merge", "--no-ff", "--message", LONG, "side")
    assert check(repository).stdout == "1 commits, 0 wrong subjects\n"


def test_without_a_repository_there_is_nothing_to_check(tmp_path: Path) -> None:
    done = check(tmp_path)
    assert (done.returncode, done.stdout) == (0, "0 commits, 0 wrong subjects\n")
