"""Sentences on how much a moved call would hide, from windows that a run with OUTRIGGER_WINDOWS=on has measured."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from outrigger.code_places import named
from outrigger.report_calls import percent
from outrigger.report_data import Report, Site, Windows, format_seconds

_MOST = 3
_LEAST_SHARE = 0.01
"""Fraction of the run. Less is not worth a sentence."""
_LEAST_HIDDEN = 0.1
"""Fraction of the calls' time. If less can be hidden, there is nothing to gain."""
_ALL = 0.995
"""Fraction of the calls' time that is shown as all of it."""
_MOSTLY = 0.9
"""Fraction of the windows. If so many end with a use, their mean is no lower bound."""
_FEW = 0.5
"""Fraction of the calls. If fewer were measured, the sentence says so."""

REASONS = {
    "system": "this kernel, processor or program does not allow it (it needs Linux 5.19 or newer on x86-64)",
    "threads": "the program has several threads, or the MPI has threads that make progress",
    "signals": "SIGSEGV or SIGSYS is blocked, or a signal handler blocks it",
    "memory": "its buffers are on the stack or in shared memory, or the program has own stacks or too many mappings",
    "layout": "its buffers have no whole page, or gaps, or the call is not one of those that are measured",
    "others": "the program uses one-sided communication, OpenSHMEM, MPI-IO or an accelerator",
    "limit": "too many calls were open at a time",
    "calls": "this MPI, or the program, has calls that send data and that this build of Outrigger does not intercept",
}
"""Why calls have no window, by the report's words."""


@dataclass(frozen=True)
class _Measured:
    """A place with windows, and its calls in a run without guards."""

    site: Site
    windows: Windows
    usual: Site
    """The same place in the run whose times count."""
    share: float
    """Fraction of that run."""

    @property
    def all_calls(self) -> int:
        """Measured or not."""
        return self.windows.calls + sum(self.windows.without.values())

    @property
    def unused_s(self) -> float:
        """Mean length of a window."""
        return self.windows.unused_seconds / self.windows.calls

    @property
    def hidden(self) -> float:
        """Fraction of the calls' time. Guards change how long calls take, but not when data are used."""
        calls = self.windows.calls
        spent_s, hidden_s = self.windows.spent_seconds / calls, self.windows.hidden_seconds / calls
        most_s = min(self.unused_s, spent_s)
        usual_s = self.usual.seconds.sum / max(self.usual.calls, 1)
        if most_s <= 0 or usual_s <= 0:
            return 0.0
        return min(hidden_s / most_s, 1.0) * min(self.unused_s, usual_s) / usual_s


def _started(call: str) -> str:
    """MPI_Ibcast for MPI_Bcast."""
    return "MPI_I" + call.removeprefix("MPI_").lower()


def _what(one: _Measured, place: str, of_run: str) -> str:
    site = one.site
    name = f"The wait for {site.call}" if site.waits else site.call
    few = one.windows.calls < _FEW * one.all_calls
    calls = f", measured in {one.windows.calls:,} of {one.all_calls:,} calls" if one.windows.calls and few else ""
    return f"{name} at {place}, {percent(one.share)} of {of_run}{calls}"


def _move(site: Site) -> str:
    return "its MPI_Wait" if site.waits else f"{_started(site.call)} there, and its MPI_Wait"


def _gain(one: _Measured) -> str:
    mean = format_seconds(one.unused_s)
    used = one.windows.ends.get("used", 0) >= _MOSTLY * one.windows.calls
    least = "" if used else "at least "
    if one.hidden >= _LEAST_HIDDEN:
        later = f"{least}{mean} later, right before its data are first used"
        part = "all" if one.hidden >= _ALL else f"{least}{one.hidden:.0%}"
        return f"{_move(one.site)} {later}, would hide {part} of it, if it moves meanwhile."
    if used:
        return f"its data are used at once (after {mean}), nothing to gain by a wait that comes later."
    return f"no use of its data was seen until the next MPI or system call, {mean} later; longer is not measured."


def _without(windows: Windows) -> str:
    reason = max(windows.without, key=lambda name: windows.without[name])
    return f"not measured when its data are used: {REASONS.get(reason, reason)}."


def _share(site: Site, report: Report) -> float:
    run = report.run_seconds
    return site.seconds.mean / run.mean if run is not None and run.mean > 0 else 0.0


def has_windows(report: Report) -> bool:
    """True for a run with OUTRIGGER_WINDOWS=on, whose times are too long."""
    return any(site.windows is not None for site in report.sites)


def is_worth_measuring(report: Report) -> bool:
    """True if calls that may have windows take a notable part of this run."""
    return any(
        site.place is not None and site.call not in ("MPI_Barrier", "MPI_Ibarrier")
        and _share(site, report) >= _LEAST_SHARE
        for site in report.sites
    )  # fmt: skip


def _measured(report: Report, usual: Report) -> list[_Measured]:
    """Places with windows, or with a reason for none: those with the most time first."""
    known = {(site.call, site.waits, site.place, site.caller): site for site in usual.sites}
    found = []
    for site in report.sites:
        of_usual = known.get((site.call, site.waits, site.place, site.caller))
        if site.windows is None or site.place is None or of_usual is None:
            continue
        if (share := _share(of_usual, usual)) >= _LEAST_SHARE:
            found.append(_Measured(site, site.windows, of_usual, share))
    return sorted(found, key=lambda one: -one.share)


def sentences(report: Report, undisturbed: Report | None = None) -> Iterator[str]:
    """For the places with the most time in the undisturbed run. Without one, the times are those of the slow run."""
    found = _measured(report, undisturbed or report)
    with_windows = [one for one in found if one.windows.calls][:_MOST]
    without = [one for one in found if not one.windows.calls and one.windows.without]
    chosen = [*with_windows, *without[:1]]
    names = named(one.site.place for one in chosen if one.site.place is not None)
    for one in chosen:
        if one.site.place is None:
            continue
        what = _what(one, names[one.site.place].text, "the run" if undisturbed is not None else "this slow run")
        yield f"{what}: {_gain(one) if one.windows.calls else _without(one.windows)}"
