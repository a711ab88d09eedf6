"""Tables of the built library, printed by outriggerd: collectives, reaches, settings."""

from __future__ import annotations

import functools
import signal
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from outrigger.artifacts import Artifacts
from outrigger.errors import UserError
from outrigger.formats import T, parse

_TIMEOUT_S = 20.0
_PREFIX = "OUTRIGGER_"


@dataclass(frozen=True, kw_only=True)
class Collective:
    """A collective that can be offloaded."""

    name: str
    blocking: str
    """Name of its blocking form."""
    algorithms: tuple[str, ...]
    """The default first."""
    alike: bool
    """Block sizes are equal on all ranks, so rules may depend on them."""


@dataclass(frozen=True, kw_only=True)
class Condition:
    """Condition of a rule."""

    letter: str
    name: str
    meaning: str


@dataclass(frozen=True, kw_only=True)
class Reach:
    """A path of bytes."""

    name: str
    selectable: bool
    brings: str
    """Another one that is enabled with it, or empty."""
    when: str
    cost: str


@dataclass(frozen=True, kw_only=True)
class Library:
    """For programs of an ABI."""

    abi: str
    title: str
    library: str
    sonames: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Setting:
    """An environment variable."""

    name: str
    initial: str
    valid: str
    meaning: str
    alike: bool
    """Must be equal on all ranks."""
    internal: bool


@dataclass(frozen=True, kw_only=True)
class Limits:
    """Limits of a node."""

    services: int
    local_ranks: int
    ranks_per_service: int


@dataclass(frozen=True, kw_only=True)
class Tables:
    """Output of `outriggerd tables`."""

    version: str
    collectives: tuple[Collective, ...]
    conditions: tuple[Condition, ...]
    most_rules: int
    reaches: tuple[Reach, ...]
    libraries: tuple[Library, ...]
    settings: tuple[Setting, ...]
    foreign_prefixes: tuple[str, ...]
    limits: Limits

    @property
    def selectable(self) -> tuple[str, ...]:
        """Reaches that can be allowed."""
        return tuple(reach.name for reach in self.reaches if reach.selectable)

    def check_names(self, environment: Mapping[str, str]) -> str | None:
        """Message about an unknown variable with our prefix; None if there is none."""
        known = {setting.name for setting in self.settings}
        for name in sorted(environment):
            if name.startswith(_PREFIX) and name not in known and not name.startswith(self.foreign_prefixes):
                public = ", ".join(setting.name for setting in self.settings if not setting.internal)
                return f"{name} is unknown and has no effect; there are {public}"
        return None


@dataclass(frozen=True, kw_only=True)
class Rule:
    """The library's interpretation of a rule."""

    rule: str
    problem: str
    hidden: str


@dataclass(frozen=True)
class _Rules:
    rules: tuple[Rule, ...]


def _ask(daemon: Path, words: Sequence[str], form: type[T]) -> T:
    command = [str(daemon), *words]
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, errors="replace", timeout=_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise UserError(f"cannot run {daemon}: {error}") from error
    if done.returncode < 0:
        raise UserError(f"{daemon} was ended by signal {-done.returncode} ({signal.strsignal(-done.returncode)})")
    if done.returncode != 0:
        raise UserError(f"{daemon} is older than this command and knows no '{words[0]}'; run ./dev build")
    return parse(done.stdout, form, f"what {daemon} {words[0]} printed")


@functools.cache
def _read(daemon: Path) -> Tables:
    return _ask(daemon, ["tables"], Tables)


def read(artifacts: Artifacts) -> Tables:
    """Once per build."""
    return _read(artifacts.daemon)


def check_rules(artifacts: Artifacts, rules: Sequence[str]) -> tuple[Rule, ...]:
    """The library's interpretation of rules that choose algorithms."""
    return _ask(artifacts.daemon, ["rules", "--", *rules], _Rules).rules
