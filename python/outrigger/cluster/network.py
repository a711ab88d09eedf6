"""The cluster's network: a bridge with one port per host, each shaped in both directions."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from pyroute2 import IPRoute
from pyroute2.netlink.exceptions import NetlinkError

from outrigger.cluster import cable
from outrigger.cluster.state import PREFIX_LENGTH, Spec
from outrigger.errors import UserError

BRIDGE = "switch"
INTERFACE = "eth0"

# A full frame is 1514 bytes for the kernel; preamble, checksum and gap make it 1538 on a wire.
_FRAME_BYTES = 1514
_FRAME_ON_WIRE_BYTES = 1538
# Burst after a pause: TCP's largest segment, which would be split otherwise, and the timer's delay at high rates.
_BURST_BYTES = 72 * 1024
_BURST_US = 500
# Like a switch with shared buffers; TCP fills the queue, so it limits the delay under load.
_QUEUE_BYTES = 256 * 1024
_QUEUE_US = 33_000
_NETEM_PACKETS = 100_000


def port(index: int) -> str:
    """Port of the bridge for a host."""
    return f"port{index}"


def _index(ip: IPRoute, name: str) -> int:
    found: Any = ip.link_lookup(ifname=name)
    if not found:
        raise OSError(errno.ENODEV, f"there is no interface {name}")
    return int(found[0])


@contextlib.contextmanager
def _needs(what: str, module: str) -> Iterator[None]:
    """Adds the purpose of a kernel request, and the module it needs, to its error."""
    try:
        yield
    except NetlinkError as error:
        if error.code in (errno.ENOENT, errno.EOPNOTSUPP):
            raise UserError(f"{what} needs {module}, which this kernel does not have; try: modprobe {module}") from None
        raise OSError(error.code, f"{what}: {error.args[-1]}") from None


def _shape(ip: IPRoute, index: int, rate_bits: int | None, latency_us: int) -> None:
    """tbf limits the rate; a delay is a queue inside it or alone."""
    parent: dict[str, Any] = {}
    if rate_bits is not None:
        rate_bytes = rate_bits * _FRAME_BYTES // (8 * _FRAME_ON_WIRE_BYTES)
        with _needs("--rate", "sch_tbf"):
            ip.tc(
                "add",
                "tbf",
                index,
                handle="1:",
                rate=rate_bytes,
                burst=max(_BURST_BYTES, rate_bytes * _BURST_US // 10**6),
                limit=max(_QUEUE_BYTES, rate_bytes * _QUEUE_US // 10**6),
            )
        parent = {"parent": "1:1"}
    if latency_us:
        with _needs("--latency", "sch_netem"):
            ip.tc("add", "netem", index, handle="2:", delay=latency_us, limit=_NETEM_PACKETS, **parent)


def _without_ipv6() -> None:
    """One address per host, so that MPIs need not choose. Loopback keeps ::1."""
    with contextlib.suppress(FileNotFoundError):
        Path("/proc/sys/net/ipv6/conf/default/disable_ipv6").write_text("1")


def _without_filters() -> None:
    """Disables firewalls on bridges, which cost CPU time for each segment."""
    for table in ("iptables", "ip6tables", "arptables"):
        with contextlib.suppress(OSError):  # not loaded, or shared by all namespaces and not ours to change
            Path(f"/proc/sys/net/bridge/bridge-nf-call-{table}").write_text("0")


def make_switch() -> None:
    """Creates the bridge in the calling process's network namespace."""
    _without_ipv6()
    _without_filters()
    with IPRoute() as ip:
        with _needs("the switch", "bridge"):
            ip.link("add", ifname=BRIDGE, kind="bridge", br_stp_state=0)
        ip.link("set", index=_index(ip, "lo"), state="up")
        ip.link("set", index=_index(ip, BRIDGE), state="up")


def _faulty_cable(ip: IPRoute, host: int, pid: int) -> tuple[int, int]:
    """Both ends, for the process that forwards frames between them."""
    with _needs("--loss, --duplicate and --reorder", "tun"):
        far = cable.tap(f"far{host}")
        ip.link("set", index=_index(ip, f"far{host}"), net_ns_pid=pid, ifname=INTERFACE)
        return cable.tap(port(host)), far


def connect(host: int, pid: int, spec: Spec) -> tuple[int, int] | None:
    """Connects the bridge to the network namespace of a process, where the other end is eth0.

    Returns both ends if a process must forward frames between them.
    """
    ends = None
    with IPRoute() as ip:
        if spec.faults.any():
            ends = _faulty_cable(ip, host, pid)
        else:
            with _needs("a link", "veth"):
                ip.link("add", ifname=port(host), kind="veth", peer={"ifname": INTERFACE, "net_ns_pid": pid})
        index = _index(ip, port(host))
        ip.link("set", index=index, master=_index(ip, BRIDGE))
        _shape(ip, index, spec.rate_bits, 0)
        ip.link("set", index=index, state="up")
    return ends


def prepare_host() -> None:
    """Prepares the calling process's network namespace before it has a cable."""
    _without_ipv6()


def configure_host(address: str, spec: Spec) -> None:
    """Configures the interfaces of the calling process's network namespace after it has its cable."""
    with IPRoute() as ip:
        ip.link("set", index=_index(ip, "lo"), state="up")
        index = _index(ip, INTERFACE)
        ip.addr("add", index=index, address=address, prefixlen=PREFIX_LENGTH)
        _shape(ip, index, spec.rate_bits, 0 if spec.faults.any() else spec.latency_us)
        ip.link("set", index=index, state="up")


def set_port(host: int, state: str) -> None:
    """Connects or disconnects a host's cable at the switch; the host sees the carrier change."""
    with IPRoute() as ip:
        ip.link("set", index=_index(ip, port(host)), state=state)
