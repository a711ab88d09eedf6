"""The library's report: on the terminal, as a page, and what it says as data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rich.console import Console

from outrigger import report_advice, report_efficiency, report_headline, report_page, report_sections, report_terminal
from outrigger.learned import Kept
from outrigger.report_data import Report, format_bytes, format_seconds, offload_verdict, parse, read

__all__ = ["Report", "as_data", "as_page", "format_bytes", "format_seconds", "offload_verdict", "parse", "read", "show"]


def show(console: Console, report: Report, kept: Sequence[Kept] = ()) -> None:
    """Prints the report. `kept`: learned decisions, if it ran on this machine."""
    report_terminal.show(console, report_sections.of_report(report, kept))


def as_page(report: Report) -> str:
    """A page of HTML that needs no other file."""
    return report_page.page(report_sections.title(report), report_sections.of_report(report))


def as_data(report: Report) -> dict[str, Any]:
    """For --json: statements about the figures; the figures are in the report itself."""
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
