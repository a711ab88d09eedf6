"""A keeper's data about its node: one frame, with the format of src/report/live.hpp."""

from __future__ import annotations

import struct

import msgspec

from outrigger.errors import UserError

MAGIC = b"ORLV"
VERSION = 1
HEADER = struct.Struct("<4sII")
MOST_BYTES = 64 << 20
"""A keeper sends a few MiB at most."""


class Rank(msgspec.Struct, array_like=True, frozen=True):
    """A counting rank of the node."""

    world: int
    pid: int
    service: int
    gone: bool
    run_seconds: float
    """Since MPI_Init."""
    cpu_seconds: float
    """In offloaded calls and their waits."""
    slept_seconds: float = 0.0
    """In polite waits."""
    ended: bool = False
    """It has called MPI_Finalize."""


class Call(msgspec.Struct, array_like=True, frozen=True):
    """A called MPI function."""

    name: str
    form: str
    collective: str | None


class Communicator(msgspec.Struct, array_like=True, frozen=True):
    """A communicator with collective calls."""

    id: str
    name: str
    size: int
    """0: several."""
    first: int = 0
    stride: int = 0
    """Its world ranks are first, first + stride, and so on; stride 0: they are not, or not known."""


class Place(msgspec.Struct, array_like=True, frozen=True):
    """Place of a call in the program's code, and the caller of that code if it is in a library."""

    object: str
    """Path of its file; empty: unknown."""
    offset: int
    caller_object: str
    caller_offset: int


class Present(msgspec.Struct, array_like=True, frozen=True):
    """Last collective, or wait for one, of a thread."""

    rank: int
    call: int
    communicator: int
    place: int
    """-1: unknown."""
    inside: bool
    """The thread is in it."""
    waits: bool
    """It waits for such an operation, which has begun before."""
    number: int
    """Position among the calls of this function on this communicator, from 1."""
    seconds: float
    """Since the thread has entered or left it."""
    behind: bool = False
    """It is done in the background, and the program is not seen to wait for it."""


class Message(msgspec.Struct, array_like=True, frozen=True):
    """Last call of a thread that waits for a message or for requests."""

    rank: int
    name: str
    inside: bool
    """The thread is in it."""
    is_present: bool
    """The thread has also called collectives."""
    calls: int
    """Such calls of the thread so far."""
    seconds: float
    """Since the thread has entered or left it."""
    place: int
    """-1: unknown."""
    communicator: str | None
    size: int
    to: int
    """World rank, or less than 0 (messages.py)."""
    to_tag: int
    source: int
    source_tag: int
    requests: int


class Row(msgspec.Struct, array_like=True, frozen=True):
    """One rank's calls of one function on one communicator. Numbers ending in _ns are times."""

    rank: int
    call: int
    communicator: int
    calls: int
    offloaded: int
    bytes: int
    least_bytes: int
    most_bytes: int
    exposed_ns: int
    hidden_ns: int
    late_ns: int
    most_late_ns: int
    late_peers: int
    native: tuple[tuple[int, int], ...]
    """Indices of reasons, and calls."""
    reached: tuple[tuple[int, int], ...]
    """Indices of reaches, and bytes."""

    @property
    def by_ranks(self) -> int:
        """Calls done by the ranks of a node themselves: neither offloaded, nor native for a reason."""
        return max(0, self.calls - self.offloaded - sum(calls for _, calls in self.native))


class Service(msgspec.Struct, array_like=True, frozen=True):
    """A service process."""

    number: int
    pid: int
    """0: on a DPU, or just being replaced."""
    cpu: int
    core_is_free: bool
    ran_ns: int
    waited_ns: int
    restarts: int
    other_job: int
    warning: str


class Route(msgspec.Struct, array_like=True, frozen=True):
    """Transport between nodes."""

    kind: str
    transports: str


class Link(msgspec.Struct, array_like=True, frozen=True):
    """Traffic between this node's service processes and those of another node, in bytes."""

    node: int
    name: str
    sent: int
    received: int


class AllLinks(msgspec.Struct, array_like=True, frozen=True):
    """The same with all other nodes; those with the most bytes are named."""

    nodes: int = 0
    sent: int = 0
    received: int = 0


class Dpu(msgspec.Struct, array_like=True, frozen=True):
    """DPU whose service processes serve the node's ranks, or did before it was lost: bytes of the host's memory."""

    name: str = ""
    """Empty: never had one."""
    read: int = 0
    written: int = 0


class Node(msgspec.Struct, frozen=True, kw_only=True):
    """A node of a job, from its keeper."""

    job: str
    host: str
    keeper: int
    uid: int
    node: int
    nodes: int
    world: int
    mpi: str
    at_ns: int
    reaches: tuple[str, ...]
    reasons: tuple[str, ...]
    calls: tuple[Call, ...]
    communicators: tuple[Communicator, ...]
    ranks: tuple[Rank, ...]
    rows: tuple[Row, ...]
    rows_left_out: int
    services: tuple[Service, ...]
    wire: tuple[Route, ...]
    links: tuple[Link, ...] = ()
    all_links: AllLinks = AllLinks()
    dpu: Dpu = Dpu()
    places: tuple[Place, ...] = ()
    present: tuple[Present, ...] = ()
    messages: tuple[Message, ...] = ()
    shows_messages: bool = False


_MOST_RANKS = 1 << 24
"""More than any job has, and few enough to list."""

_decoder = msgspec.msgpack.Decoder(Node)


def check(node: Node, what: str) -> Node:
    """Checks that indices are in range, counts are not negative, and communicators not too large to list."""
    listed = (node.world, *(number for one in node.communicators for number in (one.size, one.first, one.stride)))
    if not all(0 <= number <= _MOST_RANKS for number in listed):
        raise UserError(f"{what} cannot be read: a number of ranks is out of range")
    limits = (len(node.ranks), len(node.calls), len(node.communicators))
    for row in node.rows:
        places = (row.rank, row.call, row.communicator)
        counts = (row.calls, row.offloaded, row.bytes, row.exposed_ns, row.hidden_ns, row.late_ns, row.most_late_ns)
        named = all(0 <= place < limit for place, limit in zip(places, limits, strict=True))
        reasons = all(0 <= place < len(node.reasons) and calls >= 0 for place, calls in row.native)
        reaches = all(0 <= place < len(node.reaches) and count >= 0 for place, count in row.reached)
        if not (named and reasons and reaches and min(counts) >= 0):
            raise UserError(f"{what} cannot be read: an index is out of range")
    for now in node.present:
        places = (now.rank, now.call, now.communicator)
        named = all(0 <= place < limit for place, limit in zip(places, limits, strict=True))
        if not (named and -1 <= now.place < len(node.places) and now.number >= 0 and now.seconds >= 0):
            raise UserError(f"{what} cannot be read: a present call has an index out of range")
    for message in node.messages:
        indices = 0 <= message.rank < len(node.ranks) and -1 <= message.place < len(node.places)
        peers = max(message.to, message.source, message.size) <= _MOST_RANKS
        if not (indices and peers and min(message.calls, message.seconds, message.size, message.requests) >= 0):
            raise UserError(f"{what} cannot be read: a message call has a number out of range")
    if any(place.offset < 0 or place.caller_offset < 0 for place in node.places):
        raise UserError(f"{what} cannot be read: negative offsets of places")
    exchanged = [count for link in node.links for count in (link.node, link.sent, link.received)]
    if min((*exchanged, *msgspec.structs.astuple(node.all_links), node.dpu.read, node.dpu.written)) < 0:
        raise UserError(f"{what} cannot be read: negative traffic")
    return node


def decode(frame: bytes, what: str = "the keeper's data") -> Node:
    """Decodes a whole frame; raises UserError for other data."""
    if len(frame) < HEADER.size:
        raise UserError(f"{what} cannot be read: it ends early")
    magic, version, size = HEADER.unpack_from(frame)
    if magic != MAGIC:
        raise UserError(f"{what} cannot be read: this is not a live frame")
    if version != VERSION:
        raise UserError(f"{what} has version {version}, this command reads version {VERSION}: use the one of the job")
    if size > MOST_BYTES or len(frame) != HEADER.size + size:
        raise UserError(f"{what} cannot be read: its length is wrong")
    try:
        node = _decoder.decode(memoryview(frame)[HEADER.size :])
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise UserError(f"{what} cannot be read: {error}") from error
    return check(node, what)
