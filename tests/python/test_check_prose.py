"""The check of prose finds what it is there to find, and nothing else."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "scripts" / "check_prose.py"
WORDS_25 = "The keeper " + "reads one more heartbeat and " * 4 + "then it ends."


def run(root: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, SCRIPT, "--root", root, *words], cwd=root, capture_output=True, text=True, check=False
    )


def write(root: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def places(root: Path, name: str, text: str) -> list[str]:
    write(root, {name: text})
    found = run(root, name)
    assert found.returncode == 0, found.stderr
    return found.stdout.splitlines()


@pytest.mark.parametrize(
    ("name", "text", "place"),
    [
        ("docs/page.md", "# Title\n\nWhat pays is here.\n", "3: opening: What pays is here."),
        ("docs/page.md", "It runs. Of these there are none.\n", "1: opening: Of these there are none."),
        ("docs/page.md", "* one\n* By what it is seen\n", "2: opening: By what it is seen"),
        ("docs/page.md", f"It runs.\n\n{WORDS_25[:-1]} now.\n", "3: 26 words: The keeper reads"),
        ("src/a.hpp", "int a;  // whom it asks. Whom it asks\n", "1: opening: Whom it asks"),
        ("src/a.cpp", "// A rank that\n// nobody serves.\n", "1: word: A rank that nobody serves."),
        ("scripts/a.sh", "# Whether it runs.\n", "1: opening: Whether it runs."),
        ("python/a.py", '"""It runs.\n\nWho calls it."""\n', "3: opening: Who calls it."),
        ("python/a.py", 'def f() -> int:\n    """It runs.\n\n    Whose it is.\n    """\n', "4: opening: Whose it is."),
    ],
)
def test_a_sentence_that_breaks_a_rule_is_found(tmp_path: Path, name: str, text: str, place: str) -> None:
    (found,) = places(tmp_path, name, text)
    assert found.startswith(f"{name}:{place}")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("docs/page.md", f"{WORDS_25} {WORDS_25}\n"),
        ("docs/page.md", "# What it costs\n\n| Who | Whose |\n\n    Whether it runs\n\n```\nWho runs\n```\n"),
        ("docs/page.md", "Of course it runs. `Who` runs, and the rank that it serves runs. It lists `nobody`.\n"),
        ("src/a.cpp", f"// {WORDS_25[:-1]} now, and what is more, it runs.\n"),
        ("src/a.cpp", 'const char* text = "Who runs";\n'),
        ("src/a.cpp", "// rank ──▶ nobody\n"),
        ("python/a.py", 'text = """Who runs."""\n'),
    ],
)
def test_other_sentences_are_not(tmp_path: Path, name: str, text: str) -> None:
    assert places(tmp_path, name, text) == []


def test_counts_may_only_get_smaller(tmp_path: Path) -> None:
    two = "Who runs.\n\nWhose it is.\n"
    write(
        tmp_path,
        {"docs/a.md": two, "docs/b.md": two, "scripts/prose.txt": "# counts\n   1 docs/a.md\n   3 docs/b.md\n"},
    )
    found = run(tmp_path)
    assert found.returncode == 1
    assert "docs/a.md: 2 places, 1 allowed" in found.stdout
    assert "docs/b.md: 2 places, 3 allowed: lower that" in found.stdout
    assert run(tmp_path, "--lower").returncode == 0
    assert run(tmp_path).stdout == (
        "docs/a.md: 2 places, 1 allowed: `scripts/check_prose.py docs/a.md` prints them\n"
        "4 places, 1 files differ from the list\n"
    )


def test_a_new_file_has_none(tmp_path: Path) -> None:
    write(tmp_path, {"docs/a.md": "It runs.\n", "scripts/prose.txt": ""})
    assert run(tmp_path).returncode == 0
    write(tmp_path, {"docs/b.md": "Who runs.\n"})
    assert "docs/b.md: 1 places, 0 allowed" in run(tmp_path).stdout
    assert run(tmp_path, "--lower").returncode == 0
    assert run(tmp_path).returncode == 1


def test_a_first_list_allows_what_there_is(tmp_path: Path) -> None:
    write(tmp_path, {"docs/a.md": "Who runs.\n", "scripts/a.py": ""})
    assert run(tmp_path, "--lower").returncode == 0
    assert "   1 docs/a.md\n" in (tmp_path / "scripts" / "prose.txt").read_text()
    assert run(tmp_path).returncode == 0
