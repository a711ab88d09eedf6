"""Settings of a run, and the environment variables that pass them to the library."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from outrigger import selection, tables
from outrigger.artifacts import Artifacts
from outrigger.errors import UserError, or_known

ENABLE = "OUTRIGGER_ENABLE"
SERVICES = "OUTRIGGER_SERVICES"
SERVICE_CPUS = "OUTRIGGER_SERVICE_CPUS"
ALGORITHM = "OUTRIGGER_ALGORITHM"
CHOICE = "OUTRIGGER_CHOICE"
INTRANODE = "OUTRIGGER_INTRANODE"
WAIT = "OUTRIGGER_WAIT"
SUMS = "OUTRIGGER_SUMS"
BLOCKING = "OUTRIGGER_BLOCKING"
REACH = "OUTRIGGER_REACH"
SHARED_HEAP = "OUTRIGGER_SHARED_HEAP"
WAIT_COPIES = "OUTRIGGER_WAIT_COPIES"
COPY_CPUS = "OUTRIGGER_COPY_CPUS"
HUGE_PAGES = "OUTRIGGER_HUGE_PAGES"
REPORT = "OUTRIGGER_REPORT"
LIVE = "OUTRIGGER_LIVE"
TRACE = "OUTRIGGER_TRACE"
DAEMON = "OUTRIGGER_DAEMON"
BUILD = "OUTRIGGER_BUILD"
DPUS = "OUTRIGGER_DPUS"
INIT_TIMEOUT = "OUTRIGGER_INIT_TIMEOUT_MS"
PRETEND_NODES = "OUTRIGGER_PRETEND_NODES"
CORE_CLAIMS = "OUTRIGGER_CORE_CLAIMS"
JOB = "OUTRIGGER_JOB"

FIXED = "fixed"
CHOICES = ("measured", "early", FIXED)
INTRANODES = ("on", "off", "always")
WAITS = ("auto", "polite", "native")
SUM_ORDERS = ("native", "any")
_BLOCKING_WORDS = ("on", "off", "auto")


_CPUS = re.compile(r"[0-9]+(-[0-9]+)?(,[0-9]+(-[0-9]+)?)*")


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Checked settings of a run."""

    services: int | None = None
    """Per node. 0: nothing is offloaded."""
    algorithms: tuple[str, ...] = ()
    """Rules of the selection table, in the library's format."""
    blocking: str | None = None
    """on, off or auto: for blocking forms that no rule names."""
    choice: str | None = None
    intranode: str | None = None
    """on, off or always: ranks do blocking collectives without service processes."""
    wait: str | None = None
    """auto, polite or native: ranks give their cores away while they wait in their MPI."""
    sums: str | None = None
    """native or any: the order of their floating-point sums and products."""
    reach: str | None = None
    shared_heap: bool | None = None
    wait_copies: bool | None = None
    copy_cpus: str | None = None
    """CPUs of each host, for copiers, with service processes on DPUs."""
    huge_pages: bool | None = None
    live: bool = False
    """Ranks count while they run."""

    def is_fixed(self, present: Mapping[str, str] = os.environ) -> bool:
        """True if measurements do not decide about offloading."""
        return (self.choice or present.get(CHOICE)) == FIXED

    def as_in(self, environment: Mapping[str, str], found: Artifacts) -> Settings:
        """With those of the ranks' environment on which their placement depends. Values that the library
        refuses count as not given.
        """
        services, choice = environment.get(SERVICES, ""), environment.get(CHOICE)
        known = services.isdecimal() and int(services) <= tables.read(found).limits.services
        copy_cpus = environment.get(COPY_CPUS, "")
        return replace(
            self,
            services=int(services) if known else self.services,
            choice=choice if choice in CHOICES else self.choice,
            copy_cpus=copy_cpus if _CPUS.fullmatch(copy_cpus) else self.copy_cpus,
        )

    def environment(self) -> dict[str, str]:
        """The variables for what was set, which goes before what is there; what was not set stays as it is."""
        said = {
            SERVICES: None if self.services is None else str(self.services),
            ALGORITHM: ",".join(self.algorithms) or None,
            BLOCKING: self.blocking,
            CHOICE: self.choice,
            INTRANODE: self.intranode,
            WAIT: self.wait,
            SUMS: self.sums,
            REACH: self.reach,
            SHARED_HEAP: _word(self.shared_heap),
            WAIT_COPIES: _word(self.wait_copies),
            COPY_CPUS: self.copy_cpus,
            HUGE_PAGES: _word(self.huge_pages),
            LIVE: "on" if self.live else None,
        }
        return {name: value for name, value in said.items() if value is not None}


def _word(on: bool | None) -> str | None:
    return None if on is None else "on" if on else "off"


def reach_words(environment: Mapping[str, str]) -> list[str]:
    """The reach words that ranks get."""
    return [word for word in environment.get(REACH, "").split(",") if word]


_FORMER_WORDS = ("--shared-heap", "--wait-copies", "--huge-pages")


def parse_reach(found: Artifacts, text: str) -> str:
    """Checks a list of reaches."""
    words = [word.strip() for word in text.split(",")]
    known = tables.read(found).selectable
    for word in words:
        name = word.removeprefix("-").replace("_", "-").replace("heap", "shared-heap")
        if f"--{name}" in _FORMER_WORDS:
            raise UserError(f"--reach {text}: write --{name} {'off' if word.startswith('-') else 'on'}")
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
    """The shared heap is a library of its own."""
    return environment.get(SHARED_HEAP) == "on"


def parse_choice(text: str | None) -> str | None:
    """Checks --choice; None: not given."""
    if text is not None and text not in CHOICES:
        raise UserError(f"--choice {text}: no such choice; {or_known(text, CHOICES)}")
    return text


def parse_intranode(text: str | None) -> str | None:
    """Checks whether ranks do blocking collectives by themselves; None was not given."""
    if text is not None and text not in INTRANODES:
        raise UserError(f"--intranode {text}: on, off or always")
    return text


def parse_wait(text: str | None) -> str | None:
    """Checks auto, polite or native; None was not given."""
    if text is not None and text not in WAITS:
        raise UserError(f"--wait {text}: {or_known(text, WAITS)}")
    return text


def parse_sums(text: str | None) -> str | None:
    """Checks the order of floating-point sums; None was not given."""
    if text is not None and text not in SUM_ORDERS:
        raise UserError(f"--sums {text}: {or_known(text, SUM_ORDERS)}")
    return text


def check_names(found: Artifacts, environment: Mapping[str, str]) -> str | None:
    """Message about an unknown variable with our prefix; None if there is none."""
    if any(name.startswith("OUTRIGGER_") and name != BUILD for name in environment):
        return tables.read(found).check_names(environment)
    return None


def parse_blocking(text: str | None) -> str | None:
    """Checks on, off or auto; None was not given."""
    if text is not None and text not in _BLOCKING_WORDS:
        raise UserError(f"--blocking {text}: on, off or auto")
    return text


def parse_switch(option: str, text: str | None) -> bool | None:
    """Checks on or off; None: not given."""
    if text not in ("on", "off", None):
        raise UserError(f"{option} {text}: on or off")
    return None if text is None else text == "on"


def parse_cpus(option: str, text: str | None) -> str | None:
    """Checks a list of CPUs; None: not given."""
    if text is not None and not _CPUS.fullmatch(text):
        raise UserError(f"{option} {text}: write CPUs like 7 or 6,7 or 4-7")
    return text


def _services(found: Artifacts, services: int | None) -> int | None:
    most = tables.read(found).limits.services if services is not None else 0
    if services is not None and not 0 <= services <= most:
        raise UserError(f"--services {services}: from 0 to {most} service processes per node")
    return services


def make(
    found: Artifacts,
    *,
    services: int | None = None,
    algorithms: Sequence[str] | None = None,
    choice: str | None = None,
    intranode: str | None = None,
    wait: str | None = None,
    sums: str | None = None,
    reach: str | None = None,
    blocking: str | None = None,
    shared_heap: str | None = None,
    wait_copies: str | None = None,
    copy_cpus: str | None = None,
    huge_pages: str | None = None,
    live: bool = False,
) -> Settings:
    """Settings from the command line; raises UserError for invalid ones."""
    return Settings(
        services=_services(found, services),
        algorithms=selection.words(found, algorithms) if algorithms else (),
        blocking=parse_blocking(blocking),
        choice=parse_choice(choice),
        intranode=parse_intranode(intranode),
        wait=parse_wait(wait),
        sums=parse_sums(sums),
        reach=parse_reach(found, reach) if reach is not None else None,
        shared_heap=parse_switch("--shared-heap", shared_heap),
        wait_copies=parse_switch("--wait-copies", wait_copies),
        copy_cpus=parse_cpus("--copy-cpus", copy_cpus),
        huge_pages=parse_switch("--huge-pages", huge_pages),
        live=live,
    )
