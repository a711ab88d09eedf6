"""`outrigger lab replay`."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Annotated

import typer

from outrigger import pictures
from outrigger.errors import UserError
from outrigger.out import check_file
from outrigger.terminal import note
from outrigger.trace import draw, events, timeline, torch_timeline, trace_events


def parse_ranks(text: str) -> tuple[range, ...]:
    """0-3,8"""
    ranges = []
    for word in text.split(","):
        first, dash, last = word.strip().partition("-")
        if not first.isdecimal() or (dash and not last.isdecimal()):
            raise UserError(f"--ranks {text}: '{word}' is neither a rank nor a range of them; write 0-3,8")
        ranks = range(int(first), int(last or first) + 1)
        if not ranks:
            raise UserError(f"--ranks {text}: the range '{word}' ends before it begins")
        ranges.append(ranks)
    return tuple(ranges)


def _check_time(option: str, ms: float | None) -> None:
    if ms is not None and not math.isfinite(ms):
        raise UserError(f"{option} {ms}: write a number of milliseconds")


def read(path: Path) -> timeline.Timeline:
    """A trace, or events that were written without `outrigger run`: by the library, or by ranks of a PyTorch job."""
    if path.is_dir():
        return torch_timeline.read(path)
    try:
        data = path.read_bytes()
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}") from error
    if data.startswith(events.MAGIC):
        return timeline.build(events.read_parts(data, str(path)))
    return trace_events.parse(data, str(path))


def replay(
    written: Annotated[
        Path,
        typer.Argument(metavar="FILE", help="Trace written by run --trace FILE, or OUTRIGGER_TRACE's directory."),
    ],
    output: Annotated[
        Path | None,
        typer.Option(
            "-o", "--out", metavar="FILE.png", show_default="a PNG beside FILE",
            help="Picture, or a trace for Perfetto: .json or .json.gz.",
        ),
    ] = None,
    begin_ms: Annotated[
        float | None,
        typer.Option("--from", metavar="MS", help="Draw from this time on.", show_default="some calls in the middle"),
    ] = None,
    end_ms: Annotated[float | None, typer.Option("--to", metavar="MS", help="Draw up to this time.")] = None,
    ranks: Annotated[
        str | None,
        typer.Option("--ranks", metavar="LIST", help="Ranks to draw, like 0-3,8.", show_default="the first 16"),
    ] = None,
) -> None:  # fmt: skip
    """Draw a trace: what ranks and service processes did and when.

    A long trace shows some calls in the middle, unless --from or --to is given; --from 0 draws all. Pictures end in
    .png, .svg or .pdf. --out FILE.json makes a trace for Perfetto of events that were written without `outrigger run`.
    """
    target = output or written.with_name(written.name.removesuffix(".gz").removesuffix(".json") + ".png")
    if target.suffix in pictures.SUFFIXES:
        pictures.check_drawable()
    _check_time("--from", begin_ms)
    _check_time("--to", end_ms)
    check_file(target, "--out")
    made = read(written)
    if target.suffix in (".json", ".gz"):
        trace_events.write(made, target)
    elif target.suffix in pictures.SUFFIXES:
        chosen = draw.Selection(begin_ms, end_ms, None if ranks is None else parse_ranks(ranks))
        begin, end = draw.save(made, target, chosen, written.name.split(".")[0])
        note(f"{target} is written: {begin:,.1f} to {end:,.1f} ms; --from and --to choose other times")
        return
    else:
        raise UserError(
            f"--out {target}: a picture ends in {', '.join(pictures.SUFFIXES)}, a trace in .json or .json.gz"
        )
    note(f"{target} is written")
