"""The view of running jobs: the same for the terminal, the page and --json."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class ServiceView:
    """A service process and its core over the last interval."""

    node: int
    number: int
    cpu: int
    core_is_free: bool
    ran: float
    """Fraction of the time on its core; 0 on a DPU."""
    waited: float
    """Fraction of the time runnable while others had the core."""
    asleep: float
    restarts: int
    other_job: int
    warning: str


@dataclass
class NodeView:
    """A node of the job."""

    node: int
    host: str
    ranks: int
    late_by_seconds: float = 0.0
    """Age of its data; not 0 if it has not answered."""


@dataclass
class CallView:
    """One MPI function on one communicator, over all ranks."""

    call: str
    form: str
    collective: str | None
    communicator: str
    named: bool
    """By the program or the MPI; otherwise `communicator` is its size and a number."""
    id: str
    size: int
    calls: int
    calls_per_second: float
    offloaded: int
    by_ranks: int
    """Done by the ranks of a node themselves."""
    bytes: int
    bytes_per_second: float
    least_bytes: int
    most_bytes: int
    exposed_seconds: float
    """In the calls and in their waits."""
    hidden_seconds: float
    """In offloaded calls: overlapped with the program's work."""
    exposed: float
    """Fraction of all ranks' time, over the last interval."""
    hidden: float
    """Together with `exposed` of all calls at most 1."""
    late_seconds: float
    """After the first rank of the group, summed over all ranks."""
    latest_rank: int
    """Rank waited for most, over the last interval; -1: none."""
    latest_mean_seconds: float
    """Its mean lateness per call."""
    native: dict[str, int] = field(default_factory=dict)


@dataclass
class RankColumns:
    """One entry per rank, by world rank; fractions of the last interval."""

    rank: list[int] = field(default_factory=list)
    node: list[int] = field(default_factory=list)
    exposed: list[float] = field(default_factory=list)
    hidden: list[float] = field(default_factory=list)
    late: list[float] = field(default_factory=list)
    """Seconds that others were ahead of it, per second."""
    calls_per_second: list[float] = field(default_factory=list)
    asleep: list[float] = field(default_factory=list)
    """In polite waits."""


@dataclass
class LinkView:
    """A path of bytes."""

    reach: str
    bytes: int
    bytes_per_second: float
    transports: str = ""


@dataclass
class NodeLinkView:
    """From one node to another, over the network between service processes."""

    source: int
    target: int
    source_host: str
    target_host: str
    bytes: int
    bytes_per_second: float


@dataclass
class BetweenNodes:
    """All traffic between nodes."""

    links: list[NodeLinkView]
    """The busiest, by direction."""
    other_links: int
    """Number of others."""
    other_bytes_per_second: float
    """Sent by the observed nodes over those."""


@dataclass
class DpuView:
    """A DPU and its traffic over the host's bus: bytes read and written in the host's memory."""

    node: int
    name: str
    read_bytes: int
    written_bytes: int
    read_bytes_per_second: float
    written_bytes_per_second: float


@dataclass
class History:
    """The last minutes, one value per interval, oldest first."""

    seconds_ago: list[float] = field(default_factory=list)
    calls_per_second: list[float] = field(default_factory=list)
    bytes_per_second: list[float] = field(default_factory=list)
    exposed: list[float] = field(default_factory=list)
    hidden: list[float] = field(default_factory=list)
    service_ran: list[float] = field(default_factory=list)


@dataclass
class JobView:
    """One job."""

    job: str
    mpi: str
    world: int
    run_seconds: float
    nodes_of_job: int
    nodes: list[NodeView]
    services: list[ServiceView]
    calls: list[CallView]
    ranks: RankColumns
    links: list[LinkView]
    between_nodes: BetweenNodes
    dpus: list[DpuView]
    history: History
    exposed: float
    hidden: float
    calls_per_second: float
    bytes_per_second: float
    offloaded: int
    by_ranks: int
    native: int
    rows_left_out: int
    warnings: list[str]
    standstill: str = ""
    """If no rank moves: which ranks wait where, and for whom."""


@dataclass
class View:
    """All jobs at one time."""

    version: int
    interval_seconds: float
    """Interval of rates and fractions; 0: first data of the jobs, since MPI_Init."""
    jobs: list[JobView]
    problems: list[str]
    """Failed sources, with reasons."""
    refused: int = 0
    """Keepers of other users' jobs, which answer only those users and root."""
