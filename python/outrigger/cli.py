"""The `outrigger` command.

Each command imports only its own modules: importing all of them takes a second.
"""

from __future__ import annotations

import errno
import inspect
import os
import signal
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import import_module
from itertools import takewhile
from typing import Annotated

import typer

import outrigger
from outrigger.errors import UserError
from outrigger.terminal import NO_COLOR, give_up_output, note, replace_what_cannot_be_shown

_RUN = "Run programs"
_MACHINE = "Look at this machine"
_LIVE = "Watch running jobs"
_MEASURE = "Measure"


@dataclass(frozen=True)
class Command:
    """A function, or a Typer of several commands, in a module of outrigger."""

    module: str
    name: str
    panel: str = ""
    """Its part of the help."""
    starts_programs: bool = False
    """The first word that is not an option begins a program's command line."""


COMMANDS = {
    "run": Command("commands.run", "run", _RUN, starts_programs=True),
    "report": Command("commands.report", "show_report", _RUN),
    "advise": Command("advise.command", "advise", _RUN, starts_programs=True),
    "env": Command("switch_on", "env", _RUN),
    "info": Command("commands.info", "show_info", _MACHINE),
    "doctor": Command("doctor.command", "doctor", _MACHINE),
    "cache": Command("commands.cache", "cache", _MACHINE),
    "top": Command("live.top", "top", _LIVE),
    "stuck": Command("live.stuck", "stuck", _LIVE),
    "watch": Command("live.watch", "watch", _LIVE),
    "exporter": Command("live.exporter", "exporter", _LIVE),
    "demo": Command("commands.demo", "show_demo", _MEASURE),
    "bench": Command("commands.bench", "measure", _MEASURE),
    "bench fft3d": Command("bench.example_commands", "measure_fft3d"),
    "bench halo": Command("bench.example_commands", "measure_halo"),
    "bench training": Command("bench.example_commands", "measure_training"),
    "bench harm": Command("bench.harm", "measure_harm"),
    "bench never-slower": Command("bench.never_slower", "measure_never_slower"),
    "lab tune": Command("tune.command", "tune"),
    "lab replay": Command("trace.command", "replay"),
    "lab calibrate": Command("calibrate.command", "calibrate"),
    "lab predict": Command("predict.command", "predict"),
    "lab skew": Command("bench.skew", "measure_skew"),
    "lab chaos": Command("chaos.command", "chaos", starts_programs=True),
    "lab cluster": Command("cluster.commands", "app"),
}
"""By name, in the order of the help. The second of two words is a command below the first."""
_GROUPS = {
    "bench": "Compare native and offloaded: collectives, example programs, side effects.",
    "lab": "Tune, calibrate, predict, draw traces, inject faults: for laboratories and developers.",
}
MOVED = {
    **{name: f"lab {name}" for name in ("tune", "replay", "calibrate", "predict", "chaos", "cluster")},
    "bench skew": "lab skew",
    "bench --never-slower": "bench never-slower",
}
"""Names of before: a message says the new one."""
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
    "--report",
)
"""Options of the commands that start programs."""
_VALUES = ("true", "false", "on", "off", "yes", "no", "1", "0")


def _say_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"outrigger {outrigger.__version__}")
        raise typer.Exit


def of_all(
    no_color: Annotated[bool, typer.Option("--no-color", help="Print without colors, as with NO_COLOR=1.")] = False,
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", is_eager=True, callback=_say_version)
    ] = False,
) -> None:
    """Run MPI programs with their collectives on service processes, and measure the gain."""
    if no_color:
        os.environ[NO_COLOR] = "1"


def _typer(help_: str = "") -> typer.Typer:
    return typer.Typer(
        help=help_ or inspect.getdoc(of_all),
        no_args_is_help=True,
        add_completion=False,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["-h", "--help"]},
    )


def make_app(names: Iterable[str] = COMMANDS) -> typer.Typer:
    """`outrigger` with these of its commands."""
    app = _typer()
    app.callback()(of_all)
    groups: dict[str, typer.Typer] = {}
    for each in names:
        command = COMMANDS[each]
        *group, name = each.split()
        for first in group:
            if first not in groups:
                groups[first] = _typer(_GROUPS[first])
                app.add_typer(groups[first], name=first, rich_help_panel=_MEASURE)
        within = groups[group[0]] if group else app
        found = getattr(import_module(f"outrigger.{command.module}"), command.name)
        if isinstance(found, typer.Typer):
            within.add_typer(found, name=name)
            continue
        others = [other.partition(" ")[2] for other in COMMANDS if other.startswith(f"{each} ")]
        within.command(
            name,
            context_settings={"allow_interspersed_args": not command.starts_programs},
            rich_help_panel=command.panel or None,
            epilog=f"Other measurements, each with a --help of its own: {each} {', '.join(others)}."
            if others
            else None,
        )(found)
    return app


def name_of(arguments: list[str]) -> str:
    """The name of the command that is given; empty if there is none."""
    names = (" ".join(arguments[:words]) for words in (2, 1))
    return next((name for name in names if name in COMMANDS), "")


def needed(arguments: list[str]) -> Iterable[str]:
    """The commands that typer must know: the one that is given, else all of the group, else all."""
    first = next(iter(arguments), "")
    if first == "--version":
        return ()
    if name := name_of(arguments):
        return (name,)
    return [name for name in COMMANDS if name.startswith(f"{first} ")] if first in _GROUPS else COMMANDS


def check_moved(arguments: list[str]) -> None:
    """Refuses a name of before."""
    for words in (2, 1):
        name = " ".join(arguments[:words])
        if name in MOVED:
            raise UserError(f"`outrigger {name}` is now `outrigger {MOVED[name]}`")


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


def _uncolored(arguments: list[str]) -> list[str]:
    """Options for all commands, in front of the command's words."""
    return arguments[: sum(1 for _ in takewhile(lambda word: word == "--no-color", arguments))]


_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EIO)
"""Failures of a full or broken output."""


def main() -> None:
    """Entry point: a user's error becomes one message and exit code 2."""
    replace_what_cannot_be_shown()
    first = _uncolored(sys.argv[1:])
    arguments = sys.argv[1 + len(first) :]
    try:
        check_moved(arguments)
        name = name_of(arguments)
        if COMMANDS.get(name, _OTHER).starts_programs:
            check_switches(arguments[len(name.split()) :])
        make_app(needed(arguments))(args=[*first, *arguments], prog_name="outrigger")
    except UserError as error:
        note(str(error))
        sys.exit(2)
    except OSError as error:
        if error.errno not in _FULL:
            raise
        give_up_output(error)
        sys.exit(1)
    except KeyboardInterrupt:  # while modules are imported; a running command handles it itself
        sys.exit(128 + signal.SIGINT)
