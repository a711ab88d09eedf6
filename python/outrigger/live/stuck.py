"""`outrigger stuck`: which ranks of a job wait in which call, and for which ranks."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from outrigger import formats
from outrigger.live import options, present, remote, sources, standstill
from outrigger.live.names import began, is_torch
from outrigger.live.snapshot import Node
from outrigger.live.standstill import JobState
from outrigger.live.waits import Doing, OpenCall
from outrigger.report_data import format_seconds, plural
from outrigger.terminal import console

_MOST_CALLS = 10
_MOST_LINES = 8
"""Per call; --json has all of them."""
_MOST_RANKS = 40
_MOST_LOOKS = 5
"""At a job whose nodes say nothing new, as those of other machines may between two of their updates."""
"""Letters of a list of ranks."""
_NOTHING = (
    "publishes live data here. A job shows its calls if it was started with `outrigger run --live` or --report, or "
    "with OUTRIGGER_LIVE=on in its environment. Of any other job, `gdb -batch -p PID -ex bt` shows where a rank is."
)


@dataclass
class States:
    """All jobs at one time."""

    version: int
    jobs: list[JobState]
    problems: list[str]
    """Failed sources, with reasons."""
    refused: int
    """Keepers of other users' jobs."""
    ended: list[str] = field(default_factory=list)
    """Jobs of the first look that were gone at the last."""


def _cut(ranks: str) -> str:
    if len(ranks) <= _MOST_RANKS:
        return ranks
    shown = ranks[:_MOST_RANKS].rpartition(",")[0]
    return f"{shown},…"


def _for_how_long(one: Doing) -> str:
    least, most = format_seconds(one.least_seconds), format_seconds(one.most_seconds)
    return most if least == most or one.count == 1 else f"{least} - {most}"


def _place(one: Doing) -> str:
    return one.place + (f", called by {one.called_by}" if one.called_by else "")


_IN_IT = {"wait": "waiting", "background": "in the background"}


def what(one: Doing, *, is_torch: bool = False) -> str:
    """Text about these ranks, without the place."""
    called = f"{one.call} on {one.communicator}"
    if one.state == "call":
        return f"in {called}"
    if one.state == "wait":
        return f"wait for {called}"
    if one.state == "background":
        return f"in {called}, in the background"
    if one.state == "message":
        several = f", and {plural(one.more_threads, 'more thread')} in such calls" if one.more_threads else ""
        return f"in {one.call}{one.message and ' ' + one.message}{several}"
    last = f", since {one.call}" if one.call else ", none so far"
    if one.more_threads:
        last += f", with {plural(one.more_threads, 'thread')} in calls with messages"
    return {
        "tests": f"test requests, in no collective{last}",
        "finalized": "have ended their groups" if is_torch else "have called MPI_Finalize",
        "gone": "have ended",
    }.get(one.state, f"in no collective{last}")


def _rows(table: Table, label: str, doings: Sequence[Doing], *, named: bool, is_torch: bool) -> None:
    """`named`: with what they do."""
    for at, one in enumerate(doings[:_MOST_LINES]):
        does = what(one, is_torch=is_torch) if named else _IN_IT.get(one.state, "in the call")
        table.add_row(
            Text(label if at == 0 else "", style="dim"),
            Text(_cut(one.ranks)),
            _for_how_long(one),
            Text.assemble(does, (f"  {_place(one)}" if one.place else "", "cyan")),
        )
    left = doings[_MOST_LINES:]
    if left:
        table.add_row("", Text(f"and {plural(sum(one.count for one in left), 'more rank')}", style="dim"), "", "")


def _table() -> Table:
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0), expand=False)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True, justify="right")
    table.add_column(overflow="fold")
    return table


def _call(out: Console, call: OpenCall, *, is_torch: bool) -> None:
    inside, absent = (sum(one.count for one in doings) for doings in (call.inside, call.absent))
    of = f" of {call.size:,}" if call.size else ""
    missing = f", {absent:,} absent" if absent else ""
    out.print(
        Text.assemble(
            "\n", (f"{call.call} on {call.communicator}", "bold"), f", call {call.number:,}",
            f": {inside:,}{of} {'rank is' if inside == 1 and not of else 'ranks are'} in it{missing}",
        )
    )  # fmt: skip
    table = _table()
    _rows(table, "  in it", call.inside, named=False, is_torch=is_torch)
    _rows(table, "  absent", call.absent, named=True, is_torch=is_torch)
    for label, ranks in (("  ended it", call.ended), ("  not seen", call.unseen)):
        if ranks:
            table.add_row(Text(label, style="dim"), Text(_cut(ranks)), "", "")
    if call.unknown:
        table.add_row(Text("  not known", style="dim"), f"{call.unknown:,}", "", "other ranks of the communicator")
    out.print(table)


def show(out: Console, job: JobState) -> None:
    """For a terminal."""
    here = f"  ({plural(job.ranks, 'rank')} here)" if job.ranks < job.world else ""
    out.print(
        f"[bold]{escape(job.job)}[/]  {plural(job.world, 'rank')}, {plural(job.nodes, 'node')}, {escape(job.mpi)}, "
        f"{format_seconds(job.run_seconds)} since {began(job.mpi)}; "
        f"last change {format_seconds(job.still_seconds)} ago{here}"
    )
    for call in job.calls[:_MOST_CALLS]:
        _call(out, call, is_torch=is_torch(job.mpi))
    if len(job.calls) > _MOST_CALLS:
        out.print(f"\nand {plural(len(job.calls) - _MOST_CALLS, 'more call')}", style="dim")
    if job.outside:
        out.print(Text("\nOther ranks" if job.calls else "\nRanks", style="bold"))
        table = _table()
        _rows(table, "", job.outside, named=True, is_torch=is_torch(job.mpi))
        out.print(table)
    out.print(Text(f"\n{job.verdict}", style="bold" if job.moved else "bold red"))
    for line in job.look_at:
        out.print(Text(f"  {line}", style="dim"))


def _by_job(nodes: Sequence[Node], job: str | None) -> dict[str, list[Node]]:
    found: dict[str, list[Node]] = {}
    for node in nodes:
        if job in (None, node.job):
            found.setdefault(node.job, []).append(node)
    return found


def _with_ranks(nodes: Sequence[Node]) -> list[Node]:
    return sorted((node for node in nodes if node.ranks), key=lambda node: node.node)


def _says_old(before: dict[str, list[Node]], now: dict[str, list[Node]]) -> bool:
    """True if a node has said nothing new."""
    times = {(name, node.host, node.keeper): node.at_ns for name, nodes in before.items() for node in nodes}
    return any(times.get((name, node.host, node.keeper)) == node.at_ns for name, nodes in now.items() for node in nodes)


def look(source: sources.Source, job: str | None, interval: float) -> States:
    """Looks twice, or a few times more if a node has said nothing new."""
    told = source()
    before = _by_job(told.nodes, job)
    for _ in range(_MOST_LOOKS if before or told.problems else 0):
        time.sleep(interval)
        told = source()
        if not _says_old(before, _by_job(told.nodes, job)):
            break
    present.learn_places(told.nodes)
    now = _by_job(told.nodes, job)
    jobs = []
    for name, all_nodes in now.items():
        if nodes := _with_ranks(all_nodes):
            jobs.append(standstill.state_of(nodes, before.get(name, [])))
    return States(1, jobs, list(told.problems), told.refused, sorted(before.keys() - now.keys()))


def stuck(
    job: Annotated[str | None, typer.Argument(metavar="JOB", help="Name of the job, as top shows it.")] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    interval: options.Interval = 1.0,
    addresses: options.From = None,
    hosts: options.Hosts = None,
    token_file: options.TokenFile = None,
    feed: options.Feed = None,
) -> None:
    """Show which ranks of a job wait in which collective, since when, and for which ranks.

    Without JOB, shows all jobs. Looks twice, to see which ranks move. With --live, also shows waits for messages.
    Shows jobs that were started with --live or --report, or with OUTRIGGER_LIVE=on.
    Ends with code 1 if there is no such job.
    """
    by_ssh = remote.hosts(hosts or [])
    source = sources.of(addresses or [], token_file, feed, by_ssh)
    remote.wait_for_answers(by_ssh)
    states = look(source, job, interval)
    out = console()
    if json:
        typer.echo(formats.as_json(asdict(states)))
    else:
        for at, one in enumerate(states.jobs):
            if at:
                out.print()
            show(out, one)
        for name in states.ended:
            out.print(f"{escape(name)} has ended meanwhile.")
        if not states.jobs and not states.ended:
            out.print(f"{f'No running job {escape(job)}' if job is not None else 'No running job'} {_NOTHING}")
        for problem in states.problems:
            out.print(Text(problem, style="red"))
        if states.refused:
            jobs = plural(states.refused, "job")
            out.print(f"{jobs} of other users: only these users and root see their data.", style="dim")
    if not states.jobs:
        raise typer.Exit(1)
