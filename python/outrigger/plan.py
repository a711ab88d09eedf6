"""Distribution of ranks over hosts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from outrigger.errors import UserError
from outrigger.hostfile import Host


def check_ranks(ranks: int) -> None:
    """Checks -n before other computations."""
    if ranks < 1:
        raise UserError(f"-n {ranks}: at least one rank is needed")


@dataclass(frozen=True)
class Share:
    """A host's part of a job: consecutive ranks."""

    host: Host
    first: int
    ranks: int
    dpu: str | None = None

    @property
    def last(self) -> int:
        """The last of its ranks."""
        return self.first + self.ranks - 1


def _count_by_host(hosts: Sequence[Host], ranks: int) -> list[int]:
    """Fills hosts in their order by slots, and starts again with the first while ranks are left."""
    counts = [0] * len(hosts)
    rest = ranks
    while rest:
        for index, host in enumerate(hosts):
            left = rest if host.max_slots is None else host.max_slots - counts[index]
            more = min(rest, host.slots, left)
            counts[index] += more
            rest -= more
    return counts


def _check_limits(hosts: Sequence[Host], ranks: int) -> None:
    """Checks the max_slots of all hosts together."""
    limits = [host.max_slots for host in hosts if host.max_slots is not None]
    if len(limits) == len(hosts) and ranks > sum(limits):
        raise UserError(f"-n {ranks}: the hosts' max_slots allow {sum(limits)} ranks; start fewer, or name more hosts")


def with_first(shares: Sequence[Share], name: str) -> tuple[Share, ...]:
    """Same hosts and counts, but `name`, if it is one of them, has the first ranks.

    Open MPI's mpirun does so with the host that it runs on.
    """
    renumbered: list[Share] = []
    first = 0
    for share in sorted(shares, key=lambda share: share.host.name != name):
        renumbered.append(replace(share, first=first))
        first += share.ranks
    return tuple(renumbered)


def assign(
    hosts: Sequence[Host], ranks: int, *, oversubscribe: bool = False, dpus: dict[str, str] | None = None
) -> tuple[Share, ...]:
    """Hosts with ranks, in their order, with consecutive ranks each."""
    slots = sum(host.slots for host in hosts)
    if ranks > slots and not oversubscribe:
        have = f"{hosts[0].name} has" if len(hosts) == 1 else f"the {len(hosts)} hosts have"
        raise UserError(
            f"-n {ranks}: {have} {slots} slots; name more hosts or slots, or let ranks share cores with --oversubscribe"
        )
    _check_limits(hosts, ranks)
    shares: list[Share] = []
    first = 0
    for host, count in zip(hosts, _count_by_host(hosts, ranks), strict=True):
        if count:
            shares.append(Share(host, first, count, (dpus or {}).get(host.name)))
        first += count
    return tuple(shares)
