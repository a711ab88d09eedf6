"""`outrigger info --dpufile`: whether each DPU can be reached, how it reaches its host's memory, and how fast."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from outrigger import dpu_process, dpus, formats, launchers, tables
from outrigger.artifacts import Artifacts
from outrigger.captured import captured
from outrigger.errors import UserError
from outrigger.hostfile import is_this_host
from outrigger.hosts import Where
from outrigger.plan import Share

_PROBE_S = 60.0
_PROBED_AT_ONCE = 16
_USEFUL = ("alias", "rdma")


@dataclass(frozen=True, kw_only=True)
class Probed:
    """Output of `outriggerd dpu-probe`."""

    reach: str
    """alias or rdma; otherwise unusable, see `problem`."""
    device: str = ""
    round_trip_us: float | None = None
    bandwidth_bytes_per_s: float | None = None
    problem: str = ""

    @property
    def useful(self) -> bool:
        """True if service processes can run there."""
        return self.reach in _USEFUL


@dataclass(frozen=True, kw_only=True)
class DpuFinding:
    """A DPU as its host sees it."""

    dpu: str
    host: str
    reach: str = "none"
    device: str = ""
    round_trip_us: float | None = None
    bandwidth_bytes_per_s: float | None = None
    cores: int | None = None
    problem: str = ""


def parse_probe(text: str) -> Probed:
    """Parses the output of `outriggerd dpu-probe`."""
    return formats.parse(text, Probed, "what outriggerd dpu-probe printed")


def _probe(where: Where, daemon: Path, share: Share, ready: dpu_process.Ready, secret: str) -> Probed:
    """Probes from the host whose memory the DPU must reach."""
    command = [str(daemon), "dpu-probe", f"{share.dpu}:{ready.port}"]
    if not is_this_host(share.host.name):
        command = launchers.on_node(where.agent, share.host.name, command, slurm=where.slurm)
    try:
        result = captured(command, _PROBE_S, said=f"{secret}\n")
        if result.returncode == 0:
            return parse_probe(result.stdout)
        said = (result.stderr.strip() or result.stdout.strip()).splitlines()
        problem = said[-1].removeprefix("outriggerd: ") if said else f"exit code {result.returncode}"
    except UserError as error:
        problem = str(error)
    return Probed(reach="none", problem=problem)


def collect(where: Where, how: dpu_process.Way, daemon: Path) -> list[DpuFinding]:
    """Starts all DPUs and lets each host probe its DPU."""
    secret = dpus.new_secret()

    def find(attempt: dpus.Attempt) -> DpuFinding:
        share = attempt.share
        dpu, host = share.dpu or "", share.host.name
        if attempt.running is None or attempt.running.ready is None:
            return DpuFinding(dpu=dpu, host=host, problem=attempt.problem)
        ready = attempt.running.ready
        probed = _probe(where, daemon, share, ready, secret)
        if not probed.useful:
            return DpuFinding(dpu=dpu, host=host, device=probed.device, cores=ready.cores, problem=probed.problem)
        return DpuFinding(dpu=dpu, host=host, cores=ready.cores, **asdict(probed))

    with dpus.each_started(where.shares, how, secret) as attempts, ThreadPoolExecutor(_PROBED_AT_ONCE) as pool:
        return list(pool.map(find, attempts))


def _round_trip(finding: DpuFinding) -> str:
    return "" if finding.round_trip_us is None else f"{finding.round_trip_us:.1f} µs"


def _bandwidth(finding: DpuFinding) -> str:
    rate = finding.bandwidth_bytes_per_s
    return "" if rate is None else f"{rate / 1e9:.1f} GB/s" if rate >= 1e9 else f"{rate / 1e6:.0f} MB/s"


def show(console: Console, findings: Sequence[DpuFinding], reaches: Sequence[tables.Reach]) -> None:
    """Prints a line for each DPU, the problems of unusable ones, and the reaches of the others."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for column in ("", "DPU", "host", "reach", "device"):
        table.add_column(column, no_wrap=column != "device", style="bold" if column == "DPU" else "")
    for column in ("round trip", "bandwidth", "cores"):
        table.add_column(column, justify="right", no_wrap=True)
    for each in findings:
        mark = "[green]●[/]" if not each.problem else "[yellow]○[/]"
        cores = "" if each.cores is None else str(each.cores)
        table.add_row(mark, each.dpu, each.host, each.reach, each.device, _round_trip(each), _bandwidth(each), cores)
    console.print(table)
    for each in findings:
        if each.problem:
            console.print(f"[yellow]○[/] [bold]{each.dpu}[/]: {escape(each.problem)}", soft_wrap=True)
    useless = sum(bool(each.problem) for each in findings)
    if useless:
        jobs = "a job with it" if useless == 1 else "a job with one of them"
        words = f"{useless} of {len(findings)} of no use; {jobs} runs its service processes on the hosts."
        console.print(words, soft_wrap=True)
    for row in reaches:
        if row.name in _USEFUL and any(each.reach == row.name for each in findings):
            console.print(f"[dim]{row.name}: {row.cost}[/]")


def run(console: Console, where: Where, how: dpu_process.Way, found: Artifacts, *, as_json: bool) -> bool:
    """`outrigger info --dpufile`; returns whether all are usable."""
    findings = collect(where, how, found.daemon)
    if as_json:
        print(formats.as_json(findings))
    else:
        show(console, findings, tables.read(found).reaches)
    return not any(finding.problem for finding in findings)
