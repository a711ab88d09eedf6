"""Tests of the words that describe a cluster."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from outrigger.cluster import control, cpusets, session, state, units
from outrigger.cluster.state import Spec
from outrigger.errors import UserError


@pytest.mark.parametrize(("text", "bits"), [("1gbit", 10**9), ("100mbit", 10**8), ("2.5Gbit", 2_500_000_000)])
def test_rates_are_read_and_written(text: str, bits: int) -> None:
    assert units.parse_rate(text) == bits
    assert units.format_rate(bits) == text.lower()


@pytest.mark.parametrize("text", ["", "1", "fast", "-1gbit", "1gb", "1kbit", "100gbit", "1 g bit"])
def test_other_rates_are_refused(text: str) -> None:
    with pytest.raises(UserError, match="--rate"):
        units.parse_rate(text)


@pytest.mark.parametrize(("text", "microseconds"), [("50us", 50), ("1.5ms", 1500), ("1s", 10**6), ("0us", 0)])
def test_latencies_are_read_and_written(text: str, microseconds: int) -> None:
    assert units.parse_latency(text) == microseconds
    assert units.format_latency(microseconds) == text


@pytest.mark.parametrize("text", ["5", "1m", "11s", "soon"])
def test_other_latencies_are_refused(text: str) -> None:
    with pytest.raises(UserError, match="--latency"):
        units.parse_latency(text)


@pytest.mark.parametrize(("text", "share"), [("0%", 0.0), ("1%", 0.01), ("0.5 %", 0.005), ("99%", 0.99)])
def test_shares_are_read(text: str, share: float) -> None:
    assert units.parse_share("--loss", text) == pytest.approx(share)


@pytest.mark.parametrize("text", ["1", "100%", "-1%", "some"])
def test_other_shares_are_refused(text: str) -> None:
    with pytest.raises(UserError, match="--loss"):
        units.parse_share("--loss", text)


@pytest.mark.parametrize("name", ["", "Box", "../box", "a" * 21, "-x"])
def test_names_that_make_no_file_are_refused(name: str) -> None:
    with pytest.raises(UserError, match="--name"):
        state.files(name)


def test_every_host_has_an_address_of_its_own() -> None:
    addresses = [state.address(index) for index in range(state.NODES_AT_MOST)]
    assert len(set(addresses)) == len(addresses)
    assert all(address.startswith("10.77.") and not address.endswith((".0", ".255")) for address in addresses)


@pytest.mark.parametrize("nodes", [0, -1, state.NODES_AT_MOST + 1])
def test_a_number_of_hosts_that_cannot_be_is_refused(nodes: int) -> None:
    with pytest.raises(UserError, match="--nodes"):
        control.up(Spec(nodes, None), "never")


@pytest.mark.parametrize("directory", ["relative", "/nowhere/at/all", "/usr", "/", "/dev/../proc"])
def test_a_directory_that_every_host_needs_is_not_made_private(directory: str) -> None:
    with pytest.raises(UserError, match="--private"):
        control.up(Spec(1, None, private=(directory,)), "never")


def test_what_does_not_exist_is_named_with_what_to_do() -> None:
    for action in (control.look, control.hostfile, control.agent):
        with pytest.raises(UserError, match=r"no cluster 'never'.*outrigger lab cluster up --name never"):
            action(name="never")
    assert not control.down("never")


@pytest.mark.parametrize(
    ("arguments", "rest", "no_input"),
    [
        (["n1", "date", "-u"], ["n1", "date", "-u"], False),
        (["-x", "n1", "-n"], ["n1", "-n"], False),
        (["-xn", "-o", "BatchMode=yes", "n1"], ["n1"], True),
        (["-p22", "-l", "me", "--", "n1"], ["n1"], False),
        ([], [], False),
    ],
)
def test_the_agent_knows_the_options_of_ssh(arguments: list[str], rest: list[str], no_input: bool) -> None:
    assert session._skip_options(arguments) == (rest, no_input)


def _version_1(mount: Path) -> Path:
    """Control groups of version 1 as the kernel shows them, with 4 CPUs."""
    root = mount / "cpuset"
    root.mkdir(parents=True)
    for name, value in {"cpuset.cpus": "0-2,7\n", "cpuset.effective_cpus": "0-2,7\n", "cpuset.mems": "0\n"}.items():
        (root / name).write_text(value)
    return root


def _version_2(mount: Path) -> Path:
    mount.mkdir()
    for name, value in {
        "cgroup.controllers": "cpu cpuset memory\n",
        "cgroup.subtree_control": "",
        "cpuset.cpus.effective": "0-2,7\n",
    }.items():
        (mount / name).write_text(value)
    return mount


@pytest.mark.parametrize("version", [_version_1, _version_2])
def test_hosts_take_their_cores_in_turn(tmp_path: Path, version: Callable[[Path], Path]) -> None:
    mount = tmp_path / "cgroup"
    root = version(mount)
    cpusets.make(Spec(3, None, cores_per_host=2), "some", mount)
    groups = root / "outrigger-some"
    assert [(groups / f"n{host}" / "cpuset.cpus").read_text() for host in range(3)] == ["0,1", "2,7", "0,1"]
    if version is _version_1:
        assert (groups / "n1" / "cpuset.mems").read_text() == "0", "or no process may enter"
    else:
        assert (root / "cgroup.subtree_control").read_text() == "+cpuset"


def test_cores_that_are_not_there(tmp_path: Path) -> None:
    mount = tmp_path / "cgroup"
    root = _version_1(mount)
    for cores in (0, 5):
        with pytest.raises(UserError, match=f"--cores-per-host {cores}: this machine has 4"):
            cpusets.make(Spec(2, None, cores_per_host=cores), "some", mount)
    with pytest.raises(UserError, match="needs the cpuset controller"):
        cpusets.make(Spec(2, None, cores_per_host=1), "some", tmp_path)
    assert not (root / "outrigger-some").exists()


def test_hosts_that_are_not_confined_need_no_control_groups(tmp_path: Path) -> None:
    cpusets.make(Spec(2, None), "some", tmp_path)
    assert list(tmp_path.iterdir()) == []
    cpusets.enter("some", "n0", tmp_path)
    cpusets.remove("some", tmp_path)
