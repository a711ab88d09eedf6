"""The places of a program that call collectives or wait for them, in the report."""

from __future__ import annotations

import platform
import re
import shutil
from collections import Counter
from pathlib import Path

import pytest

from outrigger import report
from outrigger.code_places import named

PROGRAMS = Path(__file__).parent / "programs"
RANKS = 2
ROUNDS = 40

pytestmark = pytest.mark.skipif(shutil.which("addr2line") is None, reason="addr2line is not installed")


def lines_of(name: str) -> dict[str, str]:
    """Lines of a source by their remarks."""
    lines = enumerate((PROGRAMS / name).read_text().splitlines(), 1)
    return {found[1]: f"{name}:{number}" for number, line in lines if (found := re.search(r"place: (\w+)", line))}


def places_of(data: report.Report) -> Counter[tuple[str, bool, str, str]]:
    names = named(place for site in data.sites for place in (site.place, site.caller) if place is not None)
    places: Counter[tuple[str, bool, str, str]] = Counter()
    for site in data.sites:
        text, by = (names[place].text if place is not None else "" for place in (site.place, site.caller))
        places[site.call, site.waits, text, by] += site.calls
    return places


@pytest.mark.parametrize("services", (0, 1))
def test_places(offload, tmp_path, services):
    """One library, called from two functions at several depths of the stack."""
    path = tmp_path / "report.json"
    result = offload.run(RANKS, ["sites", str(ROUNDS)], services=services, env={"OUTRIGGER_REPORT": str(path)})
    result.ok()
    data = report.read(path)
    lines = lines_of("sites.c") | lines_of("sites_library.c")
    exchange = f"{lines['library']} in inner"
    calls = RANKS * ROUNDS
    generated = {("MPI_Barrier", False, "", ""): calls} if platform.machine() == "x86_64" else {}
    assert places_of(data) == generated | {
        ("MPI_Allreduce", False, f"{lines['direct']} in direct", ""): calls,
        ("MPI_Alltoall", False, exchange, f"{lines['first']} in first"): calls,
        ("MPI_Alltoall", False, exchange, f"{lines['second']} in second"): calls,
        ("MPI_Ibcast", False, f"{lines['starts']} in waits", ""): calls,
        ("MPI_Ibcast", True, f"{lines['waits']} in waits", ""): calls,
    }


@pytest.mark.parametrize("binding", ("mpif", "usempi", "f08"))
def test_fortran_bindings_are_no_places(offload, tmp_path, binding):
    path = tmp_path / "report.json"
    offload.run(RANKS, [f"alltoall_{binding}"], services=0, env={"OUTRIGGER_REPORT": str(path)}).ok()
    data = report.read(path)
    assert data.sites
    for site in data.sites:
        assert site.place is not None, site
        assert Path(site.place.object).name == f"alltoall_{binding}", site


def test_seconds_are_those_of_the_calls(offload, tmp_path):
    """Each call is counted in one row of calls and in one place."""
    path = tmp_path / "report.json"
    offload.run(RANKS, ["sites", str(ROUNDS)], services=0, env={"OUTRIGGER_REPORT": str(path)}).ok()
    data = report.read(path)
    for call in data.calls:
        places = [site for site in data.sites if site.call == call.call and not site.waits]
        assert sum(site.calls for site in places) == call.calls
        inside = sum(site.seconds.sum for site in data.sites if site.call == call.call)
        assert inside == pytest.approx(call.seconds.sum, rel=1e-6), call
