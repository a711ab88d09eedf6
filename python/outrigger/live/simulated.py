"""Nodes of a simulated job, for tests and for viewing pages: their counts grow like a real job's."""

from __future__ import annotations

import random
from collections.abc import Iterator

from outrigger.live.snapshot import AllLinks, Call, Communicator, Dpu, Link, Node, Rank, Route, Row, Service

_REACHES = ("mapped", "cma", "relay", "wire", "copier", "xpmem", "own", "bounce")
_REASONS = ("none", "unknown communicator", "small blocks", "blocking form")
_CALLS = (
    Call("MPI_Ialltoall", "nonblocking", "ialltoall"),
    Call("MPI_Iallreduce", "nonblocking", "iallreduce"),
    Call("MPI_Bcast", "blocking", "ibcast"),
)
_RATES = (200, 1000, 50)
_BLOCK = (1 << 20, 4096, 65536)
_MOST_LINKS = 32


class SimulatedJob:
    """`ranks` ranks on nodes of `per_node`, with or without DPUs. The same seed gives the same job."""

    def __init__(
        self, ranks: int, per_node: int = 64, job: str = "simulated", seed: int = 1, dpus: bool = False
    ) -> None:
        self._ranks, self._per_node, self._job, self._dpus = ranks, per_node, job, dpus
        self._random = random.Random(seed)
        self._late = [self._random.random() ** 6 for _ in range(ranks)]
        self._counts = [[[0, 0, 0, 0] for _ in _CALLS] for _ in range(ranks)]
        """calls, exposed, hidden and late ns of each call of each rank"""
        self._nodes = -(-ranks // per_node)
        self._ran = [0] * self._nodes

    def steps(self, seconds: float = 1.0) -> Iterator[tuple[Node, ...]]:
        """Data of the nodes, each time later by the interval."""
        time = 0.0
        while True:
            time += seconds
            self._advance(seconds)
            yield tuple(self._node(number, time) for number in range(self._nodes))

    def _advance(self, seconds: float) -> None:
        for rank in range(self._ranks):
            busy = 0.2 + 0.1 * self._random.random()
            for call, rate in enumerate(_RATES):
                counts = self._counts[rank][call]
                share = seconds * busy / len(_RATES)
                counts[0] += int(rate * seconds)
                counts[1] += int(1e9 * share * (1 - 0.6 * self._late[rank]))
                counts[2] += int(1e9 * share * 1.5) if call < 2 else 0
                counts[3] += int(1e9 * seconds * 0.05 * self._late[rank])
        for number in range(self._nodes):
            self._ran[number] += int(1e9 * seconds * (0.3 + 0.2 * self._random.random()))

    def _row(self, local: int, rank: int, call: int) -> Row:
        calls, exposed, hidden, late = self._counts[rank][call]
        offloaded = calls if call < 2 else 0
        return Row(
            rank=local, call=call, communicator=min(call, 1), calls=calls, offloaded=offloaded,
            bytes=calls * _BLOCK[call], least_bytes=_BLOCK[call], most_bytes=_BLOCK[call], exposed_ns=exposed,
            hidden_ns=hidden, late_ns=late, most_late_ns=late // max(calls, 1), late_peers=0,
            native=() if offloaded else ((3, calls),),
            reached=((0, calls * _BLOCK[call] // 2), (3, calls * _BLOCK[call] // 2)) if offloaded else (),
        )  # fmt: skip

    def _dpu(self, number: int, ranks: range) -> Dpu:
        """All received data is read once and written once."""
        moved = sum(self._counts[rank][call][0] * _BLOCK[call] for rank in ranks for call in range(2))
        return Dpu(f"node{number}-dpu", moved, moved) if self._dpus else Dpu()

    def _links(self, number: int, ranks: range) -> tuple[Link, ...]:
        """All others get the same amount, except the next one, which gets twice that."""
        wire = sum(self._counts[rank][call][0] * _BLOCK[call] // 2 for rank in ranks for call in range(2))
        share = wire // max(self._nodes, 1)
        others = (other for other in range(self._nodes) if other != number)
        return tuple(
            Link(
                other,
                f"node{other}",
                share * (2 if other == (number + 1) % self._nodes else 1),
                share * (2 if number == (other + 1) % self._nodes else 1),
            )
            for other in others
        )

    def _node(self, number: int, time: float) -> Node:
        ranks = range(number * self._per_node, min(self._ranks, (number + 1) * self._per_node))
        links = self._links(number, ranks)
        largest = sorted(links, key=lambda link: -link.sent - link.received)[:_MOST_LINKS]
        return Node(
            job=self._job, host=f"node{number}", keeper=1000 + number, uid=0, node=number, nodes=self._nodes,
            world=self._ranks, mpi="Open MPI", at_ns=int(time * 1e9), reaches=_REACHES, reasons=_REASONS, calls=_CALLS,
            communicators=(Communicator("0" * 31 + "1", "MPI_COMM_WORLD", self._ranks),
                           Communicator("0" * 31 + "2", "rows", min(64, self._ranks))),
            ranks=tuple(Rank(rank, 5000 + rank, 0, False, time, 0.1 * time) for rank in ranks),
            rows=tuple(self._row(local, rank, call) for local, rank in enumerate(ranks) for call in range(len(_CALLS))),
            rows_left_out=0,
            services=(Service(0, 900 + number, 63, True, self._ran[number], int(2e7 * time), 0, 0, ""),),
            wire=(Route("rdma", "rc_verbs/mlx5_0:1"),) if links else (), links=tuple(largest),
            all_links=AllLinks(len(links), sum(link.sent for link in links), sum(link.received for link in links)),
            dpu=self._dpu(number, ranks),
        )  # fmt: skip
