"""Which ranks go to which host."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrigger.errors import UserError
from outrigger.hostfile import Host
from outrigger.plan import assign

HOSTS = st.lists(st.integers(1, 40), min_size=1, max_size=12).map(
    lambda slots: tuple(Host(f"n{i}", count) for i, count in enumerate(slots))
)


@given(HOSTS, st.integers(1, 600))
def test_every_rank_has_one_host(hosts: tuple[Host, ...], ranks: int) -> None:
    shares = assign(hosts, ranks, oversubscribe=True)
    assert sum(share.ranks for share in shares) == ranks
    following = 0
    for share in shares:
        assert share.first == following
        assert share.ranks > 0
        following = share.last + 1
    # No host is a round ahead of another.
    rounds = -(-ranks // sum(host.slots for host in hosts))
    assert all(share.ranks <= rounds * share.host.slots for share in shares)


@given(HOSTS, st.data())
def test_hosts_are_filled_in_order(hosts: tuple[Host, ...], data: st.DataObject) -> None:
    ranks = data.draw(st.integers(1, sum(host.slots for host in hosts)))
    shares = assign(hosts, ranks)
    assert [share.host for share in shares] == list(hosts[: len(shares)])
    assert all(share.ranks == share.host.slots for share in shares[:-1])


@pytest.mark.parametrize(
    ("hosts", "message"),
    [
        ((Host("a", 2), Host("b", 3)), "-n 6: the 2 hosts have 5 slots"),
        ((Host("a", 5),), "-n 6: a has 5 slots; name more hosts or slots, or let ranks share cores with --oversub"),
    ],
)
def test_too_many_ranks_are_refused(hosts: tuple[Host, ...], message: str) -> None:
    with pytest.raises(UserError, match=message):
        assign(hosts, 6)


def test_max_slots_limit_the_ranks_of_a_host() -> None:
    hosts = (Host("a", 2, 3), Host("b", 1))
    assert [share.ranks for share in assign(hosts, 9, oversubscribe=True)] == [3, 6]
    limited = (Host("a", 2, 3), Host("b", 1, 1))
    assert [share.ranks for share in assign(limited, 4, oversubscribe=True)] == [3, 1]
    with pytest.raises(UserError, match="-n 5: the hosts' max_slots allow 4 ranks"):
        assign(limited, 5, oversubscribe=True)


def test_hosts_keep_their_dpus() -> None:
    shares = assign((Host("a", 1), Host("b", 1)), 2, dpus={"a": "bf1", "b": "bf2"})
    assert [share.dpu for share in shares] == ["bf1", "bf2"]
