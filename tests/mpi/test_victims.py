"""Which service process a test kills that is to have a job ended: those of one place only, as deaths count for each."""

from conftest import Serving, victims

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
    """Which has been there before."""
    killed = [Serving(20, 1003, FIRST)]
    assert victims([Serving(10, 1002, FIRST)], killed) == []
