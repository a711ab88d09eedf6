"""Writes docs/using/reference.md: every variable, option and key, from the tables and the programs that read them."""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import textwrap
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import commands
from outrigger import artifacts, dpufile, hostfile, selection, tables

WIDTH = 120
PAGE = Path(__file__).resolve().parent.parent / "docs" / "using" / "reference.md"
HEAD = """# Reference

Every environment variable, every option of the commands and every key of the files they read. Made by `./dev reference`
from the tables in `src/protocol` and from the programs themselves; `./dev test` fails where it is not up to date.
"""


LANGUAGE = """
* `CALLS` is a collective, its blocking form, or `all`. Without it a rule is for all collectives with the algorithm.
  `OUTRIGGER_BLOCKING` is for blocking forms without a rule.
* `CONDITION` is a letter and a range, `N`, `LOW-`, `LOW-HIGH` or `-HIGH`, both ends included. Bytes may have `K`, `M`
  or `G`.
* `CHOICE` is an algorithm, `native`, `on` or `auto`. For nonblocking forms `on` means always, and `auto` means as if no
  rule fitted. For blocking forms `on` means as the nonblocking form, and `auto` the same if measurements show a gain.
"""


def table(columns: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A Markdown table."""
    lines = [" | ".join(columns), "|".join("---" for _ in columns)]
    lines += [" | ".join(cell.replace("|", "\\|").replace("\n", " ") for cell in row) for row in rows]
    return "\n".join(f"|{line}|" if set(line) <= {"-", "|"} else f"| {line} |" for line in lines)


def code(words: str) -> str:
    return f"`{words}`"


def listed(words: Iterable[str]) -> str:
    return ", ".join(map(code, words))


def prose(text: str) -> str:
    return textwrap.fill(text, WIDTH, break_long_words=False, break_on_hyphens=False)


def section(title: str, *parts: str, level: int = 2) -> str:
    return "\n\n".join([f"{'#' * level} {title}", *(part.strip("\n") for part in parts if part)])


# --- variables and the languages in them ----------------------------------------------------------------------------


def variables(found: tables.Tables) -> str:
    def rows(*, internal: bool) -> Iterator[tuple[str, ...]]:
        for row in found.settings:
            if row.internal == internal:
                yield (code(row.name), row.valid, row.initial, row.meaning, "yes" if row.alike else "")

    columns = ("variable", "values", "unless set", "meaning", "alike on all ranks")
    return section(
        "Environment variables",
        prose(
            "`outrigger run` sets most of them from its options. A job whose ranks differ in one that must be alike is "
            "native and says so; a name that begins with `OUTRIGGER_` and is not here is named in a line."
        ),
        table(columns, rows(internal=False)),
        "Set by `outrigger run` and by tests:",
        table(columns, rows(internal=True)),
    )


def reaches(found: tables.Tables) -> str:
    ways = ((code(row.name), "yes" if row.selectable else "", row.when, row.cost) for row in found.reaches)
    brought = [f"`{row.name}` brings `{row.brings}`" for row in found.reaches if row.brings]
    return section(
        "How memory is reached",
        prose(
            "`OUTRIGGER_REACH` and `--reach` take names with commas between them. Reaches that are named are the only "
            "ones allowed, and `-` in front forbids one. The last of several names for a reach counts; "
            f"{'; '.join(brought)}."
        ),
        table(("reach", "can be named", "when", "cost"), ways),
    )


def rules(found: tables.Tables) -> str:
    served = (
        (code(row.name), code(row.blocking), listed(row.algorithms), "yes" if row.alike else "")
        for row in found.collectives
    )
    conditions = ((code(row.letter), code(row.name), row.meaning) for row in found.conditions)
    example = (selection.__doc__ or "").partition("A rule can be")[2]
    return section(
        "Which algorithm serves what",
        prose(
            f"`OUTRIGGER_ALGORITHM` and `--algorithm` take up to {found.most_rules} rules, with commas between, "
            "`[CALLS{:CONDITION}=]CHOICE`; `--algorithm` also takes files, `FILE.toml`. The first that fits decides."
        ),
        LANGUAGE,
        table(("collective", "blocking form", "algorithms", "bytes may decide"), served),
        table(("letter", "key in a file", "meaning"), conditions),
        f"A rule can be{example}",
    )


# --- files ------------------------------------------------------------------------------------------------------------


def files() -> str:
    return section(
        "Files",
        section("Hostfile", hostfile.__doc__ or "", level=3),
        section("Dpufile", dpufile.__doc__ or "", level=3),
        section(
            "Communicators",
            "The info key `outrigger`, given to `MPI_Comm_dup_with_info`, is `off` or `on` for one communicator.",
            level=3,
        ),
    )


# --- commands ---------------------------------------------------------------------------------------------------------


def _command(command: commands.Command) -> str:
    rows = ((code(option.words), option.initial, option.meaning) for option in command.options)
    title = " ".join(("outrigger", *command.words))
    return section(title, command.meaning, table(("option", "unless given", "meaning"), rows), level=3)


def command_line() -> str:
    return section("The command", *map(_command, commands.commands()))


def daemon(program: Path) -> str:
    def said(*words: str) -> str:
        done = subprocess.run([program, *words, "--help"], capture_output=True, text=True, timeout=60, check=True)
        return done.stdout.replace(str(program), "outriggerd").rstrip()

    whole = said()
    names = re.findall(r"^  ([a-z][a-z-]+) ", whole[whole.index("ubcommands:") :], re.MULTILINE)
    shown = "\n\n".join([whole, *map(said, names)])
    return section("outriggerd", "The library and the launcher start it by themselves.", textwrap.indent(shown, "    "))


def page(found: artifacts.Artifacts) -> str:
    known = tables.read(found)
    parts = (variables(known), reaches(known), rules(known), files(), command_line(), daemon(found.daemon))
    return "\n\n".join([HEAD.rstrip("\n"), *parts]) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=Path, help="build directory (build/release)")
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 where the page differs")
    arguments = parser.parse_args()
    fresh = page(artifacts.find(arguments.build))
    if not arguments.check:
        PAGE.write_text(fresh, encoding="utf-8")
    elif not PAGE.exists() or PAGE.read_text(encoding="utf-8") != fresh:
        print("docs/using/reference.md differs from what the programs say: ./dev reference", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
