"""--algorithm: words, files, and what is said about bad ones."""

from pathlib import Path

import pytest

from outrigger import selection
from outrigger.artifacts import Artifacts
from outrigger.errors import UserError

TABLE = """
[[rule]]
collective = ["iallgather", "iallgatherv"]
nodes = "2-"
services = 2
algorithm = "hierarchical"

[[rule]]
collective = "ibcast"
bytes = "-64K"
ranks = "2 - 8"
algorithm = "native"

[[rule]]
algorithm = "scatter_dest"
"""
WORDS = (
    "iallgather:n2-:s2=hierarchical",
    "iallgatherv:n2-:s2=hierarchical",
    "ibcast:r2-8:b0-65536=native",
    "scatter_dest",
)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "table.toml"
    path.write_text(TABLE)
    return path


def test_a_file_becomes_words(table: Path, built: Artifacts) -> None:
    assert selection.words(built, [str(table)]) == WORDS


def test_words_are_kept(built: Artifacts) -> None:
    assert selection.words(built, [",".join(WORDS)]) == WORDS
    assert selection.words(built, ["node_pull"]) == ("node_pull",)


def test_a_later_option_goes_first(table: Path, built: Artifacts) -> None:
    chosen = selection.words(built, [str(table), "ibcast=flat,native", "ialltoall=ring_pull"])
    assert chosen == ("ialltoall=ring_pull", "ibcast=flat", "native", *WORDS)


def test_a_rule_for_all_may_have_conditions(tmp_path: Path, built: Artifacts) -> None:
    path = tmp_path / "table.toml"
    path.write_text('[[rule]]\nalgorithm = "native"\nbytes = "-4K"\n')
    assert selection.words(built, [str(path)]) == ("all:b0-4096=native",)


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("x", "there is no such algorithm as 'x'; there are ialltoall=ring_pull or "),
        ("x=flat", "there is no such collective as 'x'; there are ialltoall, "),
        ("ialltoall=flat", "the collective has no such algorithm; there are ialltoall="),
        ("flat,", "'' is not one rule"),
        ("ibcast:q1=flat", "a condition begins with r, n, p, s, b or w"),
        ("ibcast:r1:r2=flat", "'r' is given twice"),
        ("ibcast:r=flat", "after 'r' write N, LOW-, LOW-HIGH or -HIGH, not ''"),
        ("ibcast:r4K=flat", "after 'r' write N, .*, not '4K'"),
        ("ibcast:r4-2=flat", "after 'r' write N, .*, not '4-2'"),
        ("ibcast:r0-=flat", "'r0-' always holds"),
        ("iallgatherv:b8-=flat", "bytes differ between the ranks of iallgatherv, so they cannot decide"),
    ],
)
def test_bad_words(built: Artifacts, word: str, message: str) -> None:
    with pytest.raises(UserError, match=message) as raised:
        selection.words(built, [word])
    assert f"--algorithm {word}" in str(raised.value)


GOOD = '[[rule]]\nalgorithm = "flat"\n'


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[[rule]\n", "not TOML: "),
        ("", "there are no rules"),
        ("[[rules]]\nalgorithm = 1\n", "'rules' is not known"),
        ("rule = 3\n", "there are no rules; write rules, each as a table"),
        (GOOD + "[[rule]]\n", "rule 2: algorithm: write a name, or native"),
        ('[[rule]]\nalgorithm = "flat"\nnode = 2\n', "rule 1: node: no such field; there are collective, algorithm, "),
        ('[[rule]]\nalgorithm = "flat"\ncollective = 3\n', "rule 1: collective: write a name or a list of names"),
        (
            '[[rule]]\nalgorithm = "flat"\ncollective = "ialltoallx"\n',
            "rule 1: .* there is no such collective as 'ialltoallx'",
        ),
        ('[[rule]]\nalgorithm = "flat"\nranks = true\n', "rule 1: ranks: write a number or a text"),
        ('[[rule]]\nalgorithm = "flat"\nranks = -1\n', "rule 1: ranks: -1 is out of range"),
        ('[[rule]]\nalgorithm = "flat"\nranks = "-"\n', "rule 1: .*after 'r' write .*, not '-'"),
        ('[[rule]]\nalgorithm = "flat"\nnodes = "2K-"\n', "rule 1: .*after 'n' write .*, not '2K-'"),
        ('[[rule]]\nalgorithm = "flat"\nbytes = "2X-"\n', "rule 1: .*after 'b' write .*, not '2X-'"),
        (GOOD + '[[rule]]\nalgorithm = "native"\ncollective = "ibcast"\n', "rule 2: never used for ibcast"),
    ],
)
def test_bad_files(tmp_path: Path, built: Artifacts, text: str, message: str) -> None:
    path = tmp_path / "table.toml"
    path.write_text(text)
    with pytest.raises(UserError, match=message) as raised:
        selection.words(built, [str(path)])
    assert str(raised.value).startswith(f"--algorithm {path}: ")


def test_a_file_that_is_not_there(tmp_path: Path, built: Artifacts) -> None:
    with pytest.raises(UserError, match="No such file"):
        selection.words(built, [str(tmp_path / "table.toml")])


def test_too_many_rules(built: Artifacts) -> None:
    with pytest.raises(UserError, match="257 rules; at most 256"):
        selection.words(built, [",".join(["flat"] * 200), ",".join(["flat"] * 57)])
