"""The `outrigger lab predict` command."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from outrigger import artifacts, formats, options, pictures, tables
from outrigger.bar import Bar
from outrigger.bench import interrupts, jobs
from outrigger.errors import UserError
from outrigger.predict import advice, clusters, patterns, rebuild, show, study
from outrigger.predict import figures as figuring
from outrigger.predict.figures import Figures
from outrigger.predict.running import Runner, scratch
from outrigger.predict.study import Study
from outrigger.sizes import parse_sizes
from outrigger.terminal import console
from outrigger.trace import command as tracing

_SEEDS = 5
_STEPS = 5


def parse_counts(text: str | None, option: str) -> tuple[int, ...]:
    """2,4,8"""
    words = [] if text is None else text.split(",")
    for word in words:
        if not word.strip().isdecimal() or int(word) == 0:
            raise UserError(f"{option} {text}: '{word}' is not a number; write 2,4,8")
    return tuple(dict.fromkeys(int(word) for word in words))


def _source(program: str) -> tuple[str | None, rebuild.Rebuilt | None]:
    """A pattern or a trace."""
    if Path(program).is_file():
        return None, rebuild.rebuild(tracing.read(Path(program)), program)
    return patterns.parse(program).text, None


def _run(found: artifacts.Artifacts, asked: Study, screen: Console) -> Figures:
    with scratch() as directory, Bar(screen) as bar:
        runner = Runner(found, asked, Path(directory))
        try:
            runner.run(bar)
        except KeyboardInterrupt:
            if not runner.figures.times:
                raise
            interrupts.say(screen)
    if not runner.figures.times:
        raise UserError("no configuration can be predicted:\n" + "\n".join(dict.fromkeys(runner.figures.refused)))
    return runner.figures


def _show(asked: Study, figures: Figures, screen: Console) -> list[str]:
    changed = asked.changed_clusters()
    names = " and ".join(dict.fromkeys(cluster.name for cluster in changed))
    screen.print(show.table(figures, f"{asked.title()}, on {names}"))
    screen.print(show.LEGEND, style="dim")
    if told := asked.told():
        screen.print(f"Assumptions: {escape('; '.join(told))}.", style="dim")
    for why in dict.fromkeys(figures.refused):
        screen.print(f"Left out: {escape(why)}", style="yellow", soft_wrap=True)
    said = advice.sentences(figures, [one.all_cores for one in changed])
    noisy = any(cluster.has_noise for cluster in changed)
    drawn = [key for cluster in changed for key in clusters.intervals(cluster)]
    if said:
        said.append(advice.uncertainty(asked.seeds, noisy, drawn))
    for sentence in said:
        screen.print(sentence[0].upper() + sentence[1:], style="bold" if sentence != said[-1] else "")
    return said


def _write(asked: Study, figures: Figures, said: list[str], screen: Console, outputs: _Outputs) -> None:
    result = {
        "program": asked.title(), "clusters": [cluster.name for cluster in asked.changed_clusters()],
        "settings": asked.settings, "seeds": asked.seeds, "advice": said,
        "advised": advice.as_written(figures), "left_out": figures.refused,
        "configurations": figuring.as_written(figures),
    }  # fmt: skip
    jobs.save_json(screen, outputs.json, formats.as_json(result))
    if outputs.plot is not None:
        show.save(figures, outputs.plot, asked.title())
        screen.print(f"Plot: [bold]{escape(str(outputs.plot))}[/]", soft_wrap=True)
    if outputs.save is not None:
        study.save(asked, figures, outputs.save)
        screen.print(
            f"Study: [bold]{escape(str(outputs.save))}[/]; outrigger lab predict --repeat does it again", soft_wrap=True
        )


class _Outputs:
    """Output files."""

    def __init__(self, json: Path | None, plot: Path | None, save: Path | None) -> None:
        self.json, self.plot, self.save = json, plot, save

    def check(self) -> None:
        """Before any run."""
        if self.plot is not None:
            pictures.check("--plot", self.plot)


def _repeat(directory: Path, found: artifacts.Artifacts, outputs: _Outputs) -> None:
    asked, before = study.load(directory)
    screen = console()
    version = tables.read(found).version
    if asked.outrigger != version:
        screen.print(f"The study is of Outrigger {asked.outrigger}, this is {version}.", style="yellow")
    figures = _run(found, asked, screen)
    said = _show(asked, figures, screen)
    different = list(study.differences(before, figures))
    for line in different:
        screen.print(line, style="yellow")
    screen.print("The figures differ from the study's." if different else "The same figures as the study's.")
    _write(asked, figures, said, screen, outputs)
    interrupts.leave()
    if different:
        raise typer.Exit(1)


def predict(
    program: Annotated[
        str | None,
        typer.Argument(
            metavar="PROGRAM",
            help="Trace, or a pattern such as ialltoall:64KiB,work=2ms.",
        ),
    ] = None,
    cluster: Annotated[
        list[Path] | None,
        typer.Option("--cluster", metavar="FILE", help="Cluster file; one for each placement."),
    ] = None,
    nodes: Annotated[
        str | None,
        typer.Option("--nodes", metavar="LIST", help="Numbers of nodes: 2,4,8.", show_default="all of the cluster's"),
    ] = None,
    ranks_per_node: Annotated[
        int | None,
        typer.Option(
            "--ranks-per-node", metavar="N", min=1, help="Ranks on each node.", show_default="a trace's, or one a core"
        ),
    ] = None,
    services: Annotated[
        str | None,
        typer.Option("--services", metavar="LIST", help="Service processes per node: 1,2.", show_default="the file's"),
    ] = None,
    placement: Annotated[
        str | None,
        typer.Option(
            "--placement", metavar="LIST", help="none, host_core, dpu.", show_default="the files'",
        ),
    ] = None,
    size: Annotated[
        str | None, typer.Option("--size", metavar="LIST", help="Block sizes for a pattern of one collective: 16K:1M.")
    ] = None,
    change: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Change a key of the file: network.link=400Gbit/s."),
    ] = None,
    seeds: Annotated[
        int, typer.Option("--seeds", metavar="N", min=1, max=1000, help="Seeds for noise, skew and intervals.")
    ] = _SEEDS,
    steps: Annotated[
        int, typer.Option("--steps", metavar="N", min=1, max=1000, help="Repetitions in each run.")
    ] = _STEPS,
    scaling: Annotated[
        str, typer.Option("--scaling", metavar="weak|strong", help="Keep the work of each rank, or of the job.")
    ] = "weak",
    threads_per_rank: Annotated[
        int | None,
        typer.Option("--threads-per-rank", metavar="N", min=1, help="Cores per rank.", show_default="all together"),
    ] = None,
    native: Annotated[
        list[str] | None,
        typer.Option("--native", metavar="RULE", help="Algorithm of the native MPI: ialltoall=pairwise."),
    ] = None,
    algorithm: Annotated[
        list[str] | None,
        typer.Option("--algorithm", metavar="RULE", help="Algorithm when offloaded: ialltoall=scatter_dest."),
    ] = None,
    offload_blocking: Annotated[bool, typer.Option("--offload-blocking", help="Offload blocking calls, too.")] = False,
    test_every_us: Annotated[
        float, typer.Option("--test-every-us", metavar="US", min=0.1, help="Work between two calls of MPI_Test.")
    ] = 100.0,
    save: Annotated[
        Path | None, typer.Option("--save", metavar="DIR", help="Save everything needed to repeat it.")
    ] = None,
    repeat: Annotated[
        Path | None, typer.Option("--repeat", metavar="DIR", help="Repeat a study saved by --save.")
    ] = None,
    json: options.Figures = None,
    plot: Annotated[Path | None, typer.Option("--plot", metavar="FILE", help="Picture: .png, .svg or .pdf.")] = None,
    build: options.Build = None,
) -> None:  # fmt: skip
    """Predict the time of a program on another cluster, natively and offloaded.

    Patterns: fft:N=1024,pencil; training:params=25M,buckets=8,work=200ms; halo:N=8192; ialltoall:64KiB,work=2ms. For
    a trace, use run --trace.
    """
    outputs = _Outputs(json, plot, save)
    outputs.check()
    found = artifacts.find(build)
    if repeat is not None:
        if program is not None or cluster:
            raise UserError("--repeat repeats a saved study: name no program and no cluster")
        return _repeat(repeat, found, outputs)
    if program is None or not cluster:
        raise UserError("name a program and a cluster: outrigger lab predict fft:N=1024,pencil --cluster FILE")
    if scaling not in ("weak", "strong"):
        raise UserError(f"--scaling {scaling}: weak or strong")
    pattern, trace = _source(program)
    files = tuple(clusters.read(path) for path in cluster)
    chosen = tuple(word.strip() for word in placement.split(",")) if placement else ()
    asked = Study(
        outrigger=tables.read(found).version, command=tuple(sys.argv[1:]), clusters=files,
        pattern=pattern, trace=trace, trace_name=program if trace else "",
        nodes=parse_counts(nodes, "--nodes"), ranks_per_node=ranks_per_node,
        services=parse_counts(services, "--services"),
        placements=chosen or tuple(dict.fromkeys(one.placement for one in files)),
        sizes=tuple(parse_sizes(size)) if size else (), settings=tuple(change or ()), seeds=seeds, steps=steps,
        strong=scaling == "strong", threads_per_rank=threads_per_rank, native=tuple(native or ()),
        algorithms=tuple(algorithm or ()), offload_blocking=offload_blocking, test_every_us=test_every_us,
    )  # fmt: skip
    study.check(asked)
    screen = console()
    figures = _run(found, asked, screen)
    _write(asked, figures, _show(asked, figures, screen), screen, outputs)
    interrupts.leave()
