"""What people are shown of running jobs: the same for the terminal, the page and --json."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class ServiceView:
    """A service process, with its core over the last interval."""

    node: int
    number: int
    cpu: int
    core_is_free: bool
    ran: float
    """Part of the time that it was on its core; 0 on a DPU."""
    waited: float
    """Part of the time that it was runnable, and others had the core."""
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
    """How old what it says is: not 0 where it has not answered."""


@dataclass
class CallView:
    """One MPI function on one communicator, of all ranks together."""

    call: str
    form: str
    collective: str | None
    communicator: str
    named: bool
    """By the program or the MPI; else `communicator` says its size and a number."""
    id: str
    size: int
    calls: int
    calls_per_second: float
    offloaded: int
    bytes: int
    bytes_per_second: float
    least_bytes: int
    most_bytes: int
    exposed_seconds: float
    """In the calls and in what waits for them."""
    hidden_seconds: float
    """Of offloaded ones: went on while the program did something else."""
    exposed: float
    """Part of all ranks' time, over the last interval."""
    hidden: float
    """With `exposed` of all calls at most the whole time."""
    late_seconds: float
    """After the first rank of the group, all ranks together."""
    latest_rank: int
    """Who was waited for most, over the last interval; -1: nobody."""
    latest_mean_seconds: float
    """How late that one came, a call."""
    native: dict[str, int] = field(default_factory=dict)


@dataclass
class RankColumns:
    """One entry a rank, by world rank; parts of the last interval."""

    rank: list[int] = field(default_factory=list)
    node: list[int] = field(default_factory=list)
    exposed: list[float] = field(default_factory=list)
    hidden: list[float] = field(default_factory=list)
    late: list[float] = field(default_factory=list)
    """Seconds that others were ahead of it, per second."""
    calls_per_second: list[float] = field(default_factory=list)


@dataclass
class LinkView:
    """One way by which bytes came."""

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
    """All that goes between nodes."""

    links: list[NodeLinkView]
    """The busiest, each direction by itself."""
    other_links: int
    """So many more."""
    other_bytes_per_second: float
    """Sent by the nodes that are asked, over those."""


@dataclass
class DpuView:
    """A DPU, and what went over its host's bus: bytes of the host's memory that it has read and written."""

    node: int
    name: str
    read_bytes: int
    written_bytes: int
    read_bytes_per_second: float
    written_bytes_per_second: float


@dataclass
class History:
    """The last minutes, a value an interval, the oldest first."""

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
    native: int
    rows_left_out: int
    warnings: list[str]


@dataclass
class View:
    """Everything, at one time."""

    version: int
    interval_seconds: float
    """That rates and parts are of; 0: jobs are seen for the first time, and these are since MPI_Init."""
    jobs: list[JobView]
    problems: list[str]
    """What could not be asked, and why."""
    refused: int = 0
    """Keepers of other users' jobs, which tell those users and root alone."""
