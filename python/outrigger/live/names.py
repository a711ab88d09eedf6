"""Names of communicators: those without a name get one from their size and a number."""

from __future__ import annotations

from collections.abc import Iterable

from outrigger.live.snapshot import Communicator, Node
from outrigger.report_data import plural

UNNAMED = "(unnamed)"
"""As in keepers' data (src/report/names.hpp)."""
TORCH = "torch"
"""In place of the MPI's name, with a version behind it: a PyTorch job."""
MOST_KEPT = 65536
"""Communicators of a job with numbers; more are called by their sizes alone."""


def is_torch(mpi: str) -> bool:
    """True for the name that a PyTorch job has in place of the MPI's."""
    return mpi.startswith(f"{TORCH} ")


def began(mpi: str) -> str:
    """The event from which run times count."""
    return "the first group" if is_torch(mpi) else "MPI_Init"


def named(communicator: Communicator) -> bool:
    """True if the program or the MPI named it."""
    return communicator.name != UNNAMED


def _by_first_use(nodes: Iterable[Node]) -> list[Communicator]:
    """Unnamed ones. A rank's rows are in the order of its first calls, and of several ranks' places the least counts,
    so that later observers of the same job find the same order.
    """
    places: dict[str, tuple[int, int]] = {}
    found: dict[str, Communicator] = {}
    for node in nodes:
        rows_of = [0] * len(node.ranks)
        for row in node.rows:
            rows_of[row.rank] += 1
            communicator = node.communicators[row.communicator]
            if named(communicator):
                continue
            place = (rows_of[row.rank], node.ranks[row.rank].world)
            places[communicator.id] = min(places.get(communicator.id, place), place)
            found[communicator.id] = communicator
    return [found[identity] for identity in sorted(places, key=lambda identity: (*places[identity], identity))]


class CommunicatorNames:
    """Names within one job. A communicator keeps its number as long as the job is watched."""

    def __init__(self) -> None:
        self._numbers: dict[str, int] = {}

    def learn(self, nodes: Iterable[Node]) -> None:
        """Gives numbers to new unnamed communicators."""
        for communicator in _by_first_use(nodes):
            if len(self._numbers) < MOST_KEPT:
                self._numbers.setdefault(communicator.id, len(self._numbers) + 1)

    def name(self, communicator: Communicator) -> str:
        """Its name, or `#2 of 4 ranks`."""
        if named(communicator):
            return communicator.name
        number = self._numbers.get(communicator.id)
        return (f"#{number} " if number is not None else "") + f"of {plural(communicator.size, 'rank')}"
