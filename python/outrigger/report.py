"""Reports, of MPI jobs and of PyTorch's: on the terminal, as a page, and what they say as data."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from outrigger import (
    report_advice,
    report_data,
    report_efficiency,
    report_headline,
    report_page,
    report_sections,
    report_terminal,
    report_torch,
    report_torch_data,
)
from outrigger.learned import Kept
from outrigger.report_data import Report, format_bytes, format_seconds, offload_verdict, parse, read
from outrigger.report_torch_data import TorchReport

__all__ = [
    "AnyReport",
    "Report",
    "TorchReport",
    "as_data",
    "as_page",
    "format_bytes",
    "format_seconds",
    "offload_verdict",
    "parse",
    "read",
    "read_any",
    "show",
]

AnyReport = Report | TorchReport


def read_any(path: Path) -> AnyReport:
    """Reads a report's file, or the directory in which ranks of PyTorch have counted."""
    if path.is_dir():
        return report_torch.read_directory(path)
    text, what = report_data.read_text(path)
    if report_data.kind_of(text, what) == report_torch_data.KIND:
        return report_torch_data.parse(text, what)
    return parse(text, what)


def show(console: Console, report: AnyReport, kept: Sequence[Kept] = ()) -> None:
    """Prints the report. `kept`: learned decisions, if it ran on this machine."""
    if isinstance(report, TorchReport):
        report_terminal.show(console, report_torch.sections(report))
    else:
        report_terminal.show(console, report_sections.of_report(report, kept))


def as_page(report: AnyReport) -> str:
    """A page of HTML that needs no other file."""
    if isinstance(report, TorchReport):
        return report_page.page(report_torch.title(report), report_torch.sections(report))
    return report_page.page(report_sections.title(report), report_sections.of_report(report))


def as_data(report: AnyReport) -> dict[str, Any]:
    """For --json: statements about the figures; the figures are in the report itself."""
    if isinstance(report, TorchReport):
        return report_torch.as_data(report)
    offloaded, calls = report_headline.counts(report)
    return {
        "version": 1,
        "headline": report_headline.headline(report),
        "calls": calls,
        "offloaded": offloaded,
        "computed_seconds": report_headline.computed_seconds(report),
        "not_hidden_seconds": report_headline.waited_seconds(report),
        "advice": report_advice.advice(report),
        "efficiency": report_efficiency.as_data(report_efficiency.of_report(report)),
        "phases": {
            phase.phase: report_efficiency.as_data(found) for phase, found in report_efficiency.of_phases(report)
        },
    }
