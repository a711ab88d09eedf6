"""Service processes to kill in a test that ends a job: only those of one place, as deaths count per place."""

import os
import signal
import time
from contextlib import suppress

import pytest
from conftest import GIVEN_UP, SETTLE_S, Mpi, Serving, victims, wait_until

FIRST, SECOND = 1001, 2001  # keepers


def test_the_one_that_has_started_last_is_the_first() -> None:
    serving = [Serving(20, 2002, SECOND), Serving(10, 1002, FIRST)]
    assert victims(serving, [])[-1] == Serving(20, 2002, SECOND)


def test_next_is_the_one_that_has_taken_its_place() -> None:
    killed = [Serving(20, 2002, SECOND)]
    assert victims([Serving(10, 1002, FIRST), *killed], killed) == []  # none has yet
    instead = Serving(30, 2003, SECOND)
    assert victims([Serving(10, 1002, FIRST), instead], killed) == [instead]


def test_one_that_is_replaced_on_another_node_meanwhile_is_left_alone() -> None:
    killed = [Serving(20, 2002, SECOND), Serving(30, 2003, SECOND)]
    elsewhere = Serving(50, 1003, FIRST)
    assert victims([elsewhere], killed) == []
    assert victims([elsewhere, Serving(40, 2004, SECOND)], killed) == [Serving(40, 2004, SECOND)]


def test_another_place_of_the_same_node_is_left_alone() -> None:
    """An older process."""
    killed = [Serving(20, 1003, FIRST)]
    assert victims([Serving(10, 1002, FIRST)], killed) == []
    assert victims([Serving(20, 1002, FIRST)], killed) == []  # within a hundredth of a second


@pytest.mark.one_machine
@pytest.mark.any_mpi
def test_deaths_in_the_places_of_several_nodes_do_not_add_up(offload: Mpi) -> None:
    """As many as end a job if all are in one place: it continues to its own end, and all bytes are correct."""
    offload.pretend_nodes = 2
    job = offload.start(3, ["steady", "operations", "5"])
    job.wait_for("steady: ready")

    killed: list[Serving] = []
    places = {one.keeper for one in offload.serving()}
    assert len(places) == 2
    for _ in range(5):
        for keeper in places:

            def left(keeper: int = keeper) -> list[Serving]:
                return [one for one in offload.serving() if one.keeper == keeper and one not in killed]

            assert wait_until(lambda left=left: bool(left()), SETTLE_S), job.text()
            time.sleep(0.1)
            killed.append(left()[-1])
            with suppress(ProcessLookupError):  # UCX may have ended it, too
                os.kill(killed[-1].pid, signal.SIGKILL)
    result = job.wait(40).ok()
    assert "WRONG DATA" not in result.out and GIVEN_UP not in result.out
    assert result.offloaded() > 0
    offload.nothing_left()
