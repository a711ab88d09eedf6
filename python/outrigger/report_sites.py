"""Places of the program that call collectives, or wait for them."""

from __future__ import annotations

from collections.abc import Iterator

from outrigger.code_places import CodePlace, Named, finder, named
from outrigger.report_calls import of_rank, percent
from outrigger.report_data import Report, Site, format_seconds
from outrigger.report_model import Cell, Column, Line, Table, cell, dim

_ROWS = 10
_LEAST_SHARE = 0.001
"""Fraction of the run. Less is not worth a row."""

_COLUMNS = (
    Column(title="place", unit="call", is_text=True, wraps=True),
    Column(title="calls", unit="all ranks"),
    Column(title="time", unit="of a rank"),
    Column(title="of the", unit="run"),
    Column(title="most", unit="(rank)"),
)
_NO_FINDER = (
    "Places are offsets in a program or library. `addr2line` of the binutils names them, "
    "with lines if the code was compiled with -g."
)
_NO_NAMES = "Places without a name are offsets in files that are stripped, or are not on this machine."


def _what(site: Site) -> str:
    if site.waits:
        return f"waits for {site.call}"
    return f"starts of {site.call}" if site.call.endswith("_init") else site.call


def _row(site: Site, names: dict[CodePlace, Named], run_s: float) -> tuple[Cell, ...]:
    place = names[site.place].text if site.place is not None else "(unknown code)"
    by = f", called by {names[site.caller].text}" if site.caller is not None else ""
    part = site.seconds.mean / run_s
    return (
        cell(place, dim(f"{_what(site)}{by}")),
        cell(f"{site.calls:,}"),
        cell(format_seconds(site.seconds.mean)),
        cell(percent(part), bar=part),
        of_rank(site.seconds.max, site.seconds.max_rank),
    )


def blocks(report: Report) -> Iterator[Line | Table]:
    """The places with the most time. Nothing if collectives took next to none."""
    run = report.run_seconds
    if run is None or run.mean <= 0:
        return
    sites = sorted(report.sites, key=lambda site: -site.seconds.sum)
    shown = [site for site in sites if site.seconds.mean / run.mean >= _LEAST_SHARE][:_ROWS]
    if not shown:
        return
    names = named(place for site in shown for place in (site.place, site.caller) if place is not None)
    yield Table(_COLUMNS, tuple(_row(site, names, run.mean) for site in shown))
    if any(not known.function and not known.line for known in names.values()):
        yield Line(_NO_NAMES if finder() else _NO_FINDER)
