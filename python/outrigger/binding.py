"""Placement of a node's ranks and service processes: asked of outriggerd on the node, and drawn."""

from __future__ import annotations

import contextlib
import math
import pwd
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from rich.console import Console
from rich.text import Text

from outrigger import formats
from outrigger.captured import captured
from outrigger.cores import Core, ImpossibleCpuError, format_cpu_list, parse_cpu_list
from outrigger.errors import UserError

VERSION = 1
BUNCH, NONE = "bunch", "none"
POLICIES = (BUNCH, "scatter", "hybrid", NONE)
_TIMEOUT_S = 20.0
_NOT_KNOWN = 3
"""Exit code of `outriggerd place` if the cores cannot be read."""
_HELP_S = 2.0
"""Time limit of a placement that only helps the job."""
# Distinguishable without colors, too: each cell has the rank's or the service process's number.
_COLOURS = ("cyan", "green", "yellow", "magenta", "blue", "bright_red", "bright_cyan", "bright_green")
_FREE = "grey50"
_LONGEST_COMMAND = 60
"""In characters, of another job."""


@dataclass(frozen=True)
class BoundRank:
    """A rank of the node."""

    cpus: tuple[int, ...]
    """Empty: not bound."""
    cores: int
    shared: bool
    """Other ranks run on its CPUs too."""
    service: int
    node: int
    """The number of the pretended node, from 0."""


@dataclass(frozen=True)
class BoundService:
    """A service process of the node."""

    cpu: int
    """-1: not pinned."""
    core_is_free: bool


def _user_and_command(pid: int, proc: Path = Path("/proc")) -> tuple[str, str]:
    """The owner of a process; a field is empty if it is unknown."""
    user, words = "", b""
    with contextlib.suppress(OSError, KeyError):
        words = (proc / str(pid) / "cmdline").read_bytes()
        user = pwd.getpwuid((proc / str(pid)).stat().st_uid).pw_name
    command = " ".join(words.replace(b"\0", b" ").decode(errors="replace").split())  # in one line
    return user, command if len(command) <= _LONGEST_COMMAND else f"{command[:_LONGEST_COMMAND]}..."


@dataclass(frozen=True)
class OtherJob:
    """A core of another job."""

    cpu: int
    by: str
    """service, or ranks."""
    pid: int
    """A process of it; -1: unknown."""

    @property
    def who(self) -> str:
        """As text."""
        if self.pid <= 0:
            return "another job"
        user, command = _user_and_command(self.pid)
        return f"another job{f' of {user}' if user else ''} (process {self.pid}{f': {command}' if command else ''})"


@dataclass(frozen=True)
class NodeBinding:
    """A node: its cores by NUMA domain, its ranks, its service processes."""

    domains: tuple[tuple[Core, ...], ...]
    ranks: tuple[BoundRank, ...]
    services: tuple[BoundService, ...]
    service_cpus: tuple[int, ...]
    """One CPU of each reserved core; empty: none."""
    other_jobs: tuple[OtherJob, ...] = field(default=(), compare=False)

    def core_of(self, cpu: int) -> Core:
        """All CPUs of this one's core; only this one if it is not one of the node's."""
        return next((core for domain in self.domains for core in domain if cpu in core), (cpu,))

    @property
    def rank_cpus(self) -> tuple[int, ...]:
        """The CPUs of all ranks together."""
        return tuple(sorted({cpu for rank in self.ranks for cpu in rank.cpus}))

    @property
    def cores(self) -> int:
        """The number of usable cores."""
        return sum(map(len, self.domains))

    def without_services(self) -> NodeBinding:
        """The same placement of ranks, for a job that starts no service process."""
        return replace(self, services=(), service_cpus=())

    @property
    def oversubscribed(self) -> bool:
        """Some ranks share a CPU."""
        return any(rank.shared for rank in self.ranks)


UNPLACED = NodeBinding((), (), (), ())
"""A job that another command places, or one without ranks here, has this."""


def parse_bind(text: str) -> str:
    """Checks --bind: a policy, a CPU for each rank (0,2,4-7), or a list for each rank (0-1:2-3)."""
    if text in POLICIES:
        return text
    try:
        for item in text.split(":"):
            parse_cpu_list(item)
    except ImpossibleCpuError as error:
        raise UserError(f"--bind {text}: {error}") from None
    except UserError:
        raise UserError(
            f"--bind {text}: write bunch, scatter, hybrid, none, or CPUs: 0,2,4-7 (one a rank) or 0-1:2-3 (a list a "
            "rank)"
        ) from None
    return text


@dataclass(frozen=True)
class _PlacedCore:
    cpus: Core
    domain: int


@dataclass(frozen=True)
class _Placement:
    """Output of `outriggerd place`."""

    cores: tuple[_PlacedCore, ...]
    ranks: tuple[BoundRank, ...]
    services: tuple[BoundService, ...]
    service_cpus: tuple[int, ...]
    other_jobs: tuple[OtherJob, ...] = ()


def parse(text: str) -> NodeBinding:
    """Parses the output of `outriggerd place`."""
    data = formats.parse_version(text, _Placement, VERSION, "what outriggerd place printed")
    domains: dict[int, list[Core]] = {}
    for core in data.cores:
        domains.setdefault(core.domain, []).append(core.cpus)
    return NodeBinding(
        domains=tuple(tuple(cores) for _, cores in sorted(domains.items())),
        ranks=data.ranks,
        services=data.services,
        service_cpus=data.service_cpus,
        other_jobs=data.other_jobs,
    )


KEEP_NO_CORE = "--keep=none"
"""For `outriggerd exec` and `place`: service processes are on a DPU, and ranks get all cores."""


KEEP_SPARE_ONLY = "--keep=spare"
"""Likewise: reserves no core that a rank would use."""


HEED_OTHERS = "--heed-others"
"""For `outriggerd place`: avoids cores of other jobs."""


def others_options(node: NodeBinding) -> list[str]:
    """For `outriggerd exec`, which must not query them itself: its ranks might see different ones."""
    words = []
    for by, option in (("ranks", "--others-ranks"), ("service", "--others-services")):
        cpus = [job.cpu for job in node.other_jobs if job.by == by]
        words += [option, format_cpu_list(cpus)] if cpus else []
    return words


def place_command(
    daemon: Path, bind: str, services: int | None, ranks: int, pretend_nodes: int = 1, *, keep: Sequence[str] = ()
) -> list[str]:
    """The command that plans a node's ranks; `keep`: cores to leave to service processes."""
    command = [str(daemon), "place", "--bind", bind, "--ranks", str(ranks), "--services", str(services or 0)]
    command += keep
    return [*command, "--pretend-nodes", str(pretend_nodes)] if pretend_nodes > 1 else command


def _problem(command: Sequence[str], result: subprocess.CompletedProcess[str]) -> str:
    text = (result.stderr.strip() or result.stdout.strip()).removeprefix("outriggerd: ")
    if "not expected" in text:
        return f"{command[0]} is older than this command and knows no 'place'; build it again with ./dev build"
    text = text.partition("\nRun with --help")[0].replace("--ranks: Value", "-n: ranks of a node:")
    return text or f"{' '.join(command)} ended with exit code {result.returncode}"


def _parsed(command: Sequence[str], result: subprocess.CompletedProcess[str]) -> NodeBinding:
    if result.returncode != 0:
        raise UserError(_problem(command, result))
    return parse(result.stdout)


def ask(command: Sequence[str]) -> NodeBinding:
    """Runs a place_command, here or by a host's launch agent."""
    return _parsed(command, captured(command, _TIMEOUT_S))


class NotKnownError(Exception):
    """The ranks' placement is unknown, or not known in time; the text has the reason."""


def ask_for_help(command: Sequence[str]) -> NodeBinding:
    """Runs a place_command here, for a job that can do without it. NotKnownError: it must.

    UserError: the user's own list of CPUs is impossible.
    """
    try:
        result = subprocess.run(command, capture_output=True, text=True, errors="replace", timeout=_HELP_S, check=False)
    except OSError as error:
        raise NotKnownError(f"cannot run {command[0]}: {error.strerror}") from error
    except subprocess.TimeoutExpired:
        raise NotKnownError(f"this machine has not said within {_HELP_S:.0f} s which cores it has") from None
    if result.returncode == _NOT_KNOWN or result.returncode < 0:
        raise NotKnownError(_problem(command, result))
    return _parsed(command, result)


@dataclass(frozen=True)
class _Cell:
    """A core in the drawing."""

    label: str
    style: str


def _colour(index: int) -> str:
    return _COLOURS[index % len(_COLOURS)]


def _cell(core: Core, node: NodeBinding, first: int) -> _Cell:
    for index, service in enumerate(node.services):
        if service.cpu in core and service.cpu in node.service_cpus:
            sharing = [i for i, other in enumerate(node.services) if other.cpu in core]
            return _Cell("SP" + format_cpu_list(sharing), f"bold black on {_colour(index)}")
    here = [index for index, rank in enumerate(node.ranks) if set(rank.cpus) & set(core)]
    if not here and any(job.cpu in core for job in node.other_jobs):
        return _Cell("other job", _FREE)
    if not here:
        return _Cell("·", _FREE)
    services = {node.ranks[index].service for index in here}
    style = _colour(services.pop()) if len(services) == 1 else "white"
    return _Cell(format_cpu_list([first + index for index in here]), style)


def plural(count: int, what: str) -> str:
    return f"{count} {what}" + ("" if count == 1 else "es" if what.endswith("s") else "s")


def host_ranks(name: str, first: int, ranks: int) -> str:
    """A host and its ranks, as text."""
    numbers = f"{first}-{first + ranks - 1}" if ranks > 1 else str(first)
    return f"[bold]{name}[/]  {plural(ranks, 'rank')} ({numbers})"


def services_and_cores(services: int, cores: int) -> str:
    """Describes a node."""
    here = plural(services, "service process") if services else "no service process"
    return f"{here}, {plural(cores, 'core')}"


def same_as(drawn: str, name: str, first: int, ranks: int, dpu: str = "") -> str:
    """The line for a host that equals an earlier one. `dpu`: the processes on its DPU, as text."""
    there = f"; [yellow]{dpu}[/]" if dpu else ""
    return f"{host_ranks(name, first, ranks)}, placed as on {drawn}{there}"


def _headline(title: str, node: NodeBinding, first: int, dpu: str) -> str:
    here = plural(node.cores, "core") if dpu else services_and_cores(len(node.services), node.cores)
    return f"{host_ranks(title, first, len(node.ranks))}, {here}"


def _core_rows(node: NodeBinding, first: int, width: int) -> list[Text]:
    """Cores as boxes in rows, with a label above each NUMA domain."""
    rows: list[Text] = []
    for domain, cores in enumerate(node.domains):
        cells = [_cell(core, node, first) for core in cores]
        names = [format_cpu_list(core) for core in cores]
        wide = max(len(word) for word in [*names, *(cell.label for cell in cells)]) + 2
        label = f"NUMA {domain} " if len(node.domains) > 1 else "cores "
        fit = max(1, (width - len(label) - 3) // (wide + 1))
        per_row = math.ceil(len(cores) / math.ceil(len(cores) / fit))  # rows of the same length
        for start in range(0, len(cores), per_row):
            margin = label if start == 0 else " " * len(label)
            above, below = Text(f"  {' ' * len(label)}"), Text(f"  {margin}", style="dim")
            for name, cell in zip(names[start : start + per_row], cells[start : start + per_row], strict=True):
                above.append(name.center(wide) + " ", style="dim")
                below.append("▕", style="dim")
                below.append(cell.label.center(wide), style=f"not dim {cell.style}")
            below.append("▏", style="dim")
            rows += [above, below]
    return rows


def _service_line(index: int, node: NodeBinding, first: int) -> Text:
    service = node.services[index]
    served = [first + rank for rank, place in enumerate(node.ranks) if place.service == index]
    if service.cpu < 0:
        where = "on any CPU"
    else:
        where = f"on CPU {service.cpu}"
        core = node.core_of(service.cpu)
        other = next((job for job in node.other_jobs if job.cpu in core), None)
        where += (
            f", which {other.who} has, too" if other else "" if service.core_is_free else ", which is not its alone"
        )
    text = Text("  ")
    text.append(f"SP{index}", style=f"bold {_colour(index)}")
    return text.append(f" {where}: serves {'rank' if len(served) == 1 else 'ranks'} {format_cpu_list(served)}")


def _rank_line(node: NodeBinding) -> Text:
    if any(not rank.cpus for rank in node.ranks):
        return Text("  ranks are not bound", style="dim")
    if node.oversubscribed:
        return Text("  ranks share cores: those that wait give way to those that compute", style="dim")
    counts = sorted({rank.cores for rank in node.ranks})
    threads = "1 core" if counts == [1] else f"{format_cpu_list(counts)} cores, a thread for each"
    return Text(f"  each rank has {threads}", style="dim")


def draw(console: Console, title: str, node: NodeBinding, first: int = 0, dpu: str = "") -> None:
    """Draws one node: its cores with their processes, and the ranks of each service process.

    Ranks have the color of their service process. `dpu` describes the processes on a DPU.
    """
    console.print(_headline(title, node, first, dpu))
    for row in _core_rows(node, first, console.width):
        console.print(row, no_wrap=True, overflow="ellipsis")
    if dpu:
        console.print(f"  [yellow]{dpu}[/]")
    for index in range(0 if dpu else len(node.services)):
        console.print(_service_line(index, node, first))
    console.print(_rank_line(node))
