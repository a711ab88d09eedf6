"""Checks the subjects of the branch's commits: at most 65 characters, and no period at the end.

usage: check_commits.py [DIRECTORY]

Checks commits that origin/main does not have, or the last 20 if that branch is unknown. Skips merges, and commits
before the one that added this file. Prints each wrong subject, and exits with 1 if there is one.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

OWN_ROOT = Path(__file__).resolve().parent.parent
OWN_PATH = "scripts/check_commits.py"
MOST_CHARACTERS = 65
MOST_COMMITS = 20


def git(root: Path, *words: str) -> list[str]:
    """The lines that git prints; none on failure."""
    done = subprocess.run(["git", "-C", root, *words], capture_output=True, text=True, check=False)
    return done.stdout.splitlines() if done.returncode == 0 else []


def subjects(root: Path) -> list[str]:
    """Abbreviated hash and subject of each commit to check."""
    added = git(root, "log", "--diff-filter=A", "--format=%H", "--", OWN_PATH)
    if not added:
        return []  # no repository, or the file is not in it yet
    main = git(root, "rev-parse", "--verify", "--quiet", "origin/main")
    limit = [] if main else [f"--max-count={MOST_COMMITS}"]
    return git(root, "log", "--no-merges", "--format=%h %s", *limit, "HEAD", "--not", added[-1], *main)


def problem(subject: str) -> str | None:
    """The rule that a subject breaks."""
    if len(subject) > MOST_CHARACTERS:
        return f"{len(subject)} characters, {MOST_CHARACTERS} allowed"
    return "ends with a period" if subject.endswith(".") else None


def main(arguments: list[str]) -> int:
    looked_at = subjects(Path(arguments[0]) if arguments else OWN_ROOT)
    found = 0
    for line in looked_at:
        commit, _, subject = line.partition(" ")
        if why := problem(subject):
            found += 1
            print(f"{commit}: {why}: {subject}", file=sys.stderr)
    print(f"{len(looked_at)} commits, {found} wrong subjects")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
