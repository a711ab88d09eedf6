"""Runs an example natively and offloaded, in turn, and prints the hidden share of the network time."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape

from outrigger import artifacts, binding, cores, formats, options, settings
from outrigger.bench import example_plot, examples, interrupts, jobs
from outrigger.bench.command import choose_mpis, parse_memories
from outrigger.bench.example_figures import LANES, OVERLAPPING, hidden_percent, legend, network_ms, table
from outrigger.bench.example_runner import Bench, Request
from outrigger.bench.examples import Example
from outrigger.errors import UserError
from outrigger.terminal import console

_LIKE = {2: "2048,2048", 3: "96,96,96"}


def draw_timelines(console: Console, script: Path, traces: Path, family: str, keys: Collection[str]) -> None:
    """One picture of the most informative lanes among these keys, if the script is installed."""
    shown = [lane for lane in LANES if lane.key in keys and lane.key in ("blocking", *OVERLAPPING)]
    picture = traces / f"{family}-timeline.png"
    words = [f"{lane.title}={traces / f'{family}-{lane.key}.json'}" for lane in shown]
    command = [sys.executable, str(script), "--out", str(picture), *words]
    if not script.exists():
        console.print(f"Traces: [bold]{escape(str(traces))}[/]", soft_wrap=True)
    elif subprocess.run(command, check=False).returncode == 0:
        console.print(f"Timeline: [bold]{escape(str(picture))}[/]", soft_wrap=True)


def launch_options(
    hostfile: Path | None, agent: str | None, services: int | None, bind: str | None = None
) -> tuple[str, ...]:
    """Options of `outrigger run` for all lanes: native has the offloaded lane's placement.

    Offloading and the reserved cores are fixed, not measured.
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


def run(console: Console, benches: Sequence[Bench], traces: Path | None, plot: Path | None) -> dict[str, Any]:
    """Measures under each MPI and shows the results; returns the data for --json."""
    results: dict[str, Any] = {}
    panels = []
    measured = interrupts.each(console, benches, lambda bench: (bench.why_native(), bench.measure(console, traces)))
    for bench, (verdict, figures) in measured:
        request = bench.request
        example = request.example
        title = f"{bench.mpi.title}, {request.ranks} ranks, {example.title}"
        panels.append((f"{example.name}: {title}", example.step, figures))
        console.print(table(figures, title, example.step))
        if verdict:
            console.print(f"[bold red]Not offloaded:[/] {verdict}. All lanes are native.")
        console.print(legend(figures, example.step, bench.rounds), style="dim")
        if "--pretend-nodes" in request.offload:
            console.print(
                "Only the offloaded lane crosses pretended nodes; the native ones run on one node.", style="dim"
            )
        if not bench.all_ended:
            console.print(jobs.unended(bench.mpi), style="yellow")
        if traces is not None:
            draw_timelines(console, bench.found.script("fft3d/timeline.py"), traces, bench.mpi.family, figures)
        results[bench.mpi.family] = {
            "request": _as_written(request) | {"rounds": bench.rounds},
            "not_offloaded": verdict,
            "network_ms": network_ms(figures),
            "hidden_percent": {key: hidden_percent(figures, key) for key in OVERLAPPING if key in figures},
            "lanes": {key: asdict(found) for key, found in figures.items()},
        }
    if plot is not None:
        example_plot.save(panels, plot)
        console.print(f"Plot: [bold]{escape(str(plot))}[/]", soft_wrap=True)
    return results


def _as_written(request: Request) -> dict[str, Any]:
    example = request.example
    told = {"example": example.name, "arguments": example.arguments, "pieces": example.pieces}
    return {name: value for name, value in vars(request).items() if name != "example"} | told


def _check_memory(text: str) -> str:
    if len(parse_memories(text)) != 1:
        raise UserError(f"--memory {text}: an example uses one kind")
    return text


def check_grid(text: str, dimensions: int) -> None:
    """Checks --grid before a program is started with it."""
    words = text.split(",")
    if len(words) != dimensions or not all(word.isascii() and word.isdecimal() and int(word) > 0 for word in words):
        raise UserError(
            f"--grid {text}: write {dimensions} numbers of points with commas between, like {_LIKE[dimensions]}"
        )


Rounds = Annotated[int, typer.Option("--rounds", metavar="N", min=1, help="Runs of each lane, in turn.")]
Memory = Annotated[
    str,
    typer.Option(
        "--memory", metavar="NAME", help="Where buffers come from: malloc or alloc_mem.", callback=_check_memory
    ),
]
Agent = Annotated[
    str | None,
    typer.Option("--launch-agent", metavar="CMD", help="As in outrigger run.", rich_help_panel=options.MANY_NODES),
]
PretendNodes = Annotated[
    int | None,
    typer.Option(
        "--pretend-nodes",
        metavar="N",
        min=1,
        help="As in outrigger run, for the offloaded lane.",
        rich_help_panel=options.MANY_NODES,
    ),
]
Bind = Annotated[
    str | None, typer.Option("--bind", metavar="HOW", help="As in outrigger run.", rich_help_panel=options.BINDING)
]
Steps = Annotated[int, typer.Option("--steps", metavar="N", min=1, max=1_000_000, help="Timed steps in each run.")]
Pieces = Annotated[
    int,
    typer.Option(
        "--pieces", metavar="N", min=1, max=1_000_000, help="Pieces of the computation between calls of MPI_Test."
    ),
]


@dataclass(frozen=True)
class _Where:
    """Options of all these commands."""

    ranks: int | None
    rounds: int
    mpi: str
    hostfile: Path | None
    agent: str | None
    pretend_nodes: int | None
    services: int | None
    bind: str | None
    algorithm: list[str] | None
    reach: str | None
    json: Path | None
    plot: Path | None
    build: Path | None


def _measure(example: Example, where: _Where, traces: Path | None = None) -> None:
    found = artifacts.find(where.build)
    chosen_settings = settings.make(
        found, services=where.services, algorithms=where.algorithm, choice=settings.FIXED, reach=where.reach
    )
    bind = None if where.bind is None else binding.parse_bind(where.bind)
    launch = launch_options(where.hostfile, where.agent, where.services, bind)
    offload = offload_options(chosen_settings.algorithms, chosen_settings.reach, where.pretend_nodes)
    ranks = cores.measured_ranks(where.ranks, fewest=1)
    request = Request(example, ranks, where.rounds, launch, offload, binds=where.bind != "none")
    benches = [Bench(request, chosen, found) for chosen in choose_mpis(where.mpi)]
    screen = console()
    results = run(screen, benches, _prepare(traces), where.plot)
    jobs.save_json(screen, where.json, formats.as_json(results))
    interrupts.leave()


def measure_fft3d(
    ranks: options.MeasuredRanks = None,
    grid: Annotated[str, typer.Option("--grid", metavar="LIST", help="Points along x, y and z.")] = "96,96,96",
    variables: Annotated[
        int, typer.Option("--variables", metavar="N", min=1, max=1000, help="Number of fields that are transformed.")
    ] = 4,
    iterations: Annotated[
        int, typer.Option("--iterations", metavar="N", min=1, max=1_000_000, help="Timed iterations in each run.")
    ] = 20,
    rounds: Rounds = 3,
    memory: Memory = "malloc",
    mpi: options.EachMpi = "auto",
    hostfile: options.Hostfile = None,
    agent: Agent = None,
    pretend_nodes: PretendNodes = None,
    services: options.Services = None,
    bind: Bind = None,
    pieces: Pieces = 8,
    algorithm: options.Algorithm = None,
    reach: options.Reach = None,
    json: options.Figures = None,
    plot: options.Picture = None,
    traces: Annotated[
        Path | None, typer.Option("--traces", metavar="DIR", help="Directory for traces and a timeline.")
    ] = None,
    build: options.Build = None,
) -> None:
    """Time a pipelined 3D FFT: native blocking, native nonblocking and offloaded, in turn."""
    check_grid(grid, 3)
    where = _Where(
        ranks, rounds, mpi, hostfile, agent, pretend_nodes, services, bind, algorithm, reach, json, plot, build
    )  # fmt: skip
    _measure(examples.fft3d(grid, variables, iterations, memory, pieces), where, traces)


def measure_halo(
    ranks: options.MeasuredRanks = None,
    grid: Annotated[str, typer.Option("--grid", metavar="LIST", help="Points along both dimensions.")] = "2048,2048",
    fields: Annotated[
        int, typer.Option("--fields", metavar="N", min=1, max=1000, help="Numbers at each point, exchanged together.")
    ] = 4,
    steps: Steps = 50,
    rounds: Rounds = 3,
    memory: Memory = "malloc",
    mpi: options.EachMpi = "auto",
    hostfile: options.Hostfile = None,
    agent: Agent = None,
    pretend_nodes: PretendNodes = None,
    services: options.Services = None,
    bind: Bind = None,
    pieces: Pieces = 16,
    algorithm: options.Algorithm = None,
    reach: options.Reach = None,
    json: options.Figures = None,
    plot: options.Picture = None,
    build: options.Build = None,
) -> None:
    """Time a stencil and its halo exchange: native blocking, native nonblocking and offloaded, in turn."""
    check_grid(grid, 2)
    where = _Where(
        ranks, rounds, mpi, hostfile, agent, pretend_nodes, services, bind, algorithm, reach, json, plot, build
    )  # fmt: skip
    _measure(examples.halo(grid, fields, steps, memory, pieces), where)


def measure_training(
    ranks: options.MeasuredRanks = None,
    layers: Annotated[int, typer.Option("--layers", metavar="N", min=1, help="Number of hidden layers.")] = 6,
    width: Annotated[int, typer.Option("--width", metavar="N", min=1, help="Neurons in each layer.")] = 512,
    samples: Annotated[
        int, typer.Option("--samples", metavar="N", min=1, help="Samples in a batch, over all ranks.")
    ] = 256,
    steps: Steps = 20,
    bucket_kib: Annotated[
        int, typer.Option("--bucket-kib", metavar="N", min=1, help="KiB of gradients in an MPI_Iallreduce.")
    ] = 1024,
    rounds: Rounds = 3,
    memory: Memory = "malloc",
    mpi: options.EachMpi = "auto",
    hostfile: options.Hostfile = None,
    agent: Agent = None,
    pretend_nodes: PretendNodes = None,
    services: options.Services = None,
    bind: Bind = None,
    reach: options.Reach = None,
    json: options.Figures = None,
    plot: options.Picture = None,
    build: options.Build = None,
) -> None:
    """Time a training step with sums of gradients: native blocking, native nonblocking and offloaded, in turn."""
    rules = ["iallreduce=on"]  # sums of floating-point numbers are native by default
    where = _Where(ranks, rounds, mpi, hostfile, agent, pretend_nodes, services, bind, rules, reach, json, plot, build)
    _measure(examples.training(layers, width, samples, steps, bucket_kib, memory), where)
