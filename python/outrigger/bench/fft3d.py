"""Runs examples/fft3d native and offloaded, in turn, and says what part of the network time is hidden."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console

from outrigger import artifacts, binding, formats, options, settings
from outrigger.bench import jobs
from outrigger.bench.command import choose_mpis
from outrigger.bench.fft3d_figures import LANES, OVERLAPPING, hidden_percent, legend, network_ms, table
from outrigger.bench.fft3d_runner import Bench, Request
from outrigger.errors import UserError
from outrigger.terminal import console

_TIMELINE = Path(__file__).resolve().parents[3] / "examples" / "fft3d" / "timeline.py"


def draw_timelines(console: Console, traces: Path, family: str) -> None:
    """One picture of the lanes that say most, where the script is there."""
    shown = [lane for lane in LANES if lane.key == "blocking" or lane.key in OVERLAPPING]
    picture = traces / f"{family}-timeline.png"
    words = [f"{lane.title}={traces / f'{family}-{lane.key}.json'}" for lane in shown]
    command = [sys.executable, str(_TIMELINE), "--out", str(picture), *words]
    if not _TIMELINE.exists():
        console.print(f"Traces: [bold]{traces}[/]", soft_wrap=True)
    elif subprocess.run(command, check=False).returncode == 0:
        console.print(f"Timeline: [bold]{picture}[/]", soft_wrap=True)


def launch_options(
    hostfile: Path | None, agent: str | None, services: int | None, bind: str | None = None
) -> tuple[str, ...]:
    """Options of `outrigger run` for all lanes: native has the offloaded one's placement.

    What is offloaded, and which cores are kept, is not left to what is measured.
    """
    options = {
        "--choice": settings.FIXED,
        "--hostfile": hostfile,
        "--launch-agent": agent,
        "--services": services,
        "--bind": bind,
    }
    return tuple(word for name, value in options.items() if value is not None for word in (name, str(value)))


def offload_options(algorithms: Sequence[str], reach: str | None, pretend_nodes: int | None) -> tuple[str, ...]:
    """Options of `outrigger run` that the native lanes do not get."""
    words = ["--algorithm", ",".join(algorithms)] if algorithms else []  # one option: their order counts
    words += ["--reach", reach] if reach is not None else []
    words += ["--pretend-nodes", str(pretend_nodes)] if pretend_nodes is not None else []
    return tuple(words)


def _prepare(traces: Path | None) -> Path | None:
    if traces is None:
        return None
    try:
        traces.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"--traces {traces}: {error.strerror}") from error
    return traces.resolve()


def run(console: Console, benches: Sequence[Bench], traces: Path | None) -> dict[str, Any]:
    """Measures under each MPI and shows the figures; what --json gets."""
    results: dict[str, Any] = {}
    for bench in benches:
        verdict = bench.why_native()
        figures = bench.measure(console, traces)
        request = bench.request
        what = f"{bench.mpi.title}, {request.ranks} ranks, {request.grid} points, {request.variables} variables"
        console.print(table(figures, f"{what}, {request.memory}"))
        if verdict:
            console.print(f"[bold red]Not offloaded:[/] {verdict}. All lanes are native.")
        console.print(legend(figures, request.iterations, request.rounds), style="dim")
        if "--pretend-nodes" in request.offload:
            console.print(
                "Only the offloaded lane crosses pretended nodes; the native ones run on one node.", style="dim"
            )
        if not bench.all_ended:
            console.print(jobs.unended(bench.mpi), style="yellow")
        if traces is not None:
            draw_timelines(console, traces, bench.mpi.family)
        results[bench.mpi.family] = {
            "request": asdict(request),
            "not_offloaded": verdict,
            "network_ms": network_ms(figures),
            "hidden_percent": {key: hidden_percent(figures, key) for key in OVERLAPPING},
            "lanes": {key: asdict(found) for key, found in figures.items()},
        }
    return results


def measure_fft3d(
    ranks: options.Ranks = 4,
    grid: Annotated[str, typer.Option("--grid", help="Points along x, y and z.")] = "96,96,96",
    variables: Annotated[int, typer.Option("--variables", help="Fields that are transformed.")] = 4,
    iterations: Annotated[int, typer.Option("--iterations", help="Timed, in each run.")] = 20,
    rounds: Annotated[int, typer.Option("--rounds", min=1, help="Runs of each lane, in turn.")] = 3,
    memory: Annotated[str, typer.Option("--memory", help="malloc or alloc_mem.")] = "malloc",
    mpi: options.EachMpi = "auto",
    hostfile: options.Hostfile = None,
    agent: Annotated[str | None, typer.Option("--launch-agent", help="As for run.")] = None,
    pretend_nodes: Annotated[int | None, typer.Option("--pretend-nodes", help="As for run, when offloaded.")] = None,
    services: options.Services = None,
    bind: Annotated[str | None, typer.Option("--bind", metavar="HOW", help="As for run.")] = None,
    pieces: Annotated[
        int, typer.Option("--pieces", min=1, help="Of each transform, with MPI_Test between, in that lane.")
    ] = 8,
    algorithm: options.Algorithm = None,
    reach: options.Reach = None,
    json: options.Figures = None,
    traces: Annotated[Path | None, typer.Option("--traces", help="Directory for traces and a timeline.")] = None,
    build: options.Build = None,
) -> None:
    """Time a pipelined 3D FFT: native blocking, native nonblocking and offloaded, in turn."""
    found = artifacts.find(build)
    chosen_settings = settings.make(found, services=services, algorithms=algorithm, choice=settings.FIXED, reach=reach)
    launch = launch_options(hostfile, agent, services, None if bind is None else binding.parse_bind(bind))
    offload = offload_options(chosen_settings.algorithms, chosen_settings.reach, pretend_nodes)
    request = Request(
        ranks, grid, variables, iterations, memory, rounds, launch, offload, binds=bind != "none", pieces=pieces
    )
    benches = [Bench(request, chosen, found) for chosen in choose_mpis(mpi)]
    screen = console()
    results = run(screen, benches, _prepare(traces))
    jobs.save_json(screen, json, formats.as_json(results))
