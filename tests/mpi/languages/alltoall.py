"""The program of alltoall.c with mpi4py.

python alltoall.py PREFIX
"""

import sys

import numpy
from mpi4py import MPI

BLOCKS = (1, 17, 4096, 40000)


def values(rank: int, elements: int, salt: int) -> numpy.ndarray:
    index = numpy.arange(elements, dtype=numpy.int64)
    return ((rank * 1000003 + index * 31 + salt * 7919) % 1000000007).astype(numpy.int32)


def v_count(sender: int, receiver: int, block: int) -> int:
    """Elements that one rank sends to another in the v-form."""
    return (sender * 3 + receiver * 5) % 4 * block // 3


def from_mpi(elements: int) -> tuple[MPI.buffer, numpy.ndarray]:
    memory = MPI.Alloc_mem(4 * elements)
    return memory, numpy.frombuffer(memory, dtype=numpy.int32)


def places(counts: list[int]) -> tuple[list[int], int]:
    """Displacements with two elements between the blocks, and the elements in all."""
    displacements, at = [], 0
    for count in counts:
        displacements.append(at)
        at += count + 2
    return displacements, at


def run(block: int, out) -> None:
    world = MPI.COMM_WORLD
    rank, size = world.rank, world.size
    elements = block * size

    # Regular, with memory of MPI_Alloc_mem.
    send_memory, send = from_mpi(elements)
    receive_memory, receive = from_mpi(elements)
    send[:] = values(rank, elements, 1)
    receive[:] = -1
    regular = world.Ialltoall([send, block, MPI.INT], [receive, block, MPI.INT])

    # The v-form, with two elements between the blocks.
    counts = [
        [v_count(rank, peer, block) for peer in range(size)],
        [v_count(peer, rank, block) for peer in range(size)],
    ]
    send_places, send_total = places(counts[0])
    receive_places, receive_total = places(counts[1])
    v_send = values(rank, send_total, 2) * 0.5
    v_receive = numpy.full(receive_total, -1.0)
    v_form = world.Ialltoallv(
        [v_send, counts[0], send_places, MPI.DOUBLE], [v_receive, counts[1], receive_places, MPI.DOUBLE]
    )

    # In place.
    in_place_data = values(rank, elements, 3)
    in_place = world.Ialltoall(MPI.IN_PLACE, [in_place_data, block, MPI.INT])

    # Every second element, into a contiguous buffer.
    strided = MPI.INT.Create_vector(block, 1, 2)
    every_second = strided.Create_resized(0, 8 * block).Commit()
    strided.Free()
    s_send = values(rank, 2 * elements, 4)
    s_receive = numpy.full(elements, -1, dtype=numpy.int32)
    typed = world.Ialltoall([s_send, 1, every_second], [s_receive, block, MPI.INT])

    MPI.Request.Waitall([in_place, typed])
    regular.Wait(MPI.Status())
    while not v_form.Test():
        pass

    for array in (receive, v_receive, in_place_data, s_receive):
        out.write(array.tobytes())
    every_second.Free()
    del send, receive
    MPI.Free_mem(send_memory)
    MPI.Free_mem(receive_memory)


def run_others(block: int, out) -> None:
    world = MPI.COMM_WORLD
    rank, size = world.rank, world.size
    elements = block * size

    # A type and a displacement in bytes for each peer.
    counts, displacements, types = [block] * size, [4 * peer * block for peer in range(size)], [MPI.INT] * size
    w_send = values(rank, elements, 5)
    w_receive = numpy.full(elements, -1, dtype=numpy.int32)
    requests = [world.Ialltoallw([w_send, counts, displacements, types], [w_receive, counts, displacements, types])]

    # Every rank's block for all, in place.
    gathered = numpy.full(elements, -1, dtype=numpy.int32)
    mine = slice(rank * block, (rank + 1) * block)
    gathered[mine] = values(rank, elements, 6)[mine]
    requests.append(world.Iallgather(MPI.IN_PLACE, [gathered, block, MPI.INT]))

    # The last rank's block for all; before its wait, the first rank's by the blocking form.
    nothing = numpy.full(block, -1, dtype=numpy.int32)
    from_last = values(rank, block, 7) if rank == size - 1 else nothing.copy()
    from_first = values(rank, block, 8) if rank == 0 else nothing.copy()
    requests.append(world.Ibcast([from_last, block, MPI.INT], root=size - 1))
    world.Bcast([from_first, block, MPI.INT], root=0)
    MPI.Request.Waitall(requests)

    for array in (w_receive, gathered, from_last, from_first):
        out.write(array.tobytes())


with open(f"{sys.argv[1]}.{MPI.COMM_WORLD.rank}", "wb") as file:
    for size_of_block in BLOCKS:
        run(size_of_block, file)
        run_others(size_of_block, file)
