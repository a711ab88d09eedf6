"""Reads the output of other programs as data, with one error for unexpected formats."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any, Protocol, TypeVar

import msgspec

from outrigger.errors import UserError

T = TypeVar("T")


def printable(text: str) -> str:
    """Without what has no place in UTF-8, as parts of names in another encoding."""
    return text.encode(errors="replace").decode()


def parse(text: str | bytes, form: type[T], what: str, *, exact: bool = False) -> T:
    """Parses JSON into a dataclass and checks its fields; `what` is named in errors. `exact`: further fields are
    errors.
    """
    if isinstance(text, bytes):  # names of programs in it may have another encoding than UTF-8
        text = text.decode(errors="replace")
    try:
        found = msgspec.json.decode(text, type=form)
        others = set(msgspec.json.decode(text)).difference(vars(found)) if exact else ()
    except msgspec.DecodeError as error:
        raise UserError(f"{what} cannot be read: {error}") from error
    if others:
        raise UserError(f"{what} cannot be read: unknown fields: {', '.join(sorted(others))}")
    return found


@dataclass(frozen=True)
class _Versioned:
    version: int | None = None


def parse_version(text: str | bytes, form: type[T], version: int, what: str) -> T:
    """The same for a versioned format; accepts one version."""
    found = parse(text, _Versioned, what).version
    if found is None:
        raise UserError(f"{what} cannot be read: it has no version, so it is a different format")
    if found != version:
        raise UserError(f"{what} has version {found}, this command reads version {version}")
    return parse(text, form, what)


def convert(data: Any, form: Any, what: str) -> Any:
    """The same for parsed data."""
    try:
        return msgspec.convert(data, form)
    except msgspec.ValidationError as error:
        raise UserError(f"{what} cannot be read: {error}") from error


class OfRanks(Protocol):
    """Output of a benchmark program."""

    @property
    def ranks(self) -> int:
        """Number of ranks in its job."""


F = TypeVar("F", bound=OfRanks)


def json_line(output: str, program: str) -> str:
    """First line of JSON in the program's output."""
    line = next((line for line in output.splitlines() if line.startswith("{")), None)
    if line is None:
        raise UserError(f"what {program} printed cannot be read: there are no figures")
    return line


def parse_figures(output: str, form: type[F], ranks: int) -> F:
    """Line of JSON of a benchmark program that ran with this many ranks."""
    line = json_line(output, "the benchmark")
    figures = parse(line, form, f"the benchmark's line {line}")
    if figures.ranks != ranks:
        raise UserError(f"the benchmark ran as a job of {figures.ranks} ranks, not {ranks}: is this its own mpirun?")
    return figures


def line_of(value: Any) -> bytes:
    """In one line, for a pipe."""
    return msgspec.json.encode(value) + b"\n"


def as_json(value: Any) -> str:
    """Dataclasses and lists of them, indented."""
    return json.dumps(value, default=asdict, indent=2)
