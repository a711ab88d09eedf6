"""What a user can set for a run, and the environment variables that carry it to the library."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from outrigger import selection, tables
from outrigger.artifacts import Artifacts
from outrigger.errors import UserError

ENABLE = "OUTRIGGER_ENABLE"
SERVICES = "OUTRIGGER_SERVICES"
ALGORITHM = "OUTRIGGER_ALGORITHM"
REACH = "OUTRIGGER_REACH"
REPORT = "OUTRIGGER_REPORT"
DAEMON = "OUTRIGGER_DAEMON"
BUILD = "OUTRIGGER_BUILD"
DPUS = "OUTRIGGER_DPUS"
INIT_TIMEOUT = "OUTRIGGER_INIT_TIMEOUT_MS"
PRETEND_NODES = "OUTRIGGER_PRETEND_NODES"


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Checked settings of a run."""

    services: int | None = None
    algorithms: tuple[str, ...] = ()
    """Rules of the selection table, as the library reads them."""
    reach: str | None = None
    blocking: bool | None = None
    shared_heap: bool | None = None
    wait_copies: bool | None = None
    huge_pages: bool | None = None

    def _rules(self, present: str) -> list[str]:
        """What is asked for goes before what is in the environment."""
        blocking = [] if self.blocking is None else ["blocking=on" if self.blocking else "blocking=native"]
        before = [] if self.algorithms else list(filter(None, [present]))
        return [*self.algorithms, *blocking, *before]

    def _reach_words(self, present: str) -> list[str]:
        """Of the words for one thing the last counts."""
        aids = {"heap": self.shared_heap, "wait_copies": self.wait_copies, "huge_pages": self.huge_pages}
        switched = [name if on else f"-{name}" for name, on in aids.items() if on is not None]
        return [*filter(None, [self.reach or present]), *switched]

    def environment(self, present: Mapping[str, str] = os.environ) -> dict[str, str]:
        """The variables for what was set; what was not stays as it is there."""
        variables: dict[str, str] = {}
        if self.services is not None:
            variables[SERVICES] = str(self.services)
        if self.algorithms or self.blocking is not None:
            variables[ALGORITHM] = ",".join(self._rules(present.get(ALGORITHM, "")))
        if self._reach_words(""):
            variables[REACH] = ",".join(self._reach_words(present.get(REACH, "")))
        return variables


def parse_reach(found: Artifacts, text: str) -> str:
    """Checks a list of reaches."""
    words = [word.strip() for word in text.split(",")]
    known = (*tables.read(found).selectable, *(aid.name for aid in tables.read(found).aids))
    for word in words:
        if word.removeprefix("-") not in known:
            raise UserError(f"--reach {text}: '{word}' is none of {', '.join(known)}")
    return ",".join(words)


def allows_dpus(found: Artifacts, environment: Mapping[str, str]) -> bool:
    """Service processes on DPUs reach memory by RDMA."""
    words = [word for word in environment.get(REACH, "").split(",") if word]
    if not words:
        return True
    listed = [word for word in words if word in tables.read(found).selectable]
    return "-rdma" not in words and (not listed or "rdma" in listed)


def check_names(found: Artifacts, environment: Mapping[str, str]) -> str | None:
    """Raises for a variable of another version; what there is to say of one that only looks like ours."""
    if any(name.startswith("OUTRIGGER_") and name != BUILD for name in environment):
        return tables.read(found).check_names(environment)
    return None


def parse_switch(option: str, text: str | None) -> bool | None:
    """Checks on or off; None was not given."""
    if text not in ("on", "off", None):
        raise UserError(f"{option} {text}: on or off")
    return None if text is None else text == "on"


def make(
    found: Artifacts,
    *,
    services: int | None = None,
    algorithms: Sequence[str] | None = None,
    reach: str | None = None,
    blocking: str | None = None,
    shared_heap: str | None = None,
    wait_copies: str | None = None,
    huge_pages: str | None = None,
) -> Settings:
    """Settings from the command line; raises UserError for what is not valid."""
    switches = {
        "blocking": parse_switch("--blocking", blocking),
        "shared_heap": parse_switch("--shared-heap", shared_heap),
        "wait_copies": parse_switch("--wait-copies", wait_copies),
        "huge_pages": parse_switch("--huge-pages", huge_pages),
    }
    if services is not None and not 1 <= services <= tables.read(found).limits.services:
        most = tables.read(found).limits.services
        raise UserError(f"--services {services}: from 1 to {most} service processes per node")
    return Settings(
        services=services,
        algorithms=selection.words(found, algorithms) if algorithms else (),
        reach=parse_reach(found, reach) if reach is not None else None,
        **switches,
    )
