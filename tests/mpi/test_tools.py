"""Profiling tools count the same as natively: linked before libmpi, preloaded before the library and after it."""

import re
from pathlib import Path

import pytest
from conftest import Mpi
from test_languages import digests, expected  # noqa: F401 - a fixture

RANKS = 2
OFFLOADED = 3 * 5 * RANKS


def tool_of(mpi: Mpi, kind: str = "") -> Path:
    path = mpi.programs / f"libcounting-tool{kind}.so"
    assert path.exists(), f"{path} is not built: build the target mpi_programs"
    return path


def preloads(mpi: Mpi, order: str, kind: str = "") -> dict[str, str]:
    """LD_PRELOAD, by the order of tool and library; the tool may be linked to the program instead."""
    words = {"tool": str(tool_of(mpi, kind)), "library": str(mpi.library)}
    return {"LD_PRELOAD": ":".join(words[word] for word in order.split(":") if word)}


def counts(text: str) -> dict[str, int]:
    line = re.search(r"^tool:(.*)$", text, re.MULTILINE)
    assert line, f"the tool printed nothing\n{text}"
    return {name: int(number) for name, number in (word.split("=") for word in line[1].split())}


@pytest.mark.one_machine
@pytest.mark.parametrize(
    ("program", "order"), (("tooled", "tool:library"), ("tooled", "library:tool"), ("tooled_linked", "library"))
)
def test_tools_see_what_they_see_natively(offload, program, order):
    natively = order.replace("library", "").strip(":")
    native = offload.run(RANKS, [program], services=None, env=preloads(offload, natively)).ok()
    assert "tooled: 0 wrong" in native.out
    assert counts(native.out) == {"Init": 1, "Send": 5, "Wait": 5, "Waitall": 5, "Ialltoall": 15, "Comm_dup": 1}
    result = offload.run(RANKS, [program], env=preloads(offload, order)).ok()
    assert "tooled: 0 wrong" in result.out
    assert result.offloaded() == OFFLOADED
    assert counts(result.out) == counts(native.out)


@pytest.mark.one_machine
@pytest.mark.parametrize("order", ("tool:library", "library:tool"))
@pytest.mark.parametrize("kind", ("-next", "-next-without-init"))
def test_tools_that_do_not_call_pmpi_get_in_nobodys_way(offload, kind, order):
    """They call the next MPI_X in the loader's order, so no call comes back to a library in front of them."""
    result = offload.run(RANKS, ["tooled"], env=preloads(offload, order, kind)).ok()
    assert "tooled: 0 wrong" in result.out
    assert result.offloaded() == OFFLOADED
    assert counts(result.out)["Send"] == 5


@pytest.mark.one_machine
@pytest.mark.parametrize("order", ("tool:library", "library:tool"))
@pytest.mark.parametrize("language", ("c", "mpif", "usempi", "f08"))
def test_programs_of_all_languages_run_with_a_tool(offload, expected, language, order):  # noqa: F811
    """Bytes and offloaded calls are the same; a tool's view of Fortran differs between the MPIs, natively, too."""
    assert digests(offload, language, 1, preloads(offload, order)) == expected


@pytest.mark.one_machine
@pytest.mark.parametrize("language", ("mpif", "usempi", "f08"))
def test_programs_in_fortran_are_linked_to_a_tool(offload, expected, language):  # noqa: F811
    assert digests(offload, f"{language}_linked", 1) == expected
