"""outrigger.h and MPI_T in programs, with and without the preload library."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from conftest import Mpi
from test_languages import python_environment

from outrigger import report

RANKS = 3
EXAMPLES = Path(__file__).parents[2] / "examples" / "api"
NO_REPORT = {"OUTRIGGER_REPORT": ""}
NATIVELY = NO_REPORT | {"OUTRIGGER_DAEMON": "/bin/false"}

pytestmark = pytest.mark.one_machine


def run(mpi: Mpi, program: list[str], services: int | None = 1, env: dict[str, str] | None = None) -> str:
    return mpi.run(RANKS, program, services=services, env=env).ok().out


def test_without_the_library(mpi: Mpi) -> None:
    assert run(mpi, ["api", "absent"], services=None).count("absent is so") == RANKS


def test_in_a_native_job(offload: Mpi) -> None:
    assert run(offload, ["api", "native"], env=NATIVELY).count("native is so") == RANKS


@pytest.mark.parametrize("when", ["late", "early"])
def test_counters_and_switch(offload: Mpi, when: str) -> None:
    assert run(offload, ["api", "active", when], env=NO_REPORT).count("active is so") == RANKS


@pytest.mark.any_mpi
@pytest.mark.parametrize("measured", [False, True])
def test_ranks_agree_whatever_each_counts(offload: Mpi, measured: bool) -> None:
    offload.measured_choice = measured
    assert run(offload, ["api", "apart"], env=NO_REPORT).count("apart is so") == RANKS


@pytest.mark.any_mpi
def test_ranks_agree_however_many_communicators_one_has(offload: Mpi) -> None:
    """More than have dispatch plans, on one rank only."""
    assert run(offload, ["api", "many"], env=NO_REPORT).count("many is so") == RANKS


@pytest.mark.any_mpi
def test_the_report_has_phases(offload: Mpi) -> None:
    result = offload.run(RANKS, ["api", "phases"]).ok()
    phases = {phase["phase"]: phase for phase in result.report["phases"]}
    assert phases["outer"]["entered"] == phases["inner"]["entered"] == 3 * RANKS
    assert (phases["outer"]["calls"], phases["inner"]["calls"]) == (3 * RANKS, 6 * RANKS)
    assert phases["outer"]["offloaded"] == 3 * RANKS and phases["outer"]["bytes"] == 3 * RANKS * RANKS * 5000 * 4
    for name in ("outer", "inner"):
        inside, collectives = phases[name]["seconds"], phases[name]["collective_seconds"]
        assert 0 < collectives["sum"] <= inside["sum"] and inside["ranks"] == RANKS
    assert phases["deep"]["entered"] == 32 * RANKS and "too deep" not in phases
    assert len(phases) == 257 and phases["(other phases)"]["entered"] == (300 - (256 - 3) + 1) * RANKS
    assert {phase.phase for phase in report.read(offload.jobs[-1].directory / "report.json").phases} == set(phases)


@pytest.mark.parametrize("language", ["c", "fortran", "python"])
@pytest.mark.parametrize("services", [None, 1])
def test_examples(mpi: Mpi, language: str, services: int | None) -> None:
    if services is not None and mpi.native_only:
        pytest.skip("only with Outrigger")
    program, env = [str(mpi.build / "examples" / mpi.name / "api")], dict(NO_REPORT)
    if language == "python":
        pytest.importorskip("mpi4py", reason="mpi4py is not installed beside pytest")
        if mpi.name == "mpiabi":
            pytest.skip("mpi4py's wheel knows no standard ABI")
        program, env = [sys.executable, str(EXAMPLES / "api.py")], env | python_environment(mpi)
    elif language == "fortran":
        program[0] += "_fortran"
        if not mpi.installed.has_fortran():
            pytest.skip(f"{mpi.installed} has no Fortran libraries")
    if not Path(program[0]).exists():
        pytest.skip(f"{program[0]} was not built")
    out = run(mpi, program, services, env)
    if services is None:
        assert "nothing is offloaded: the preload library is not loaded" in out
    else:
        assert re.search(r"Outrigger \d\S* offloads", out), out
        assert "rank 0: 20 collectives, 10 offloaded, 10 switched off" in out


def listed(out: str) -> dict[str, list[str]]:
    """Names of variables by kind, in the order of their indices."""
    found: dict[str, list[str]] = {"pvar": [], "cvar": [], "category": []}
    for kind, index, name in re.findall(r"^(pvar|cvar|category) (\d+) (.*)$", out, re.MULTILINE):
        found[kind].append(name)
        assert int(index) >= len(found[kind]) - 1
    return found


def members(out: str) -> set[str]:
    """Lines with the variables of each category."""
    return set(re.findall(r"^of .*: [cp]var .+$", out, re.MULTILINE))


def test_tools_find_our_variables_behind_the_native_ones(offload: Mpi) -> None:
    """Uses both. The control variable OUTRIGGER_ALGORITHM, written before MPI_Init, decides about offloading."""
    native_out = run(offload, ["variables", "native"], services=None)
    ours_out = run(offload, ["variables", "ours"], env=NO_REPORT | {"OUTRIGGER_ALGORITHM": ""})
    native, both = listed(native_out), listed(ours_out)
    for kind, prefix in (("pvar", "outrigger_"), ("cvar", "OUTRIGGER_"), ("category", "outrigger")):
        ours = [name for name in both[kind] if name.startswith(prefix)]
        assert ours and not set(ours) & set(native[kind])
        assert [name for name in both[kind] if not name.startswith(prefix)] == native[kind]
        first = both[kind].index(ours[0])
        assert both[kind][first : first + len(ours)] == ours
    assert "OUTRIGGER_ALGORITHM" in both["cvar"] and "OUTRIGGER_DPUS" not in both["cvar"]
    assert "outrigger_native_small_blocks" in both["pvar"] and "outrigger_comm_offloaded" in both["pvar"]
    assert members(native_out) <= members(ours_out)
    assert ("used " in native_out) == ("used " in ours_out)
