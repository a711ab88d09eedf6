"""A study as a table and as a picture."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich import box
from rich.table import Table
from rich.text import Text

from outrigger import legends
from outrigger.bench.plot import INK, NATIVE, OFFLOADED, WORK, style, write
from outrigger.predict import figures as figuring
from outrigger.predict.advice import percent
from outrigger.predict.figures import Figures, Job, Setup, middle
from outrigger.sizes import format_size

_COLOURS = {figuring.OFFLOADED: OFFLOADED, figuring.THREADS: "#8a6fb0"}
_MOST_PANELS = 12


def time_text(time_us: float) -> str:
    """2.34 ms."""
    for unit, factor in (("s", 1e6), ("ms", 1e3)):
        if time_us >= factor:
            return f"{time_us / factor:.3g} {unit}" if time_us < 1000 * factor else f"{time_us / factor:.0f} {unit}"
    return f"{time_us:.3g} us"


def _job_text(job: Job) -> str:
    size = "" if job.size is None else f", {format_size(job.size)}"
    return f"{job.nodes} x {job.ranks // job.nodes}{size}"


def table(figures: Figures, title: str) -> Table:
    """One row for each way to run each job; the fastest of a job is bold."""
    made = Table(
        box=box.SIMPLE_HEAD, title=title, title_justify="left", title_style="bold", header_style="dim", pad_edge=False
    )
    made.add_column("nodes x ranks", no_wrap=True)
    made.add_column("way", no_wrap=True)
    for name in ("per step", "work", "exposed", "in MPI", "saved", "from", "to"):
        made.add_column(name, justify="right", no_wrap=True)
    for job in figures.jobs():
        _add_rows(made, figures, job)
    return made


def _add_rows(made: Table, figures: Figures, job: Job) -> None:
    native = figures.best(job, figuring.NATIVE)
    fastest = figures.best(job, figuring.LANES)
    for place, setup in enumerate(figures.setups(job)):
        times = sorted(figures.times[job, setup], key=lambda one: one.step_us)
        one = times[len(times) // 2]
        saved: tuple[str, ...] = ("", "", "")
        if native is not None and setup != native:
            saved = tuple(map(percent, middle(figures.gains(job, setup, native))))
        bold = "bold" if setup == fastest else ""
        made.add_row(
            _job_text(job) if place == 0 else "",
            Text(setup.title, style=bold),
            Text(time_text(one.step_us), style=bold),
            *map(time_text, (one.work_us, one.exposed_us, one.in_mpi_us)),
            *saved,
            end_section=place + 1 == len(figures.setups(job)),
        )


LEGEND = (
    "Times of one repetition of the program, to the end of the last rank: the median of the seeds. work: what the "
    "slowest "
    "rank computes, longer where cores are given away; exposed: the rest; in MPI: mean of the ranks. saved: of the "
    "time of the fastest native way without threads, the median, least and most of the seeds."
)


def save(figures: Figures, path: Path, heading: str) -> None:
    """One panel per job: a bar for each way, with the work as a part."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot
    from matplotlib.layout_engine import ConstrainedLayoutEngine
    from matplotlib.patches import Patch

    jobs = figures.jobs()[:_MOST_PANELS]
    most = max(len(figures.setups(job)) for job in jobs)
    columns = min(2, len(jobs))
    rows = -(-len(jobs) // columns)
    figure, axes = pyplot.subplots(
        rows, columns, figsize=(5.4 * columns, 1.2 + (0.9 + 0.34 * most) * rows), squeeze=False,
        layout=ConstrainedLayoutEngine(h_pad=0.1, w_pad=0.1),
    )  # fmt: skip
    for axis, job in zip(axes.flat, jobs, strict=False):
        _draw(axis, figures, job, figures.setups(job))
    for axis in list(axes.flat)[len(jobs) :]:
        axis.set_axis_off()
    figure.suptitle(heading, x=0.01, ha="left", fontsize=12, fontweight="bold", color=INK)
    handles = [
        Patch(color=WORK, label="work"),
        Patch(color=NATIVE, label="exposed, native"),
        Patch(color=_COLOURS[figuring.THREADS], label="exposed, progress threads"),
        Patch(color=OFFLOADED, label="exposed, offloaded"),
    ]
    place = legends.below(figure, "center")
    figure.legend(handles=handles, loc=place, ncols=2 * columns, frameon=False, fontsize=8, labelcolor=INK)
    write(figure, path)


def _draw(axis: object, figures: Figures, job: Job, setups: Sequence[Setup]) -> None:
    from matplotlib.axes import Axes

    assert isinstance(axis, Axes)
    highest = 0.0
    for place, setup in enumerate(setups):
        times = figures.times[job, setup]
        step_us = figures.step_us(job, setup)
        work_us = min(step_us, sorted(one.work_us for one in times)[len(times) // 2])
        colour = _COLOURS.get(setup.lane, NATIVE)
        axis.barh(place, work_us / 1e3, 0.7, color=WORK)
        axis.barh(place, (step_us - work_us) / 1e3, 0.7, left=work_us / 1e3, color=colour)
        ends = middle([one.step_us / 1e3 for one in times])
        axis.plot(ends[1:], (place, place), color=INK, linewidth=1.2)
        axis.text(ends[2] * 1.01, place, time_text(step_us), va="center", fontsize=7, color=INK)
        highest = max(highest, ends[2])
    title = f"{job.nodes} nodes, {job.ranks} ranks" + ("" if job.size is None else f", {format_size(job.size)}")
    style(axis, title)
    axis.grid(visible=False)
    axis.set_yticks(range(len(setups)), [setup.title for setup in setups])
    axis.invert_yaxis()
    axis.set_xlim(0, highest * 1.2)
    axis.set_xlabel("ms of a repetition", fontsize=8, color=INK)
