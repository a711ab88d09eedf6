"""Conjugate gradients whose dot products are in flight while the matrix is applied.

Each iteration of the method needs two dot products over all ranks, in sequence, and can do nothing meanwhile. The
pipelined form (P. Ghysels and W. Vanroose, "Hiding global synchronization latency in the preconditioned Conjugate
Gradient algorithm", Parallel Computing 40, 2014, algorithm 3) needs one sum of two numbers, posted by MPI_Iallreduce,
and meanwhile applies the matrix to the next vector. The program does not use Outrigger's API.

    classic     dots ├sum┤ dots ├sum┤ apply A                        an iteration
    pipelined   dots ├───sum───┤                                     an iteration
                     apply A ███

    mpiexec -n 4 python cg.py                       # pipelined
    mpiexec -n 4 python cg.py --mode classic        # two times MPI_Allreduce
    mpiexec -n 4 python cg.py --mode testing        # pipelined, with MPI_Test calls between parts of the matrix

The matrix is that of the Poisson equation on a two-dimensional grid (five points), whose rows are distributed over the
ranks. Needs numpy and mpi4py.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # one core per rank

import numpy as np
from mpi4py import MPI

SEED = 20261126
PARTS = 8
"""Parts of the matrix, between which `testing` tests its request."""

Array = np.ndarray


class Poisson:
    """This rank's rows of the grid; vectors have only these."""

    def __init__(self, comm: MPI.Comm, rows: int, columns: int) -> None:
        self.comm = comm
        self.first = rows * comm.rank // comm.size
        self.rows = rows * (comm.rank + 1) // comm.size - self.first
        self.columns = columns
        self._above = comm.rank - 1 if comm.rank > 0 else MPI.PROC_NULL
        self._below = comm.rank + 1 if comm.rank + 1 < comm.size else MPI.PROC_NULL
        self._padded = np.zeros((self.rows + 2, columns + 2))

    def right_side(self) -> Array:
        """Independent of the number of ranks."""
        part: Array = np.random.default_rng(SEED).standard_normal((self.first + self.rows, self.columns))[self.first :]
        return part

    def apply(self, vector: Array, between: Callable[[], object] = lambda: None) -> Array:
        """The matrix times the vector; calls `between` between parts."""
        padded = self._padded
        padded[1:-1, 1:-1] = vector
        self._exchange_edges()
        result = np.empty_like(vector)
        for part in range(PARTS):
            begin, end = self.rows * part // PARTS, self.rows * (part + 1) // PARTS
            own = padded[begin + 1 : end + 1]
            around = padded[begin:end, 1:-1] + padded[begin + 2 : end + 2, 1:-1] + own[:, :-2] + own[:, 2:]
            result[begin:end] = 4 * own[:, 1:-1] - around
            between()
        return result

    def _exchange_edges(self) -> None:
        """Outside of the first and the last rank's edge there are zeros."""
        padded = self._padded
        self.comm.Sendrecv(padded[1], self._above, 1, padded[-1], self._below, 1)
        self.comm.Sendrecv(padded[-2], self._below, 2, padded[0], self._above, 2)


@dataclass
class Solved:
    solution: Array
    iterations: int
    residual: float
    """The method's own residual, squared, relative to the first one."""
    iteration_ms: float
    waited_ms: float
    """Waiting time for sums per iteration; both are medians."""


class Clock:
    """Times of iterations, and of waits for sums."""

    def __init__(self) -> None:
        self.iterations: list[float] = []
        self.waits: list[float] = []
        self._begin = MPI.Wtime()
        self._waited = 0.0

    def waited(self, since: float) -> None:
        self._waited += MPI.Wtime() - since

    def end_iteration(self) -> None:
        now = MPI.Wtime()
        self.iterations.append((now - self._begin) * 1e3)
        self.waits.append(self._waited * 1e3)
        self._begin, self._waited = now, 0.0

    def medians(self) -> tuple[float, float]:
        return statistics.median(self.iterations), statistics.median(self.waits)


def sum_of(matrix: Poisson, clock: Clock, own: float) -> float:
    """Over all ranks."""
    posted = MPI.Wtime()
    total = np.array([own])
    matrix.comm.Allreduce(MPI.IN_PLACE, total)
    clock.waited(posted)
    return float(total[0])


def classic(matrix: Poisson, right: Array, most: int, tolerance: float) -> Solved:
    clock = Clock()
    solution = np.zeros_like(right)
    residual = right.copy()
    direction = residual.copy()
    squared = first = sum_of(matrix, clock, float(np.vdot(residual, residual)))
    iterations = 0
    while iterations < most and squared > tolerance**2 * first:
        applied = matrix.apply(direction)
        step = squared / sum_of(matrix, clock, float(np.vdot(direction, applied)))
        solution += step * direction
        residual -= step * applied
        before, squared = squared, sum_of(matrix, clock, float(np.vdot(residual, residual)))
        direction = residual + squared / before * direction
        iterations += 1
        clock.end_iteration()
    return Solved(solution, iterations, squared / first, *clock.medians())


def pipelined(matrix: Poisson, right: Array, most: int, tolerance: float, *, tests: bool) -> Solved:
    """In the paper's notation: w = A r, q = A w; s = A p and z = A s follow without the matrix."""
    clock = Clock()
    x = np.zeros_like(right)
    r = right.copy()
    w = matrix.apply(r)
    p, s, z = np.zeros_like(r), np.zeros_like(r), np.zeros_like(r)
    dots = np.empty(2)
    gamma_before = alpha = first = 1.0
    iterations = 0
    while True:
        dots[:] = np.vdot(r, r), np.vdot(w, r)
        posted = MPI.Wtime()
        request = matrix.comm.Iallreduce(MPI.IN_PLACE, dots)
        clock.waited(posted)
        q = matrix.apply(w, request.Test if tests else lambda: False)
        computed = MPI.Wtime()
        request.Wait()
        clock.waited(computed)
        gamma, delta = float(dots[0]), float(dots[1])
        if iterations == 0:
            first = gamma
        if iterations == most or gamma <= tolerance**2 * first:
            return Solved(x, iterations, gamma / first, *clock.medians())
        beta = gamma / gamma_before if iterations else 0.0
        alpha = gamma / (delta - beta * gamma / alpha) if iterations else gamma / delta
        gamma_before = gamma
        z = q + beta * z
        s = w + beta * s
        p = r + beta * p
        x += alpha * p
        r -= alpha * s
        w -= alpha * z
        iterations += 1
        clock.end_iteration()


def solve(comm: MPI.Comm, arguments: argparse.Namespace) -> dict[str, Any]:
    matrix = Poisson(comm, arguments.rows, arguments.columns)
    right = matrix.right_side()
    comm.Barrier()
    limits = (arguments.iterations, arguments.tolerance)
    if arguments.mode == "classic":
        solved = classic(matrix, right, *limits)
    else:
        solved = pipelined(matrix, right, *limits, tests=arguments.mode == "testing")
    rest = right - matrix.apply(solved.solution)
    squares = np.array([np.vdot(rest, rest), np.vdot(right, right)])
    comm.Allreduce(MPI.IN_PLACE, squares)
    waits = comm.allreduce(solved.waited_ms) / comm.size
    return {
        "mode": arguments.mode,
        "ranks": comm.size,
        "grid": [arguments.rows, arguments.columns],
        "iterations": solved.iterations,
        "residual": float(np.sqrt(solved.residual)),
        "true_residual": float(np.sqrt(squares[0] / squares[1])),
        "iteration_ms": solved.iteration_ms,
        "waited_ms": waits,
    }


def show(found: dict[str, Any]) -> None:
    """On rank 0."""
    rows, columns = found["grid"]
    print(f"{found['mode']}, {found['ranks']} ranks: {rows} x {columns} points")
    print(
        f"  an iteration   {found['iteration_ms']:.3f} ms (median), of which a rank waits {found['waited_ms']:.3f} ms"
    )
    print(f"  iterations     {found['iterations']}, to {found['residual']:.1e} of the first residual")
    print(f"  A x - b        {found['true_residual']:.1e} of b")


def parse() -> argparse.Namespace:
    """Wrong arguments end the program with a line that names them, on each rank."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--mode", choices=("pipelined", "classic", "testing"), default="pipelined")
    parser.add_argument("--rows", type=int, metavar="N", default=1024, help="of the grid (default: 1024)")
    parser.add_argument("--columns", type=int, metavar="N", default=1024, help="of the grid (default: 1024)")
    parser.add_argument("--iterations", type=int, metavar="N", default=200, help="at most (default: 200)")
    parser.add_argument(
        "--tolerance", type=float, metavar="X", default=1e-8, help="of the residual, by the first one (default: 1e-8)"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="rank 0 writes the figures there")
    arguments = parser.parse_args()
    for name in ("rows", "columns", "iterations"):
        if getattr(arguments, name) < 1:
            parser.error(f"--{name} {getattr(arguments, name)}: at least 1")
    if not 0 < arguments.tolerance < 1:
        parser.error(f"--tolerance {arguments.tolerance}: between 0 and 1")
    if arguments.rows < MPI.COMM_WORLD.size:
        parser.error(f"--rows {arguments.rows}: at least one for each of the {MPI.COMM_WORLD.size} ranks")
    return arguments


def main() -> int:
    """0: solved, or the requested number of iterations was made."""
    arguments = parse()
    comm = MPI.COMM_WORLD
    found = solve(comm, arguments)
    if comm.rank == 0:
        show(found)
        if arguments.json is not None:
            arguments.json.write_text(json.dumps(found) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
