"""Nonblocking calls that are made again and again, with and without changes, from several requests at a time.

The library uses an operation again that a call with the same arguments has described. This must not show.
"""

import sys
from array import array

from mpi4py import MPI

ROUNDS = 6
BLOCK = 4096
world = MPI.COMM_WORLD


def block(number: int, source: int, to: int) -> array:
    return array("i", [number * 10_000 + source * 100 + to]) * BLOCK


def blocks_from(number: int, source: int, size: int) -> array:
    return sum((block(number, source, to) for to in range(size)), array("i"))


def check(what: str, number: int, received: array, expected: array) -> None:
    if received != expected:
        sys.exit(f"repeated: rank {world.rank}, round {number}: {what} gave wrong bytes")


def alltoalls(comm: MPI.Comm, pairs: list[tuple[array, array]], number: int) -> None:
    """All at once, in the same buffers as in the round before."""
    for sent, _ in pairs:
        sent[:] = blocks_from(number, comm.rank, comm.size)
    requests = [comm.Ialltoall(sent, received) for sent, received in pairs]
    MPI.Request.Waitall(requests)
    expected = sum((block(number, source, comm.rank) for source in range(comm.size)), array("i"))
    for _, received in pairs:
        check("alltoall", number, received, expected)


def alltoall_in_place(comm: MPI.Comm, received: array, number: int) -> None:
    received[:] = blocks_from(number, comm.rank, comm.size)
    comm.Ialltoall(MPI.IN_PLACE, received).Wait()
    check("in place", number, received, sum((block(number, s, comm.rank) for s in range(comm.size)), array("i")))


def broadcast(comm: MPI.Comm, data: array, root: int, number: int) -> None:
    data[:] = block(number if comm.rank == root else -1, root, 0)
    comm.Ibcast(data, root).Wait()
    check("broadcast", number, data, block(number, root, 0))


def main() -> None:
    pairs = [(array("i", [0]) * (BLOCK * world.size), array("i", [-1]) * (BLOCK * world.size)) for _ in range(3)]
    data = array("i", [0]) * BLOCK
    for number in range(ROUNDS):
        alltoalls(world, pairs, number)
        alltoalls(world, pairs[: number % 3 + 1], number + 10)
        alltoall_in_place(world, pairs[0][1], number)
        for root in range(world.size):
            broadcast(world, data, root, number)
        # The handle of a freed communicator may come again.
        reversed_ranks = world.Split(0, world.size - world.rank)
        alltoalls(reversed_ranks, pairs[:1], number)
        reversed_ranks.Free()
        duplicate = world.Dup()
        alltoalls(duplicate, pairs[:1], number)
        duplicate.Free()
    world.Barrier()
    if world.rank == 0:
        print("repeated: well", flush=True)


main()
