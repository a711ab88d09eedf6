"""Texts about calls that wait for messages or requests."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from outrigger.live.names import UNNAMED
from outrigger.live.snapshot import Message
from outrigger.report_data import plural

NO_SIDE, ANY_SOURCE, NO_PROCESS, OTHER_WORLD = -1, -2, -3, -4
"""Instead of a world rank (src/report/ledger.hpp)."""
ANY_TAG = -1
_WORDS = {
    ANY_SOURCE: "any rank",
    NO_PROCESS: "no rank (MPI_PROC_NULL)",
    OTHER_WORLD: "a process of another MPI_COMM_WORLD",
}
_MOST_RANGES = 4


def ranges(numbers: Iterable[int], most: int | None = None) -> str:
    """0-5,7. `most`: further ranges are counted."""
    found: list[list[int]] = []
    for number in sorted(set(numbers)):
        if found and number == found[-1][1] + 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    texts = [str(first) if first == last else f"{first}-{last}" for first, last in found]
    if most is not None and len(texts) > most:
        left = sum(last - first + 1 for first, last in found[most:])
        return f"{','.join(texts[:most])} and {left:,} more"
    return ",".join(texts)


def _peers(ranks: Sequence[int]) -> str:
    named = {rank for rank in ranks if rank >= 0}
    words = [_WORDS.get(rank, "a rank that is not known") for rank in sorted({rank for rank in ranks if rank < 0})]
    if named:
        words.insert(0, f"rank{'s' if len(named) > 1 else ''} {ranges(named, _MOST_RANGES)}")
    return " or ".join(words)


def _tags(tags: Sequence[int]) -> str:
    if len(set(tags)) > 1:
        return "several tags"
    return "any tag" if tags[0] == ANY_TAG else f"tag {tags[0]}"


def _side(word: str, ends: Sequence[tuple[int, int]]) -> list[str]:
    """`ends`: ranks and tags."""
    if any(rank == NO_SIDE for rank, _ in ends):
        return []
    return [f"{word} {_peers([rank for rank, _ in ends])}, {_tags([tag for _, tag in ends])}"]


def is_wait(message: Message) -> bool:
    """True if it waits for requests."""
    return message.name.startswith("MPI_Wait")


def communicator_text(message: Message) -> str:
    """MPI_COMM_WORLD, a communicator of 4 ranks. Empty: the call names none."""
    if message.to == message.source == NO_SIDE:
        return ""
    if message.communicator is None:
        return "another communicator"
    if message.communicator == UNNAMED:
        return f"a communicator of {plural(message.size, 'rank')}"
    return message.communicator


def _requests(counts: Collection[int]) -> str:
    least, most = min(counts), max(counts)
    return f"for {plural(most, 'request')}" if least == most else f"for {least:,} to {most:,} requests"


def message_text(messages: Sequence[Message]) -> str:
    """From rank 0, tag 7, on MPI_COMM_WORLD: one text for calls of the same function on the same communicator."""
    first = messages[0]
    if is_wait(first):
        return _requests([each.requests for each in messages])
    sides = [
        *_side("to", [(each.to, each.to_tag) for each in messages]),
        *_side("from", [(each.source, each.source_tag) for each in messages]),
    ]
    return f"{' and '.join(sides)}, on {communicator_text(first)}" if sides else ""


def peer_of(message: Message) -> int | None:
    """The world rank that it needs. None: it may need any of several, or names none."""
    needed = {message.source, message.to} - {NO_SIDE, NO_PROCESS}
    return next((rank for rank in needed if len(needed) == 1 and rank >= 0), None)
