"""`outrigger top`: running jobs on the terminal."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Annotated

import typer
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from outrigger import formats
from outrigger.errors import UserError
from outrigger.live import options, remote, sources
from outrigger.live.answer import Told
from outrigger.live.charts import bar, sparkline
from outrigger.live.names import began, is_torch
from outrigger.live.tracker import Tracker
from outrigger.live.view import BetweenNodes, CallView, DpuView, JobView, ServiceView, View
from outrigger.report_data import format_bytes, format_seconds, plural
from outrigger.terminal import console

FIRST_LOOKS_SECONDS = 1.0
"""Between the two looks of --once."""
_EXPOSED, _HIDDEN = "yellow", "green"
_LINES_OF_ONCE = 45
"""Per job; --json has all of it."""
_VERY_WIDE = 150
_NARROW = 100
_VERY_NARROW = 72
_NOTHING = (
    "No running job publishes live data here. Start one with `outrigger run --live`, or set OUTRIGGER_LIVE=on in "
    "its environment. Only root sees jobs of other users; native jobs publish none."
)


def _refused(keepers: int) -> str:
    return f"{plural(keepers, 'job')} of other users on this machine: only these users and root can see their data."


def _percent(part: float) -> str:
    return f"{part:.0%}" if part >= 0.0995 or part <= 0 else f"{part:.1%}"


def _rate(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.1f}"


def _table(*columns: tuple[str, str]) -> Table:
    table = Table(box=None, header_style="dim", pad_edge=False, padding=(0, 1), expand=False)
    for name, justify in columns:
        table.add_column(name, justify="right" if justify == "right" else "left", no_wrap=True, overflow="ellipsis")
    return table


def _line(label: str = "") -> Text:
    """Cut, not wrapped, because its lines are counted."""
    return Text(label, style="dim", no_wrap=True, overflow="ellipsis")


def _heading(job: JobView, width: int) -> Text:
    told = sum(node.ranks for node in job.nodes)
    text = Text(no_wrap=True, overflow="ellipsis")
    text.append(job.job, style="bold")
    text.append(f"  {plural(job.world, 'rank')}, {plural(job.nodes_of_job, 'node')}, {job.mpi}, ")
    text.append(format_seconds(job.run_seconds) + (f" since {began(job.mpi)}" if width >= _VERY_NARROW else ""))
    if told < job.world:
        text.append(f"  ({plural(told, 'rank')} here)", style="dim")
    return text


def _rates(job: JobView, width: int) -> Table:
    chart = max(10, min(60, width - 40))
    grid = _table(("", "left"), ("", "right"), ("", "left"))
    grid.show_header = False
    history = job.history
    rows = (
        ("exposed", _percent(job.exposed), history.exposed, 1.0, _EXPOSED),
        ("hidden", _percent(job.hidden), history.hidden, 1.0, _HIDDEN),
        ("calls/s", _rate(job.calls_per_second), history.calls_per_second, None, "cyan"),
        ("bytes/s", format_bytes(int(job.bytes_per_second)), history.bytes_per_second, None, "cyan"),
    )
    for name, value, values, top, style in rows:
        grid.add_row(Text(name, style="dim"), value, Text(sparkline(values, chart, top), style=style))
    return grid


def _latest(call: CallView) -> str:
    if call.latest_rank < 0:
        return "-"
    return f"rank {call.latest_rank} {format_seconds(call.latest_mean_seconds)}"


def _sizes(call: CallView) -> str:
    if not call.most_bytes:
        return "-"
    least, most = format_bytes(call.least_bytes), format_bytes(call.most_bytes)
    return most if least == most else f"{least} - {most}"


def _calls(calls: Sequence[CallView], rows: int, width: int) -> Table:
    wide, waits = width >= _NARROW, width >= _VERY_NARROW
    columns = [("call on communicator", "left"), ("calls/s", "right")]
    columns += [("calls", "right"), ("bytes a call", "right")] if wide else []
    columns += [("served", "right")]  # offloaded, or done by the ranks
    columns += [("exposed", "right"), ("hidden", "right")]
    columns += [("waited for", "right")] if waits else []
    table = _table(*columns)
    table.columns[0].overflow = "ellipsis"
    table.columns[0].max_width = width - (85 if wide else 53 if waits else 35)
    for call in calls[:rows]:
        cells: list[str | Text] = [
            Text(f"{call.call} {call.communicator}"),
            _rate(call.calls_per_second),
            *([f"{call.calls:,}", _sizes(call)] if wide else []),
            _percent((call.offloaded + call.by_ranks) / max(call.calls, 1)),
            Text(_percent(call.exposed), style=_EXPOSED if call.exposed >= 0.01 else ""),
            Text(_percent(call.hidden), style=_HIDDEN if call.hidden >= 0.01 else ""),
            *([_latest(call)] if waits else []),
        ]
        table.add_row(*cells)
    return table


def _services(services: Sequence[ServiceView], rows: int, width: int) -> Table:
    bar_width = 20 if width >= _VERY_NARROW else 10
    table = _table(("service", "left"), ("CPU", "right"), ("ran, waited", "left"), ("", "right"), ("", "left"))
    for service in services[:rows]:
        remarks = []
        if service.restarts:
            remarks.append(f"replaced {service.restarts}x")
        if service.other_job:
            remarks.append("core shared with another job")
        elif not service.core_is_free and service.cpu >= 0:
            remarks.append("core shared with ranks")
        table.add_row(
            f"{service.number} on node {service.node}",
            str(service.cpu) if service.cpu >= 0 else "any",
            Text.assemble(*bar([(service.ran, "cyan"), (service.waited, "red")], bar_width)),
            _percent(service.ran),
            Text(", ".join(remarks), style="dim"),
        )
    return table


def _ranks_line(job: JobView) -> Text:
    """Ranks with the most time in collectives, and ranks waited for."""
    ranks = job.ranks
    text = _line("ranks: ")
    if not ranks.rank:
        return text.append("none counts yet", style="not dim")
    most = max(range(len(ranks.rank)), key=lambda at: ranks.exposed[at])
    text.append(f"{ranks.rank[most]} is most exposed, {_percent(ranks.exposed[most])}", style="not dim")
    late = max(range(len(ranks.rank)), key=lambda at: ranks.late[at])
    if ranks.late[late] > 0:
        text.append(f"; {ranks.rank[late]} is latest, by {format_seconds(ranks.late[late])}/s", style="not dim")
    asleep = sum(ranks.asleep) / len(ranks.rank)
    if asleep > 0:
        text.append(f"; asleep in waits {_percent(asleep)} of the time", style="not dim")
    return text


def _links_line(job: JobView) -> Text:
    text = _line("links: ")
    shown = [
        f"{link.reach} {format_bytes(int(link.bytes_per_second))}/s"
        + (f" ({link.transports})" if link.transports else "")
        for link in job.links[:4]
    ]
    text.append(", ".join(shown) or "no bytes yet", style="not dim")
    return text


def _between_line(between: BetweenNodes, width: int) -> Text:
    """Busiest links between nodes, and the sum of all others."""
    text = _line("nodes: ")
    most = 3 if width >= _VERY_NARROW else 2
    shown, left = between.links[:most], between.links[most:]
    words = [f"{way.source}→{way.target} {format_bytes(int(way.bytes_per_second))}/s" for way in shown]
    others = len(left) + between.other_links
    if others:
        rate = sum(way.bytes_per_second for way in left) + between.other_bytes_per_second
        words.append(f"{plural(others, 'other')} {format_bytes(int(rate))}/s")
    return text.append(", ".join(words), style="not dim")


def _dpus_line(dpus: Sequence[DpuView], width: int) -> Text:
    """The busiest DPUs, and the sum of all others: bytes read and written in their hosts' memory."""
    text = _line("DPUs:  ")
    order = sorted(dpus, key=lambda dpu: (-dpu.read_bytes_per_second - dpu.written_bytes_per_second, dpu.node))
    most = 2 if width >= _VERY_WIDE else 1
    words = [f"{dpu.name} {_both_ways([dpu])}" for dpu in order[:most]]
    if order[most:]:
        words.append(f"{plural(len(order) - most, 'other')} {_both_ways(order[most:])}")
    text.append(", ".join(words), style="not dim")
    return text.append(" of their hosts' memory" if len(dpus) > 1 else " of its host's memory")


def _both_ways(dpus: Sequence[DpuView]) -> str:
    read = format_bytes(int(sum(dpu.read_bytes_per_second for dpu in dpus)))
    written = format_bytes(int(sum(dpu.written_bytes_per_second for dpu in dpus)))
    return f"reads {read}/s, writes {written}/s" if len(dpus) == 1 else f"read {read}/s, write {written}/s"


def _job(job: JobView, width: int, rows: int) -> RenderableType:
    """`rows`: for calls and services together."""
    services = min(len(job.services), max(1, rows // 3))
    calls = max(1, rows - services)
    parts: list[RenderableType] = [_heading(job, width), _rates(job, width)]
    parts.append(_calls(job.calls, calls, width))
    hidden = len(job.calls) - calls
    if hidden > 0:
        parts.append(Text(f"and {plural(hidden, 'more row')}", style="dim"))
    parts.append(_ranks_line(job))
    if not is_torch(job.mpi):
        parts.append(_links_line(job))
    if job.between_nodes.links:
        parts.append(_between_line(job.between_nodes, width))
    if job.dpus:
        parts.append(_dpus_line(job.dpus, width))
    if job.services:
        parts.append(_services(job.services, services, width))
    parts += [Text(warning, style="red") for warning in job.warnings]
    if job.standstill:
        parts.append(Text(f"{job.standstill} `outrigger stuck {job.job}` shows more.", style="bold red"))
    if job.rows_left_out:
        parts.append(Text(f"{plural(job.rows_left_out, 'row')} left out: too many communicators", style="red"))
    return Group(*parts)


def _fixed_lines(jobs: Sequence[JobView]) -> int:
    """Lines of a job beside calls and services."""
    more = any(job.between_nodes.links for job in jobs) + any(job.dpus for job in jobs)
    return 10 + more + 2 * any(job.standstill for job in jobs)


def render(view: View, width: int, height: int) -> RenderableType:
    """The whole view in this many lines."""
    others = [Text(_refused(view.refused), style="dim")] if view.refused else []
    if not view.jobs:
        problems = [Text(problem, style="red") for problem in view.problems]
        if not view.problems and not view.refused:
            others = [Text(_NOTHING, style="dim")]
        return Group(*others, *problems)
    fixed = _fixed_lines(view.jobs)
    shown = max(1, min(len(view.jobs), height // (fixed + 2)))
    rows = max(2, (height - 1) // shown - fixed)
    parts: list[RenderableType] = []
    for job in view.jobs[:shown]:
        parts.append(_job(job, width, rows))
    if len(view.jobs) > shown:
        parts.append(Text(f"and {plural(len(view.jobs) - shown, 'more job')}", style="dim"))
    parts += [Text(problem, style="red") for problem in view.problems]
    return Group(*parts)


def _watch(out: Console, source: sources.Source, tracker: Tracker, interval: float) -> None:
    def now() -> RenderableType:
        told = source()
        return render(tracker.update(told.nodes, time.monotonic(), told.problems, told.refused), out.width, out.height)

    try:
        with Live(now(), console=out, screen=True, auto_refresh=False) as live:
            while True:
                time.sleep(interval)
                live.update(now(), refresh=True)
    except KeyboardInterrupt:
        return


def top(
    once: Annotated[bool, typer.Option("--once", help="Observe for one second, print the figures, and end.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON; implies --once.")] = False,
    interval: options.Interval = 1.0,
    addresses: options.From = None,
    hosts: options.Hosts = None,
    token_file: options.TokenFile = None,
    feed: options.Feed = None,
    job: Annotated[str | None, typer.Option("--job", metavar="NAME", help="Show only the job with this name.")] = None,
) -> None:
    """Show running jobs: the cost of their collectives, hidden time and late ranks.

    Shows jobs that were started with --live or --report, or with OUTRIGGER_LIVE=on.
    --once and --json end with code 1 if no job was found and a source failed.
    """
    by_ssh = remote.hosts(hosts or [])
    source = sources.of(addresses or [], token_file, feed, by_ssh)
    if job is not None:
        source = _only(source, job)
    tracker, out = Tracker(), console()
    if not (once or json):
        if not out.is_terminal:
            raise UserError("top needs a terminal; --once or --json need none")
        return _watch(out, source, tracker, interval)
    remote.wait_for_answers(by_ssh)
    tracker.update(source().nodes, time.monotonic())
    time.sleep(FIRST_LOOKS_SECONDS)
    told = source()
    view = tracker.update(told.nodes, time.monotonic(), told.problems, told.refused)
    if json:
        typer.echo(formats.as_json(view))
    else:
        out.print(render(view, out.width, _LINES_OF_ONCE * max(1, len(view.jobs))))
    if view.problems and not view.jobs:
        raise typer.Exit(1)
    return None


def _only(source: sources.Source, job: str) -> sources.Source:
    def ask() -> Told:
        told = source()
        return Told(tuple(node for node in told.nodes if node.job == job), told.problems, told.refused)

    return ask
