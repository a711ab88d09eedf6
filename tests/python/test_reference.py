"""docs/using/reference.md: it is what the programs say, and no other page says what they do not."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from outrigger import tables
from outrigger.artifacts import Artifacts

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "using" / "reference.md"
PAGES = [path for path in (ROOT / "README.md", ROOT / "CONTRIBUTING.md", *ROOT.glob("docs/*/*.md")) if path != PAGE]


def test_it_is_up_to_date(built: Artifacts) -> None:
    words = [sys.executable, ROOT / "scripts" / "reference.py", "--build", built.root, "--check"]
    done = subprocess.run(words, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, f"{done.stdout}{done.stderr}"


def test_every_table_is_in_it(built: Artifacts) -> None:
    known, text = tables.read(built), PAGE.read_text(encoding="utf-8")
    rows = (*known.settings, *known.reaches, *known.collectives, *known.conditions)
    assert [row.name for row in rows if f"`{row.name}`" not in text] == []


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_commands_on_other_pages_have_the_options_that_there_are(path: Path) -> None:
    options = set(re.findall(r"--[a-z][a-z-]+", PAGE.read_text(encoding="utf-8")))
    lines = re.findall(r"^    (?:\.venv/bin/)?outrigger (?!run)(.*?)(?: -- |$)", path.read_text("utf-8"), re.MULTILINE)
    runs = re.findall(r"^    (?:\.venv/bin/)?outrigger run (.*?)(?: -- |$)", path.read_text("utf-8"), re.MULTILINE)
    used = {word for line in (*lines, *runs) for word in re.findall(r"(?<!\S)--[a-z][a-z-]+", line.partition("#")[0])}
    assert used - options == set()


def test_people_have_few_variables_to_know(built: Artifacts) -> None:
    assert len([row for row in tables.read(built).settings if not row.internal]) <= 20
