"""What a user can set for a run, and the environment variables that carry it to the library."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from outrigger import selection
from outrigger.errors import UserError

REACHES = ("mapped", "xpmem", "cma", "copier", "bounce")

VARIABLES = {
    "OUTRIGGER_ENABLE": "0 switches everything off",
    "OUTRIGGER_SERVICES": "service processes per node",
    "OUTRIGGER_SERVICE_CPUS": "CPUs for them, like 6,7",
    "OUTRIGGER_ALGORITHM": "algorithms, like ialltoall=ring_pull or iallgather:n2-=node_ring",
    "OUTRIGGER_BLOCKING": "on offloads the blocking forms, too; off never; unless set, where it was measured to pay",
    "OUTRIGGER_SHARED_HEAP": "on: large allocations come from memory that service processes map, too",
    "OUTRIGGER_WAIT_COPIES": "off: ranks that wait make no copies for their service process",
    "OUTRIGGER_HUGE_PAGES": "off: buffers stay in the pages that they have",
    "OUTRIGGER_REACH": "how memory may be reached: of mapped,xpmem,cma,copier,bounce",
    "OUTRIGGER_MIN_BYTES": "collectives with equal blocks stay native where those are smaller",
    "OUTRIGGER_REPORT": "file for the report at MPI_Finalize; - is a table on stderr",
    "OUTRIGGER_INIT_TIMEOUT_MS": "how long ranks wait in MPI_Init for each other and for service processes",
    "OUTRIGGER_DAEMON": "path of outriggerd",
    "OUTRIGGER_VERBOSE": "1 says what was found",
    "OUTRIGGER_LOG": "log level of keeper and service processes, with OUTRIGGER_LOG_FILE",
    "OUTRIGGER_USE_DPU": "0 leaves DPUs alone",
    "OUTRIGGER_DPUS": "where service processes on DPUs listen, HOST=DPU:PORT,...; set by outrigger run",
    "OUTRIGGER_DPU_DAEMON": "outriggerd on the DPUs, unless --dpu-daemon names it",
    "OUTRIGGER_DPU_START_TIMEOUT_MS": "how long outrigger run waits for a DPU to listen",
    "OUTRIGGER_PRETEND_NODES": "for tests: split the ranks of one machine into so many nodes",
    "OUTRIGGER_BUILD": "build directory that the outrigger command uses",
}


@dataclass(frozen=True)
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

    def environment(self) -> dict[str, str]:
        """The variables for what was set."""
        variables: dict[str, str] = {}
        if self.services is not None:
            variables["OUTRIGGER_SERVICES"] = str(self.services)
        if self.algorithms:
            variables["OUTRIGGER_ALGORITHM"] = ",".join(self.algorithms)
        if self.reach is not None:
            variables["OUTRIGGER_REACH"] = self.reach
        if self.blocking is not None:
            variables["OUTRIGGER_BLOCKING"] = "on" if self.blocking else "off"
        if self.shared_heap is not None:
            variables["OUTRIGGER_SHARED_HEAP"] = "on" if self.shared_heap else "off"
        if self.wait_copies is not None:
            variables["OUTRIGGER_WAIT_COPIES"] = "on" if self.wait_copies else "off"
        if self.huge_pages is not None:
            variables["OUTRIGGER_HUGE_PAGES"] = "on" if self.huge_pages else "off"
        return variables


def parse_reach(text: str) -> str:
    """Checks a list of reaches."""
    words = [word.strip() for word in text.split(",")]
    for word in words:
        if word not in REACHES:
            raise UserError(f"--reach {text}: '{word}' is none of {', '.join(REACHES)}")
    return ",".join(words)


def parse_switch(option: str, text: str) -> bool:
    """Checks on or off."""
    if text not in ("on", "off"):
        raise UserError(f"{option} {text}: on or off")
    return text == "on"


def make(
    services: int | None,
    algorithms: Sequence[str],
    reach: str | None,
    blocking: str | None = None,
    shared_heap: str | None = None,
    wait_copies: str | None = None,
    huge_pages: str | None = None,
) -> Settings:
    """Settings from the command line; raises UserError for what is not valid."""
    if services is not None and not 1 <= services <= 64:
        raise UserError(f"--services {services}: from 1 to 64 service processes per node")
    return Settings(
        services,
        selection.words(algorithms),
        parse_reach(reach) if reach is not None else None,
        parse_switch("--blocking", blocking) if blocking is not None else None,
        parse_switch("--shared-heap", shared_heap) if shared_heap is not None else None,
        parse_switch("--wait-copies", wait_copies) if wait_copies is not None else None,
        parse_switch("--huge-pages", huge_pages) if huge_pages is not None else None,
    )
