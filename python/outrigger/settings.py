"""What a user can set for a run, and the environment variables that carry it to the library."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from outrigger.errors import UserError

COLLECTIVES = ("ialltoall", "ialltoallv")
ALGORITHMS = ("ring_pull", "scatter_dest")
REACHES = ("mapped", "cma", "copier", "bounce")

VARIABLES = {
    "OUTRIGGER_ENABLE": "0 switches everything off",
    "OUTRIGGER_SERVICES": "service processes per node",
    "OUTRIGGER_SERVICE_CPUS": "CPUs for them, like 6,7",
    "OUTRIGGER_ALGORITHM": "algorithms, like ialltoall=ring_pull",
    "OUTRIGGER_REACH": "how memory may be reached: of mapped,cma,copier,bounce",
    "OUTRIGGER_MIN_BYTES": "Ialltoall with smaller blocks stays native",
    "OUTRIGGER_REPORT": "file for the report at MPI_Finalize; - is a table on stderr",
    "OUTRIGGER_INIT_TIMEOUT_MS": "how long ranks wait for each other's answer in MPI_Init",
    "OUTRIGGER_DAEMON": "path of outriggerd",
    "OUTRIGGER_VERBOSE": "1 says what was found",
    "OUTRIGGER_LOG": "log level of keeper and service processes, with OUTRIGGER_LOG_FILE",
    "OUTRIGGER_PRETEND_NODES": "for tests: split the ranks of one machine into so many nodes",
    "OUTRIGGER_BUILD": "build directory that the outrigger command uses",
}


@dataclass(frozen=True)
class Settings:
    """Checked settings of a run."""

    services: int | None = None
    algorithms: tuple[str, ...] = ()
    reach: str | None = None

    def environment(self) -> dict[str, str]:
        """The variables for what was set."""
        variables: dict[str, str] = {}
        if self.services is not None:
            variables["OUTRIGGER_SERVICES"] = str(self.services)
        if self.algorithms:
            variables["OUTRIGGER_ALGORITHM"] = ",".join(self.algorithms)
        if self.reach is not None:
            variables["OUTRIGGER_REACH"] = self.reach
        return variables


def parse_algorithm(text: str) -> str:
    """Checks one COLLECTIVE=ALGORITHM."""
    collective, equals, algorithm = text.partition("=")
    if not equals or collective not in COLLECTIVES or algorithm not in ALGORITHMS:
        raise UserError(
            f"--algorithm {text}: write COLLECTIVE=ALGORITHM; collectives: {', '.join(COLLECTIVES)}; "
            f"algorithms: {', '.join(ALGORITHMS)}"
        )
    return text


def parse_reach(text: str) -> str:
    """Checks a list of reaches."""
    words = [word.strip() for word in text.split(",")]
    for word in words:
        if word not in REACHES:
            raise UserError(f"--reach {text}: '{word}' is none of {', '.join(REACHES)}")
    return ",".join(words)


def make(services: int | None, algorithms: Sequence[str], reach: str | None) -> Settings:
    """Settings from the command line; raises UserError for what is not valid."""
    if services is not None and not 1 <= services <= 64:
        raise UserError(f"--services {services}: from 1 to 64 service processes per node")
    items = [item for text in algorithms for item in text.split(",")]
    return Settings(services, tuple(map(parse_algorithm, items)), parse_reach(reach) if reach is not None else None)
