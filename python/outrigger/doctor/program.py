"""A small MPI program that needs no compiler: a script for mpiexec that calls some MPI_Ialltoall of a libmpi.

`program.py ABI LIBMPI` prints a line of JSON, and fails if the ranks' data is wrong. The calls are looked up in all
loaded libraries, in the order of the loader: preloaded ones come first.
"""

from __future__ import annotations

import ctypes
import json
import sys
from collections.abc import Callable
from dataclasses import dataclass

BLOCK_BYTES = 65536
REPEATS = 4


@dataclass(frozen=True)
class Handles:
    """Constants of an ABI's mpi.h."""

    comm_world: object
    byte: object
    status_ignore: object


def _handles(abi: str, libmpi: ctypes.CDLL) -> Handles:
    if abi == "openmpi":  # addresses of objects in the library

        def of(name: str) -> ctypes.c_void_p:
            return ctypes.c_void_p(ctypes.addressof(ctypes.c_char.in_dll(libmpi, name)))

        return Handles(of("ompi_mpi_comm_world"), of("ompi_mpi_byte"), None)
    if abi == "mpich":
        return Handles(ctypes.c_int(0x44000000), ctypes.c_int(0x4C00010D), ctypes.c_void_p(1))
    return Handles(ctypes.c_void_p(0x101), ctypes.c_void_p(0x247), None)


def _checked(call: Callable[..., int], *arguments: object) -> None:
    code = call(*arguments)
    if code != 0:
        sys.exit(f"an MPI call returned {code}")


def _block(source: int, destination: int) -> bytes:
    return bytes([(17 * source + destination + 1) % 256]) * BLOCK_BYTES


def main() -> None:
    """Main function of a rank."""
    abi, path = sys.argv[1:]
    libmpi = ctypes.CDLL(path, mode=ctypes.RTLD_GLOBAL)
    mpi = ctypes.CDLL(None)
    handles = _handles(abi, libmpi)
    _checked(mpi.MPI_Init, None, None)
    rank, size = ctypes.c_int(), ctypes.c_int()
    _checked(mpi.MPI_Comm_rank, handles.comm_world, ctypes.byref(rank))
    _checked(mpi.MPI_Comm_size, handles.comm_world, ctypes.byref(size))
    outgoing = b"".join(_block(rank.value, other) for other in range(size.value))
    incoming = ctypes.create_string_buffer(len(outgoing))
    wanted = b"".join(_block(other, rank.value) for other in range(size.value))
    for _ in range(REPEATS):
        ctypes.memset(incoming, 0, len(outgoing))
        request = ctypes.c_void_p()  # large enough for any ABI
        _checked(
            mpi.MPI_Ialltoall,
            *(outgoing, BLOCK_BYTES, handles.byte),
            *(incoming, BLOCK_BYTES, handles.byte),
            handles.comm_world,
            ctypes.byref(request),
        )
        _checked(mpi.MPI_Wait, ctypes.byref(request), handles.status_ignore)
        if incoming.raw[: len(wanted)] != wanted:
            sys.exit("the received data is wrong")
    _checked(mpi.MPI_Finalize)
    print(json.dumps({"rank": rank.value, "ranks": size.value}), flush=True)


if __name__ == "__main__":
    main()
