"""The commands of `outrigger` with their options, for the reference, the manual pages and the completions."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args, get_type_hints

import typer
from typer.models import ArgumentInfo, CommandInfo, OptionInfo

from outrigger import cli

Words = tuple[str, ...]
"""Those of a command or a group behind `outrigger`."""


@dataclass(frozen=True)
class Option:
    """An option, or an argument, which has no names."""

    names: tuple[str, ...]
    value: str
    """Its value; empty for a switch."""
    initial: str
    """The default; empty if there is none."""
    meaning: str

    @property
    def words(self) -> str:
        """The option as a user writes it."""
        return f"{', '.join(self.names)} {self.value}".strip()

    @property
    def wants_file(self) -> bool:
        """True if its value names a file."""
        return any(word in self.value for word in ("FILE", "PATH", "DIR"))


@dataclass(frozen=True)
class Command:
    """One of them."""

    words: Words
    meaning: str
    options: tuple[Option, ...]

    @property
    def summary(self) -> str:
        """Its first sentence."""
        return self.meaning.split("\n\n")[0].replace("\n", " ")


def _value(kind: Any) -> str:
    """The value of an option, by its type; nothing for a switch."""
    kinds = {bool: "", int: "N", Path: "FILE"}
    return next((word for each, word in kinds.items() if each in (kind, *get_args(kind))), "VALUE")


def _initial(option: OptionInfo | ArgumentInfo, given: Any) -> str:
    if isinstance(option.show_default, str):
        return option.show_default
    return "" if given in (None, False, inspect.Parameter.empty) else f"`{given}`"


def _options(command: Callable[..., Any]) -> Iterator[Option]:
    hints = get_type_hints(command, include_extras=True)
    for name, parameter in inspect.signature(command).parameters.items():
        info = next(each for each in hints[name].__metadata__ if isinstance(each, (OptionInfo, ArgumentInfo)))
        if info.hidden:
            continue
        initial, meaning = _initial(info, parameter.default), info.help or ""
        kind = hints[name].__origin__
        if isinstance(info, ArgumentInfo):
            yield Option((), info.metavar or name.upper() + ("..." if get_args(kind) else ""), initial, meaning)
        else:  # in Annotated the first of its names is in the default's place
            names = (str(info.default), *(info.param_decls or ()))
            yield Option(names, info.metavar or _value(kind), initial, meaning)


def _command(words: Words, info: CommandInfo) -> Command:
    assert info.callback is not None
    return Command(words, inspect.getdoc(info.callback) or "", tuple(_options(info.callback)))


def _of(app: typer.Typer, before: Words) -> Iterator[Command]:
    for info in app.registered_commands:
        name = info.name or (info.callback.__name__ if info.callback else "")
        if not info.hidden:
            yield _command((*before, *name.split()), info)
    for group in app.registered_groups:
        assert group.typer_instance is not None
        yield from _of(group.typer_instance, (*before, str(group.name)))


def commands() -> list[Command]:
    """All visible commands, in the order of the help."""
    return list(_of(cli.make_app(), ()))


def _groups(app: typer.Typer, before: Words) -> Iterator[tuple[Words, str]]:
    for group in app.registered_groups:
        assert group.typer_instance is not None
        words = (*before, str(group.name))
        yield words, str(group.typer_instance.info.help or "")
        yield from _groups(group.typer_instance, words)


def groups() -> dict[Words, str]:
    """The groups of commands, by their words."""
    return dict(_groups(cli.make_app(), ()))


def about() -> str:
    """The description of `outrigger`."""
    return inspect.getdoc(cli.of_all) or ""
