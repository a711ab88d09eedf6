"""Settings of a run, and the environment variables that pass them to the library."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from outrigger import selection, tables
from outrigger.artifacts import Artifacts
from outrigger.errors import UserError, or_known

ENABLE = "OUTRIGGER_ENABLE"
SERVICES = "OUTRIGGER_SERVICES"
ALGORITHM = "OUTRIGGER_ALGORITHM"
CHOICE = "OUTRIGGER_CHOICE"
REACH = "OUTRIGGER_REACH"
REPORT = "OUTRIGGER_REPORT"
TRACE = "OUTRIGGER_TRACE"
LIVE = "live"
"""Replaces a report's file: ranks count while they run, without a report."""
DAEMON = "OUTRIGGER_DAEMON"
BUILD = "OUTRIGGER_BUILD"
DPUS = "OUTRIGGER_DPUS"
INIT_TIMEOUT = "OUTRIGGER_INIT_TIMEOUT_MS"
PRETEND_NODES = "OUTRIGGER_PRETEND_NODES"
CORE_CLAIMS = "OUTRIGGER_CORE_CLAIMS"
JOB = "OUTRIGGER_JOB"

HEAP = "heap"
FIXED = "fixed"
CHOICES = ("measured", "early", FIXED)
AIDS = {"--shared-heap": HEAP, "--wait-copies": "wait_copies", "--huge-pages": "huge_pages"}
"""Short options for words of --reach."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Checked settings of a run."""

    services: int | None = None
    algorithms: tuple[str, ...] = ()
    """Rules of the selection table, in the library's format."""
    blocking: str | None = None
    """Last of these rules: for blocking forms that no other rule names."""
    choice: str | None = None
    reach: str | None = None
    aids: tuple[str, ...] = ()
    """Last words of OUTRIGGER_REACH; of contradicting ones the last counts."""
    live: bool = False
    """Ranks count while they run."""

    def is_fixed(self, present: Mapping[str, str] = os.environ) -> bool:
        """True if measurements do not decide about offloading."""
        return (self.choice or present.get(CHOICE)) == FIXED

    def environment(self, present: Mapping[str, str] = os.environ) -> dict[str, str]:
        """Variables for the given settings, which precede those present; others stay unchanged."""
        variables: dict[str, str] = {}
        if self.services is not None:
            variables[SERVICES] = str(self.services)
        if self.algorithms or self.blocking is not None:
            before = None if self.algorithms else present.get(ALGORITHM)
            variables[ALGORITHM] = ",".join(filter(None, [*self.algorithms, self.blocking, before]))
        if self.choice is not None:
            variables[CHOICE] = self.choice
        if self.reach is not None or self.aids:
            variables[REACH] = ",".join(filter(None, [self.reach or present.get(REACH), *self.aids]))
        if self.live:
            variables[REPORT] = present.get(REPORT) or LIVE  # a report includes counting
        return variables


def reach_words(environment: Mapping[str, str]) -> list[str]:
    """The reach words that ranks get."""
    return [word for word in environment.get(REACH, "").split(",") if word]


def parse_reach(found: Artifacts, text: str) -> str:
    """Checks a list of reaches."""
    words = [word.strip() for word in text.split(",")]
    known = (*tables.read(found).selectable, *(aid.name for aid in tables.read(found).aids))
    for word in words:
        if word.removeprefix("-") not in known:
            raise UserError(f"--reach {text}: '{word}' is no reach; {or_known(word.removeprefix('-'), known)}")
    return ",".join(words)


def allows_dpus(found: Artifacts, environment: Mapping[str, str]) -> bool:
    """True if service processes on DPUs may access memory by RDMA."""
    words = reach_words(environment)
    if not words:
        return True
    named = [row for row in tables.read(found).reaches if row.selectable and row.name in words]
    return "-rdma" not in words and (not named or any("rdma" in (row.name, row.brings) for row in named))


def uses_heap(environment: Mapping[str, str]) -> bool:
    """True if the shared heap, a separate library, is needed."""
    return [word for word in reach_words(environment) if word.removeprefix("-") == HEAP][-1:] == [HEAP]


def parse_choice(text: str | None) -> str | None:
    """Checks --choice; None: not given."""
    if text is not None and text not in CHOICES:
        raise UserError(f"--choice {text}: no such choice; {or_known(text, CHOICES)}")
    return text


def check_names(found: Artifacts, environment: Mapping[str, str]) -> str | None:
    """Message about an unknown variable with our prefix; None if there is none."""
    if any(name.startswith("OUTRIGGER_") and name != BUILD for name in environment):
        return tables.read(found).check_names(environment)
    return None


def parse_switch(option: str, text: str | None) -> bool | None:
    """Checks on or off; None: not given."""
    if text not in ("on", "off", None):
        raise UserError(f"{option} {text}: on or off")
    return None if text is None else text == "on"


def _services(found: Artifacts, services: int | None) -> int | None:
    most = tables.read(found).limits.services if services is not None else 0
    if services is not None and not 1 <= services <= most:
        raise UserError(f"--services {services}: from 1 to {most} service processes per node")
    return services


def make(
    found: Artifacts,
    *,
    services: int | None = None,
    algorithms: Sequence[str] | None = None,
    choice: str | None = None,
    reach: str | None = None,
    blocking: str | None = None,
    shared_heap: str | None = None,
    wait_copies: str | None = None,
    huge_pages: str | None = None,
    live: bool = False,
) -> Settings:
    """Settings from the command line; raises UserError for invalid ones."""
    blocks = {True: "blocking=on", False: "blocking=native", None: None}[parse_switch("--blocking", blocking)]
    switches = zip(AIDS.items(), (shared_heap, wait_copies, huge_pages), strict=True)
    parsed = [(word, parse_switch(option, text)) for (option, word), text in switches]
    return Settings(
        services=_services(found, services),
        algorithms=selection.words(found, algorithms) if algorithms else (),
        blocking=blocks,
        choice=parse_choice(choice),
        reach=parse_reach(found, reach) if reach is not None else None,
        aids=tuple(word if on else f"-{word}" for word, on in parsed if on is not None),
        live=live,
    )
