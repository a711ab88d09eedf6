"""The `outrigger` command.

Each command imports only its own modules: importing all of them takes a second.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import import_module
from itertools import takewhile
from pathlib import Path
from typing import Annotated

import typer

import outrigger
from outrigger import options
from outrigger.errors import UserError
from outrigger.terminal import NO_COLOR, note, replace_what_cannot_be_shown


@dataclass(frozen=True)
class Command:
    """A function, or a Typer of several commands, in a module of outrigger."""

    module: str
    name: str
    starts_programs: bool = False
    """All words from the first one that is not an option are a program's."""


_NEVER_SLOWER = "--never-slower"
COMMANDS = {
    "run": Command("commands.run", "run", starts_programs=True),
    "report": Command("commands.report", "show_report"),
    "info": Command("commands.info", "show_info"),
    "doctor": Command("doctor.command", "doctor"),
    "env": Command("switch_on", "env"),
    "advise": Command("advise.command", "advise", starts_programs=True),
    "replay": Command("trace.command", "replay"),
    "tune": Command("tune.command", "tune"),
    "cache": Command("commands.cache", "cache"),
    "predict": Command("predict.command", "predict"),
    "calibrate": Command("calibrate.command", "calibrate"),
    "top": Command("live.top", "top"),
    "watch": Command("live.watch", "watch"),
    "exporter": Command("live.exporter", "exporter"),
    "chaos": Command("chaos.command", "chaos", starts_programs=True),
    "bench": Command("commands.bench", "measure"),
    "demo": Command("commands.demo", "show_demo"),
    # Commands of two words; "bench" alone is a command, too.
    "bench fft3d": Command("bench.example_commands", "measure_fft3d"),
    "bench halo": Command("bench.example_commands", "measure_halo"),
    "bench training": Command("bench.example_commands", "measure_training"),
    "bench harm": Command("bench.harm", "measure_harm"),
    "bench skew": Command("bench.skew", "measure_skew"),
    f"bench {_NEVER_SLOWER}": Command("bench.never_slower", "measure_never_slower"),
    "cluster": Command("cluster.commands", "app"),
}
"""By their words, in the order of the help."""
_OTHER = Command("", "")


_SWITCHES = (
    "--native",
    "--live",
    "--oversubscribe",
    "--no-bind",
    "--show-binding",
    "--dry-run",
    "--stops",
    "--cuts",
    "--compare-output",
)
"""Options of the commands that start programs."""
_VALUES = ("true", "false", "on", "off", "yes", "no", "1", "0")


def _say_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"outrigger {outrigger.__version__}")
        raise typer.Exit


def of_all(
    no_color: Annotated[bool, typer.Option("--no-color", help="No colors, as NO_COLOR=1 in the environment.")] = False,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", is_eager=True, callback=_say_version)
    ] = False,
) -> None:
    """Runs MPI programs with their collectives on service processes, measures the gain, says what was found."""
    if no_color:
        os.environ[NO_COLOR] = "1"


def make_app(words: Iterable[str] = COMMANDS) -> typer.Typer:
    """`outrigger` with these of its commands."""
    app = typer.Typer(
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )
    app.callback()(of_all)
    for each in words:
        command = COMMANDS[each]
        found = getattr(import_module(f"outrigger.{command.module}"), command.name)
        if isinstance(found, typer.Typer):
            app.add_typer(found, name=each)
        elif command.starts_programs:
            app.command(each, context_settings={"allow_interspersed_args": False})(found)
        else:
            app.command(each)(found)
    return app


def _needed(arguments: list[str]) -> Iterable[str]:
    """Commands to register with typer: the given one, or all for the help and for unknown ones."""
    first = next(iter(arguments), "")
    if first == "--version":
        return ()
    return (first,) if first in COMMANDS else COMMANDS


def _check_report(name: str) -> None:
    if not name.endswith(".json"):
        raise UserError(
            f"--report {name}: the report is JSON, so its name must end in .json; --report alone prints tables"
        )


def _split_report(arguments: list[str]) -> list[str]:
    """Allows --report without a value: typer's options always take one."""
    result: list[str] = []
    for index, argument in enumerate(arguments):
        if argument == "--":
            return result + arguments[index:]
        result.append(argument)
        if argument == "--report":
            following = arguments[index + 1] if index + 1 < len(arguments) else "--"
            if Path(following).suffix and not following.startswith("-") and shutil.which(following) is None:
                _check_report(following)
            if not following.endswith(".json"):
                result.append(options.TO_TERMINAL)
    return result


def check_switches(arguments: list[str]) -> None:
    """`--native true PROGRAM` would start the program `true`."""
    at = 0
    while at < len(arguments) and arguments[at].startswith("-") and arguments[at] != "--":
        at += 1 if arguments[at] in _SWITCHES or "=" in arguments[at] else 2
    if not 0 < at < len(arguments) - 1:
        return
    switch, word = arguments[at - 1 : at + 1]
    if switch in _SWITCHES and word in _VALUES:
        raise UserError(f"{switch} {word}: {switch} takes no value; leave '{word}' out, and it is switched on")


def _join_words(arguments: list[str]) -> list[str]:
    """Joins the two words of a command into typer's name."""
    if arguments[:1] == ["bench"] and _NEVER_SLOWER in arguments:  # in any position: its options are its own
        others = [argument for argument in arguments[1:] if argument != _NEVER_SLOWER]
        arguments = ["bench", _NEVER_SLOWER, *others]
    joined = " ".join(arguments[:2])
    return [joined, *arguments[2:]] if len(arguments) > 1 and joined in COMMANDS else arguments


def _uncolored(arguments: list[str]) -> list[str]:
    """Options for all commands, in front of the command's words."""
    return arguments[: sum(1 for _ in takewhile(lambda word: word == "--no-color", arguments))]


def main() -> None:
    """Entry point: a user's error becomes one message and exit code 2."""
    replace_what_cannot_be_shown()
    first = _uncolored(sys.argv[1:])
    try:
        arguments = _join_words(_split_report(sys.argv[1 + len(first) :]))
        if arguments and COMMANDS.get(arguments[0], _OTHER).starts_programs:
            check_switches(arguments[1:])
        make_app(_needed(arguments))(args=[*first, *arguments], prog_name="outrigger")
    except UserError as error:
        note(str(error))
        sys.exit(2)
    except KeyboardInterrupt:  # while modules are imported; a running command handles it itself
        sys.exit(128 + signal.SIGINT)
