"""Writes an installation's pages about commands: manual pages, completions, the required Python packages.

All of it comes from the programs' own help.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Sequence
from pathlib import Path

import commands
import completions
from outrigger import __version__

_PROJECT = Path(__file__).resolve().parent.parent / "pyproject.toml"


def _roff(text: str) -> str:
    """Text for troff: `code` is bold; all other characters are escaped."""
    plain = text.replace("\\", "\\e").replace("-", "\\-").replace("'", "\\(aq")
    marked = re.sub(r"`([^`]*)`", r"\\fB\1\\fP", plain)
    return re.sub(r"^\.", r"\\&.", marked, flags=re.MULTILINE)


def _page(name: str, number: int, title: str, *sections: tuple[str, str]) -> str:
    head = f'.TH {name.upper().replace(" ", "-")} {number} "" "Outrigger {__version__}" "Outrigger"'
    named = f".SH NAME\n{_roff(name.replace(' ', '-'))} \\- {_roff(title)}"
    rest = (f".SH {heading}\n{body}" for heading, body in sections if body)
    return "\n".join((head, named, *rest)) + "\n"


def _as_title(text: str) -> str:
    """A sentence as the line of NAME, without a full stop."""
    first = text.rstrip(".")
    return first[:1].lower() + first[1:]


def _items(rows: Iterable[tuple[str, str]]) -> str:
    return "\n".join(f".TP\n\\fB{_roff(words)}\\fP\n{_roff(meaning) or '.br'}" for words, meaning in rows)


def _paragraphs(text: str) -> str:
    """Paragraphs of a docstring; indented lines are examples."""
    shown = []
    for paragraph in text.split("\n\n"):
        lines = paragraph.splitlines()
        if all(line.startswith("    ") for line in lines):
            shown.append(".nf\n" + "\n".join("    " + _roff(line.strip()) for line in lines) + "\n.fi")
        else:
            shown.append(_roff(paragraph))
    return "\n.PP\n".join(shown)


def _meaning(option: commands.Option) -> str:
    return f"{option.meaning} Unless given: {option.initial}." if option.initial else option.meaning


def _rows(command: commands.Command, *, arguments: bool) -> str:
    return _items((each.words, _meaning(each)) for each in command.options if bool(each.names) != arguments)


def _synopsis(words: Sequence[str], command: commands.Command) -> str:
    arguments = " ".join(each.value for each in command.options if not each.names)
    return f"\\fB{_roff(' '.join(words))}\\fP [\\fIoptions\\fP] \\fI{_roff(arguments)}\\fP"


def _command_page(command: commands.Command, others: Sequence[str]) -> tuple[str, str]:
    words = ("outrigger", *command.words)
    name = " ".join(words)
    text = _page(
        name,
        1,
        _as_title(command.summary),
        ("SYNOPSIS", _synopsis(words, command)),
        ("DESCRIPTION", _paragraphs(command.meaning)),
        ("ARGUMENTS", _rows(command, arguments=True)),
        ("OPTIONS", _rows(command, arguments=False)),
        ("SEE ALSO", ", ".join(f"\\fB{_roff(other)}\\fP(1)" for other in others)),
    )
    return f"{name.replace(' ', '-')}.1", text


def _overview(known: Sequence[commands.Command]) -> str:
    rows = [(" ".join(("outrigger", *each.words)), each.summary) for each in known]
    return _page(
        "outrigger",
        1,
        "runs MPI programs with their collectives on service processes",
        ("SYNOPSIS", "\\fBoutrigger\\fP \\fIcommand\\fP [\\fIoptions\\fP]"),
        ("DESCRIPTION", _roff(commands.about())),
        ("COMMANDS", _items(rows)),
        ("EXAMPLES", ".nf\n" + _roff("outrigger run -n 4 -- ./prog\noutrigger info") + "\n.fi"),
        ("SEE ALSO", "\\fBoutriggerd\\fP(8), \\fBoutrigger\\-sim\\fP(1)"),
    )


def command_pages() -> dict[str, str]:
    """The pages of `outrigger`, by file."""
    known = commands.commands()
    pages = {"outrigger.1": _overview(known)}
    for command in known:
        name, text = _command_page(command, ["outrigger"])
        pages[name] = text
    return pages


def _said(program: Path, name: str, *words: str) -> str:
    done = subprocess.run([program, *words, "--help"], capture_output=True, text=True, timeout=60, check=True)
    return done.stdout.replace(str(program), name).strip("\n")


def program_page(program: Path, number: int, title: str) -> str:
    """The page of a C++ program, from its printed help."""
    whole = _said(program, program.name)
    _, found, behind = whole.partition("ubcommands:")
    names = re.findall(r"^  ([a-z][a-z-]+) ", behind, re.MULTILINE) if found else []
    verbatim = [(f"COMMAND {name.upper()}", _said(program, program.name, name)) for name in names]
    shown = ((heading, f".nf\n{_roff(text)}\n.fi") for heading, text in [("DESCRIPTION", whole), *verbatim])
    return _page(program.name, number, title, *shown, ("SEE ALSO", "\\fBoutrigger\\fP(1)"))


def requirements() -> str:
    """The command line's requirements, for pip."""
    with _PROJECT.open("rb") as file:
        needed: list[str] = tomllib.load(file)["project"]["dependencies"]
    return "\n".join(needed) + "\n"


def _write(files: dict[Path, str]) -> None:
    for path, text in files.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, required=True, help="directory")
    parser.add_argument("--daemon", type=Path, required=True, help="outriggerd")
    parser.add_argument("--sim", type=Path, required=True, help="outrigger-sim")
    arguments = parser.parse_args()
    out: Path = arguments.out
    pages = {f"man1/{name}": text for name, text in command_pages().items()}
    pages["man8/outriggerd.8"] = program_page(arguments.daemon, 8, "service processes of Outrigger, and their keeper")
    pages["man1/outrigger-sim.1"] = program_page(arguments.sim, 1, "runs Outrigger's collectives in virtual time")
    known = commands.commands()
    texts = {
        "outrigger.bash": completions.bash(known),
        "_outrigger": completions.zsh(known),
        "outrigger.fish": completions.fish(known),
        "requirements.txt": requirements(),
        **{f"man/{name}": text for name, text in pages.items()},
    }
    _write({out / name: text for name, text in texts.items()})
    return 0


if __name__ == "__main__":
    sys.exit(main())
