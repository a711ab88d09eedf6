"""A rank's work inside its MPI calls does not grow with the blocks, MPI_Start does less than MPI_Ialltoall, calls with
messages do almost nothing more than natively, and short collectives by ranks take few steps: instructions counted by
valgrind.
"""

import re
import shutil

import pytest
from conftest import with_copiers

SIZES = (64 << 10, 4 << 20)
PAGE_BYTES = 4096
# Work per page would cost at least an instruction a page. Two runs of the same call differ by up to 250.
MOST_GROWTH = (SIZES[1] - SIZES[0]) // PAGE_BYTES // 2
CALLS = 6
# Rank 0 under valgrind, the others not. Instrumented only at the program's request; each thread for itself.
UNDER_VALGRIND = """
case "${OMPI_COMM_WORLD_RANK:-$PMI_RANK}" in
  0) exec valgrind -q --tool=callgrind --instr-atstart=no --separate-threads=yes --callgrind-out-file="$1" \\
          "$0" "${@:2}" ;;
  *) exec "$0" "${@:2}" ;;
esac
"""


def profiles(directory) -> dict[str, list[int]]:
    """Instructions of the rank's first thread, by the program's names of its calls."""
    found: dict[str, list[int]] = {}
    for path in directory.glob("profile*-01"):
        text = path.read_text()
        name = re.search(r"^desc: Trigger: Client Request: (.*)$", text, re.MULTILINE)
        total = re.search(r"^totals: (\d+)$", text, re.MULTILINE)
        if name and total:
            found.setdefault(name[1], []).append(int(total[1]))
    return found


@pytest.mark.one_machine
@pytest.mark.parametrize(
    "mpi", ("mpich",), indirect=True
)  # the library is the same, and Open MPI takes longer to start
def test_instructions_do_not_grow_with_size(offload, tmp_path):
    if shutil.which("valgrind") is None:
        pytest.skip("valgrind is not installed")
    program = [str(offload.programs / "instructions"), str(tmp_path / "profile"), *map(str, SIZES)]
    env = with_copiers() | {"OUTRIGGER_WAIT_COPIES": "off"}  # what a rank copies while it waits grows, as it should
    result = offload.run(2, ["/bin/bash", "-c", UNDER_VALGRIND, *program], env=env, timeout_s=120).ok()
    if "without valgrind's header" in result.out:
        pytest.skip("the test programs were built where valgrind was not installed")
    assert result.offloaded() > 0
    found = profiles(tmp_path)
    for call in ("post", "wait", "start", "end"):
        for memory in ("mapped", "malloc"):
            counts = [found.get(f"{call} {memory} {size}", []) for size in SIZES]
            assert all(len(each) == CALLS for each in counts), f"profiles are missing: {sorted(found)}\n{result.out}"
            # A busy machine makes calls slower: completions and helpers are late. Nothing makes them faster.
            small, large = map(min, counts)
            assert small > (100 if call == "end" else 500), "too few to be a call"
            assert large - small <= MOST_GROWTH, f"{call} with {memory} memory: {small} and {large} instructions"
    for memory in ("mapped", "malloc"):
        for size in SIZES:
            least = {call: min(found[f"{call} {memory} {size}"]) for call in ("post", "start")}
            assert least["start"] < least["post"], f"{memory} memory, {size} bytes: {least}"


# A tenth more than measured without a report (docs/inside/memory.md).
MOST = {"post": 1800, "wait": 930, "start": 1450, "end": 870}


@pytest.mark.one_machine
def test_offloaded_calls_take_few_instructions(offload, tmp_path):
    if shutil.which("valgrind") is None:
        pytest.skip("valgrind is not installed")
    program = [str(offload.programs / "instructions"), str(tmp_path / "profile"), str(SIZES[0])]
    env = with_copiers() | {"OUTRIGGER_WAIT_COPIES": "off", "OUTRIGGER_REPORT": ""}
    result = offload.run(2, ["/bin/bash", "-c", UNDER_VALGRIND, *program], env=env, timeout_s=120).ok()
    if "without valgrind's header" in result.out:
        pytest.skip("the test programs were built where valgrind was not installed")
    found = profiles(tmp_path)
    for call, most in MOST.items():
        counts = found.get(f"{call} mapped {SIZES[0]}", [])
        assert len(counts) == CALLS, f"profiles are missing: {sorted(found)}\n{result.out}"
        assert 100 < min(counts) <= most, f"{call}: {min(counts)} instructions"


# Without live data: a jump, or for a wait a few loads. With it: no search, and no call of the MPI.
MOST_MORE = {"send": (4, 600), "recv": (4, 600), "probe": (4, 600), "wait": (30, 600)}


@pytest.mark.one_machine
@pytest.mark.parametrize("mpi", ("mpich",), indirect=True)
def test_messages_cost_nothing_without_live_data(offload, tmp_path):
    if shutil.which("valgrind") is None:
        pytest.skip("valgrind is not installed")
    counts = []
    for name, services, live in (("native", None, "off"), ("off", 1, "off"), ("on", 1, "on")):
        directory = tmp_path / name
        directory.mkdir()
        program = [str(offload.programs / "message_instructions"), str(directory / "profile")]
        env = {"OUTRIGGER_LIVE": live, "OUTRIGGER_REPORT": ""}
        words = ["/bin/bash", "-c", UNDER_VALGRIND, *program]
        result = offload.run(2, words, env=env, services=services, timeout_s=120).ok()
        if "without valgrind's header" in result.out:
            pytest.skip("the test programs were built where valgrind was not installed")
        counts.append({call: min(each) for call, each in profiles(directory).items()})
    native, off, on = counts
    assert set(native) == set(off) == set(on) == set(MOST_MORE)
    for call, (most_off, most_on) in MOST_MORE.items():
        assert off[call] - native[call] <= most_off, f"{call}: {native[call]} instructions natively, and {off[call]}"
        assert 0 < on[call] - off[call] <= most_on, (
            f"{call}: {off[call]} instructions without live data, and {on[call]}"
        )


# A twentieth to a sixth more than a rank takes with 2 ranks, without its wait for the other one.
MOST_OF_SHORT = {
    "barrier": 390,
    "bcast": 480,
    "bcast from 1": 480,
    "sum of a double": 850,
    "sum of an int": 960,
    "reduced double": 860,
    "scan of a double": 1080,
    "exscan of a double": 930,
    "scattered sum": 950,
    "gather": 690,
    "scatter": 800,
    "allgather": 760,
    "alltoall": 1000,
    "gatherv": 950,
    "scatterv": 900,
    "allgatherv": 880,
    "alltoallv": 1230,
    "neighbors": 960,
}
# Counters, times and the call site take less than that.
MOST_OF_REPORT = 1350


@pytest.mark.one_machine
@pytest.mark.parametrize("report", (False, True), ids=("plain", "reported"))
def test_short_collectives_take_few_instructions(offload, tmp_path, report):
    if shutil.which("valgrind") is None:
        pytest.skip("valgrind is not installed")
    program = [str(offload.programs / "collective_instructions"), str(tmp_path / "profile")]
    env = {"OUTRIGGER_INTRANODE": "always"} | ({} if report else {"OUTRIGGER_REPORT": ""})
    result = offload.run(2, ["/bin/bash", "-c", UNDER_VALGRIND, *program], env=env, services=0, timeout_s=120).ok()
    if "without valgrind's header" in result.out:
        pytest.skip("the test programs were built where valgrind was not installed")
    found = {call: min(each) for call, each in profiles(tmp_path).items()}
    assert set(found) == set(MOST_OF_SHORT)
    for call, most in MOST_OF_SHORT.items():
        assert 200 < found[call] <= most + (MOST_OF_REPORT if report else 0), f"{call}: {found[call]} instructions"
