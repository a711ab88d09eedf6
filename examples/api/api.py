"""Use of Outrigger's API in Python with mpi4py.

Runs with and without Outrigger: see docs/using/api.md.
"""

from __future__ import annotations

import numpy as np
from mpi4py import MPI

from outrigger import api

ROUNDS = 10
NUMBERS = 16384


def exchange(sent: np.ndarray, received: np.ndarray) -> None:
    """A real program computes before it waits."""
    for _ in range(ROUNDS):
        MPI.COMM_WORLD.Ialltoall(sent, received).Wait()


def main() -> None:
    """Offloaded, then natively."""
    world = MPI.COMM_WORLD
    sent = np.full(NUMBERS * world.size, world.rank, dtype=np.int32)
    received = np.empty_like(sent)
    if world.rank == 0:
        print(
            f"Outrigger {api.version()} offloads"
            if api.is_active()
            else f"nothing is offloaded: {api.inactive_reason()}"
        )
    if api.is_active():
        api.start_counting()
    with api.phase("offloaded"):
        exchange(sent, received)
    with api.switched(False), api.phase("native"):  # on all ranks, at the same place
        exchange(sent, received)
    if world.rank == 0 and api.is_active():
        found = api.counters()
        print(
            f"rank 0: {found['outrigger_calls']} collectives, {found['outrigger_offloaded']} offloaded, "
            f"{found['outrigger_native_switched_off']} switched off"
        )


if __name__ == "__main__":
    main()
