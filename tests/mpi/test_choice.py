"""Native or offloaded by measurements: all ranks try and choose alike in any program, few calls are tried, and programs
with deterministic settings are not changed.
"""

import os
import shutil

import pytest

pytestmark = [pytest.mark.one_machine, pytest.mark.any_mpi]

CALLS = 1500
FIRST = str(min(os.sched_getaffinity(0)))
ON_THE_RANKS_CORE = {"OUTRIGGER_SERVICE_CPUS": FIRST}


@pytest.fixture
def measured(offload):
    offload.measured_choice = True
    return offload


def native(result, reason: str) -> int:
    return sum(entry["native"].get(reason, 0) for entry in result.report["collectives"])


@pytest.mark.parametrize(("nodes", "services"), [(1, 1), (1, 2), (2, 1)])
def test_two_ways_are_tried_in_turn_and_few_calls_are(measured, nodes, services):
    measured.pretend_nodes = nodes
    result = measured.run(4, ["choices", "steady", str(CALLS)], services=services, timeout_s=120).ok()
    assert f"choices: {CALLS} calls, right" in result.out
    assert native(result, "measured choice") > 0, result.report
    assert result.offloaded() > 0


def test_programs_with_few_calls_are_left_alone(measured):
    result = measured.run(2, ["choices", "steady", "130"]).ok()
    assert "right" in result.out
    assert result.offloaded() in {0, 2 * 130}, "as it begins: by whether service processes have a core of their own"


def test_a_fixed_choice_tries_nothing(measured):
    result = measured.run(2, ["choices", "steady", str(CALLS)], env={"OUTRIGGER_CHOICE": "fixed"}, timeout_s=120).ok()
    assert "right" in result.out
    assert native(result, "measured choice") == 0


def test_what_a_rule_names_is_not_tried(measured):
    env = {"OUTRIGGER_ALGORITHM": "ialltoall=ring_pull"}
    result = measured.run(2, ["choices", "steady", str(CALLS)], env=env, timeout_s=120).ok()
    assert "right" in result.out
    assert native(result, "measured choice") == 0
    assert result.offloaded() == 2 * CALLS


@pytest.mark.parametrize("mode", ["changing", "skewed", "threads"])
@pytest.mark.parametrize("nodes", [1, 2])
def test_ranks_choose_alike_whatever_the_program_does(measured, mode, nodes):
    measured.pretend_nodes = nodes
    result = measured.run(3, ["choices", mode, str(CALLS)], timeout_s=180).ok()
    assert "right" in result.out


@pytest.mark.parametrize("placement", [{}, ON_THE_RANKS_CORE], ids=["extra", "shared"])
def test_ranks_choose_alike_where_nothing_is_reported(measured, placement):
    """Native calls are then passed on after their number has been checked."""
    env = {"OUTRIGGER_REPORT": "", **placement}
    result = measured.run(3, ["choices", "skewed", str(2 * CALLS)], env=env, timeout_s=180)
    assert result.returncode == 0, result.out
    assert "right" in result.out


def test_communicators_that_come_and_go(measured):
    count = 300 if measured.name == "openmpi" else 100  # with more ranks than cores, MPICH's do not yield to each other
    result = measured.run(4, ["choices", "communicators", str(count)], services=2, timeout_s=180).ok()
    assert "right" in result.out


def test_a_choice_that_there_is_not_is_an_error(measured):
    result = measured.run(2, ["choices", "steady", "10"], env={"OUTRIGGER_CHOICE": "guessed"}).ok()
    assert "OUTRIGGER_CHOICE" in result.out
    assert "measured, early or fixed" in result.out


def test_nothing_is_offloaded_at_first_where_service_processes_would_take_the_ranks_core(measured):
    result = measured.run(2, ["choices", "steady", "50"], env=ON_THE_RANKS_CORE, cpus=FIRST).ok()
    assert "right" in result.out
    assert result.offloaded() == 0
    assert native(result, "not tried") == 100


def test_with_a_fixed_choice_all_is_offloaded_there_too(offload):
    result = offload.run(2, ["choices", "steady", "50"], env=ON_THE_RANKS_CORE, cpus=FIRST).ok()
    assert "right" in result.out
    assert result.offloaded() == 100
    assert native(result, "measured choice") == 0


def test_trials_where_service_processes_take_the_ranks_core(measured):
    result = measured.run(3, ["choices", "changing", str(CALLS)], env=ON_THE_RANKS_CORE, cpus=FIRST, timeout_s=180).ok()
    assert "right" in result.out
    assert native(result, "not tried") > 0


def kept(mpi) -> list:
    return sorted((mpi.directory / "cache" / "outrigger").glob("choices-*.txt"))


def test_the_next_run_begins_with_what_was_chosen(measured):
    """Natively from the first calls on if that was no slower, else by the better algorithm."""
    env = {"OUTRIGGER_ALGORITHM": ""}
    measured.run(2, ["choices", "steady", "3000"], env=env, timeout_s=120).ok()
    (file,) = kept(measured)
    (line,) = [line for line in file.read_text().splitlines() if line.startswith("ialltoall nonblocking 15 2 1 2 1 ")]
    for way in ("native", "scatter_dest", "ring_pull"):
        file.write_text(file.read_text().replace(line, chosen := " ".join([*line.split()[:-2], way, "1"])))
        line = chosen
        result = measured.run(2, ["choices", "steady", "100"], timeout_s=120).ok()
        assert "right" in result.out
        if way == "native":
            assert native(result, "measured choice") + native(result, "not tried") > 150, result.report
        else:
            (entry,) = [entry for entry in result.report["collectives"] if entry["collective"] == "ialltoall"]
            # some calls, if other processes take the service process's core
            assert list(entry["algorithms"]) == [way], entry


def test_each_program_has_its_own(measured):
    """Another name is another program."""
    other = shutil.copy(measured.programs / "choices", measured.directory / "another")
    for program in ("choices", str(other)):
        measured.run(2, [program, "steady", "3000"], env={"OUTRIGGER_ALGORITHM": ""}, timeout_s=120).ok()
    programs = {line for file in kept(measured) for line in file.read_text().splitlines() if line.startswith("program")}
    assert programs == {"program choices", "program another"}


def test_a_file_that_is_another_is_left_alone_with_a_line(measured):
    """An empty one is none."""
    measured.run(2, ["choices", "steady", "3000"], timeout_s=120).ok()
    (file,) = kept(measured)
    another = "outrigger-choices 4\nmachine another\nmpi another\ncores another\nprogram choices\n"
    for text in ("garbage", another, file.read_text() + "ialltoall nonblocking 99 2 1 2 1 native 1\n", ""):
        file.write_text(text)
        result = measured.run(2, ["choices", "steady", "1000"], timeout_s=120).ok()
        assert "right" in result.out, text
        assert ("is not a file of choices" in result.out) == (text != ""), f"{text}\n{result.out}"
        assert file.read_text() == text or not text, text


def test_nothing_is_kept_where_the_choice_is_fixed(measured):
    measured.run(2, ["choices", "steady", "1000"], env={"OUTRIGGER_CHOICE": "fixed"}, timeout_s=120).ok()
    assert kept(measured) == []
