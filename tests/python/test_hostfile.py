"""Files of hosts and of DPUs."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from outrigger import dpufile, hostfile
from outrigger.errors import UserError
from outrigger.hostfile import Host

NAMES = st.from_regex(r"[a-z][a-z0-9-]{0,8}[a-z0-9]", fullmatch=True)
LIMITS = st.none() | st.integers(4096, 9999)
HOSTS = st.lists(st.builds(Host, NAMES, st.integers(1, 4096), LIMITS), min_size=1, unique_by=lambda host: host.name)


@given(HOSTS)
def test_hosts_are_read_back(hosts: list[Host]) -> None:
    assert hostfile.parse(hostfile.render(hosts), "hosts") == tuple(hosts)


@given(HOSTS, st.data())
def test_every_way_to_write_a_host_is_known(hosts: list[Host], data: st.DataObject) -> None:
    lines: list[str] = []
    for host in hosts:
        name, slots = host.name, host.slots
        forms = [f"{name}:{slots}", f"{name} slots={slots}", f"  {name}\tslots={slots}  ", f"{name} slots = {slots}"]
        line = data.draw(st.sampled_from(forms))
        if host.max_slots is not None:
            line += data.draw(st.sampled_from([" max_slots=", "\tmax-slots ="])) + str(host.max_slots)
        lines.append(line + data.draw(st.sampled_from(["", " # the fast one", "\r"])))
        lines += data.draw(st.lists(st.sampled_from(["", "   ", "# a comment: 4"]), max_size=2))
    assert hostfile.parse("\n".join(lines), "hosts") == tuple(hosts)


def test_a_host_alone_has_one_slot_and_repeated_ones_add_up() -> None:
    assert hostfile.parse("a\nb:2\na\na:3\n", "hosts") == (Host("a", 5), Host("b", 2))
    assert hostfile.parse("a max_slots=2\na:2 max_slots=4", "hosts") == (Host("a", 3, 6),)
    assert hostfile.parse("a max_slots=2\na", "hosts") == (Host("a", 2),)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a:2\nb:x", "hosts:2: 'x' is not a number of slots"),
        ("a:0", "hosts:1: '0' is not a number of slots"),
        ("a:", "hosts:1: '' is not a number of slots"),
        ("a:-3", "hosts:1: '-3' is not a number of slots"),
        ("a:٣", "is not a number of slots"),
        ("\n\n:4", "hosts:3: ':4' is not a host name"),
        ("a b", "hosts:1: 'b' is not known here"),
        ("a:2 slots=2", "hosts:1: 'slots=2' after a:2"),
        ("a slots=2 slots=3", "hosts:1: 'slots=3' is not known"),
        ("a cores=4", "hosts:1: 'cores=4' is not known here; write one HOST:SLOTS or HOST slots=N a line"),
        ("a:2 b:2", "hosts:1: 'b:2' is not known here; write one HOST:SLOTS"),
        ("a slots=2 max_slots=x", "hosts:1: 'x' is not a number of slots"),
        ("a max_slots=2 max-slots=2", "hosts:1: 'max-slots=2' is not known here"),
        ("a:2 max_slots=1", "hosts:1: a has max_slots=1, fewer than its 2 slots"),
        ("me@a:2", "hosts:1: 'me@a': write a alone, and `User me` for this host in ~/.ssh/config"),
        ("fe80::1", "hosts:1: 'fe80::1': IPv6 addresses cannot be used; write a name or an IPv4 address"),
        ("[::1]:2", "hosts:1: '[::1]:2': IPv6 addresses cannot be used"),
        ("a;rm:2", "'a;rm' is not a host name"),
        ("-oProxyCommand=x:2", "is not a host name"),
        ("# nothing\n\n", "hosts: no host is named"),
    ],
)
def test_what_is_no_hostfile_is_named(text: str, message: str) -> None:
    with pytest.raises(UserError) as raised:
        hostfile.parse(text, "hosts")
    assert message in str(raised.value)


@given(st.text(max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    for parse in (hostfile.parse, dpufile.parse):
        try:
            assert parse(text, "file")
        except UserError as error:
            assert str(error).startswith("file:")


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"--hostfile .*missing: No such file"):
        hostfile.read(tmp_path / "missing")
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UserError, match="not a text file"):
        dpufile.read(tmp_path / "binary")


def test_a_byte_order_mark_is_no_part_of_a_name(tmp_path: Path) -> None:
    (tmp_path / "hosts").write_bytes(b"\xef\xbb\xbflocalhost slots=2\n")
    assert hostfile.read(tmp_path / "hosts") == (Host("localhost", 2),)


@given(st.lists(NAMES, min_size=1, unique=True))
def test_dpus_are_read_back(names: list[str]) -> None:
    assert dpufile.parse("".join(f"{name}\n" for name in names), "dpus") == tuple(names)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("bf1\nbf2:8", "dpus:2: 'bf2:8' has a ':'"),
        ("bf1\n\nbf1", "dpus:3: bf1 is named in line 1 already"),
        ("bf1 bf2", "dpus:1: 'bf1 bf2' is not the name of a DPU"),
        ("", "dpus: no DPU is named"),
    ],
)
def test_what_is_no_dpufile_is_named(text: str, message: str) -> None:
    with pytest.raises(UserError) as raised:
        dpufile.parse(text, "dpus")
    assert message in str(raised.value)


def test_the_ith_dpu_is_the_ith_hosts() -> None:
    hosts = (Host("a", 2), Host("b", 2))
    assert dpufile.pair(hosts, ("bf1", "bf2"), "dpus") == {"a": "bf1", "b": "bf2"}


@pytest.mark.parametrize(
    ("dpus", "message"), [(("bf1",), "1 DPUs for 2 hosts"), (("bf1", "a"), "a is a host of this job")]
)
def test_dpus_that_do_not_fit_are_refused(dpus: tuple[str, ...], message: str) -> None:
    with pytest.raises(UserError, match=message):
        dpufile.pair((Host("a"), Host("b")), dpus, "dpus")
