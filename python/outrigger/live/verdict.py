"""One or two sentences about a job that does not move: what to look at first."""

from __future__ import annotations

from collections.abc import Sequence

from outrigger.live.messages import peer_of, ranges
from outrigger.live.present import MERGED, Key, place_text
from outrigger.live.waits import Waits
from outrigger.report_data import format_seconds, plural

_MOST_RANGES = 8
_MOST_CHAINED = 6
"""Ranks of which each needs a message of the next one."""
_UNCOUNTED = "MPI_Recv"
_UNSHOWN = "MPI_Win_fence"
"""With live data messages are shown."""
_UNSHOWN_OF_TORCH = "an operation of another backend"


def _who(ranks: Sequence[int]) -> str:
    return f"rank{'s' if len(ranks) > 1 else ''} {ranges(ranks, _MOST_RANGES)}"


def _are(ranks: Sequence[int]) -> str:
    return f"{_who(ranks)} {'are' if len(ranks) > 1 else 'is'}"


def _have(ranks: Sequence[int]) -> str:
    return f"{_who(ranks)} {'have' if len(ranks) > 1 else 'has'}"


def _hint(waits: Waits, ranks: Sequence[int]) -> str:
    shows_messages = all(waits.ranks[rank].shows_messages for rank in ranks)
    such = f"not shown, such as {_UNSHOWN}" if shows_messages else f"not counted, such as {_UNCOUNTED}"
    if waits.is_torch:
        such = f"not shown, such as {_UNSHOWN_OF_TORCH}"
    if len(ranks) == 1:
        return f"It computes, or is in a call that is {such}."
    return f"They compute, or are in calls that are {such}."


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _in_call(waits: Waits, key: Key) -> str:
    """MPI_Barrier on MPI_COMM_WORLD, at solver.c:12."""
    thread = waits.thread_in(key)
    places = {(one.where.object, one.where.offset) for one in waits.inside[key].values()}
    place = place_text(thread.where.object, thread.where.offset, thread.may_name)
    at = f" at {place}" if place and len(places) == 1 else ""
    verb = "waiting for" if thread.waits else "in"
    return f"{verb} {waits.called(key)}{at}"


def _deadlock(waits: Waits, circle: Sequence[Key]) -> str:
    parts = []
    for key, following in zip(circle, [*circle[1:], circle[0]], strict=True):
        missing = [rank for rank in waits.absent[key] if rank in waits.inside[following]]
        parts.append(f"{_are(list(waits.inside[key]))} {_in_call(waits, key)}, without {_who(missing)}")
    unless = ", unless a wait also has other requests" if any(waits.thread_in(key).waits for key in circle) else ""
    text = f"Deadlock{unless}: {'; '.join(parts)}."
    if len({key.communicator for key in circle}) == 1 and circle[0].communicator != MERGED:
        text += " The ranks call different collectives on the same communicator."
    elif len(circle) > 1:
        text += " The ranks call collectives on these communicators in different orders."
    return text


def _waiting(waits: Waits, key: Key) -> str:
    return f"{_have(list(waits.inside[key]))} been {_in_call(waits, key)} for {format_seconds(waits.longest(key))}"


def _missing(waits: Waits, key: Key) -> str:
    """Ranks in no collective that this call needs."""
    free = [rank for rank in waits.absent[key] if not waits.ranks[rank].busy()]
    lost = [rank for rank in free if waits.ranks[rank].gone or waits.ranks[rank].ended]
    late = [rank for rank in free if rank not in lost]
    texts = []
    if lost:
        how = "has ended" if len(lost) == 1 else "have ended"
        texts.append(f"{_capital(_who(lost))} {how} without {waits.called(key)}.")
    if any(waits.ranks[rank].in_message() for rank in late):
        texts.append(_messages(waits, key, late))
    elif late:
        texts.append(f"{_capital(_have(late))} not arrived at {waits.called(key)}{_since(waits, late)}")
    return f"{' '.join(texts)} {_capital(_waiting(waits, key))}."


def _since(waits: Waits, ranks: Sequence[int]) -> str:
    """Text about ranks outside of collectives."""
    does = waits.what_do(ranks)
    seconds = format_seconds(min(one.least_seconds for one in does))
    one = does[0]
    after = f", since {one.call}" + (f" at {one.place}" if one.place else "") if one.call else ""
    if len(does) > 1:
        after = ""
    been = "it has" if len(ranks) == 1 else "they have"
    if all(each.state == "tests" for each in does):
        return f": {been} tested requests, and been in no collective for {seconds}{after}."
    return f": {been} been in no collective for {seconds}{after}. {_hint(waits, ranks)}"


def _at(place: str) -> str:
    return f", at {place}" if place else ""


def _idle(waits: Waits, ranks: Sequence[int]) -> str:
    known = "" if all(waits.ranks[rank].shows_messages for rank in ranks) else " that is known"
    return f"{_capital(_are(ranks))} in no such call{known}{_since(waits, ranks)}"


def _partly(waits: Waits, ranks: Sequence[int]) -> str:
    their = "its" if len(ranks) == 1 else "their"
    return f"{_capital(_are(ranks))} in such calls with some of {their} threads only{_since(waits, ranks)}"


def _others(waits: Waits, ranks: Sequence[int]) -> list[str]:
    """Texts about ranks that are not in such calls, or not with all threads."""
    partly = [rank for rank in ranks if waits.ranks[rank].blocked]
    idle = [rank for rank in ranks if not waits.ranks[rank].blocked]
    return [text(waits, some) for text, some in ((_idle, idle), (_partly, partly)) if some]


def _in_message(waits: Waits, rank: int) -> str:
    """Rank 3 has been in MPI_Recv from rank 0, tag 7, on MPI_COMM_WORLD, at solver.c:12 for 9 s."""
    one = waits.what_does(rank)
    call = f"{one.call} {one.message}" if one.message else one.call
    at = _at(one.place) if one.communicator else _at(one.place).removeprefix(",")
    return f"Rank {rank} has been in {call}{at} for {format_seconds(one.most_seconds)}."


def _ended(waits: Waits) -> str:
    return "destroyed their groups" if waits.is_torch else "called MPI_Finalize"


def _at_the_end(waits: Waits, rank: int) -> str:
    """State of a rank from which a message is missing, and which is in no call with messages itself."""
    if rank not in waits.ranks:
        return f"Rank {rank} is on a node that was not asked: use --hosts or --from."
    found = waits.ranks[rank]
    if found.gone or found.ended:
        return f"Rank {rank} has {'ended' if found.gone else _ended(waits)}."
    if key := next((key for key in waits.inside if rank in waits.inside[key]), None):
        thread = waits.inside[key][rank]
        place = place_text(thread.where.object, thread.where.offset, thread.may_name)
        verb = "waits for" if thread.waits else "is in"
        return f"Rank {rank} {verb} {waits.called(key)}{_at(place)}."
    return " ".join(_others(waits, [rank]))


def _chain(waits: Waits, start: int) -> list[int]:
    """A rank in a call with messages, the rank that its call names, and so on. The last one may be named twice."""
    ranks = [start]
    while len(ranks) <= _MOST_CHAINED:
        blocked = waits.ranks[ranks[-1]].in_message() if ranks[-1] in waits.ranks else None
        following = peer_of(blocked.message) if blocked is not None else None
        if following is None:
            break
        ranks.append(following)
        if following in ranks[:-1]:
            break
    return ranks


def _chained(waits: Waits, ranks: Sequence[int]) -> str:
    blocked = waits.in_messages()
    shown = list(dict.fromkeys(ranks))
    texts = [_in_message(waits, rank) if rank in blocked else _at_the_end(waits, rank) for rank in shown]
    circle = ranks[ranks.index(ranks[-1]) : -1]
    if len(circle) > 1 and not any(waits.ranks[rank].has_threads() for rank in circle):
        texts.append(f"The calls of ranks {ranges(circle)} name one another in a circle.")
    return " ".join(texts)


def _messages(waits: Waits, key: Key | None, ranks: Sequence[int]) -> str:
    """Some of these ranks are in calls with messages. `key`: a collective that they have not arrived at."""
    blocked = [rank for rank in waits.in_messages() if rank in ranks]
    chain = _chain(waits, blocked[0])
    texts = [] if key is None else [f"{_capital(_have(ranks))} not arrived at {waits.called(key)}."]
    texts.append(_chained(waits, chain))
    idle = [rank for rank in ranks if rank not in blocked and rank not in chain]
    texts += _others(waits, idle)
    if len(set(blocked) - set(chain)) > 0:
        texts.append(f"{plural(len(blocked), 'rank')} are in such calls.")
    return " ".join(texts)


def _open_end(waits: Waits) -> str:
    """No rank outside of collectives is missing in them."""
    complete = [key for key in waits.inside if not waits.absent[key]]
    if not complete:
        key = max(waits.inside, key=waits.longest)
        absent = waits.absent[key]
        has_threads = any(len(waits.ranks[rank].threads) > 1 for rank in absent)
        where = "with threads in other collectives" if has_threads else "in other collectives"
        return f"{_capital(_waiting(waits, key))}. {_capital(_are(absent))} absent, {where}."
    key = max(complete, key=waits.longest)
    shown = waits.open_call(key)
    waiting = _capital(_waiting(waits, key))
    if shown.unseen:
        return f"{waiting}. Ranks {shown.unseen} of it are on nodes that were not asked: use --hosts or --from."
    if shown.unknown or not shown.size:
        which = plural(shown.unknown, "rank") if shown.unknown else "some ranks"
        return f"{waiting}. Of this communicator, {which} may be missing: which ranks it has is not known."
    or_else = ", or they wait for another request of the same call" if waits.thread_in(key).waits else ""
    return f"{waiting}. All its ranks have arrived: the collective itself does not go on{or_else}."


def verdict(waits: Waits) -> str:
    """One to three sentences."""
    once = " Some ranks have been seen once only: they may be moving." if waits.waits() and not waits.interval else ""
    return _verdict(waits) + once


def _verdict(waits: Waits) -> str:
    moved = sum(rank.moved for rank in waits.ranks.values())
    seen = f"{moved:,} of {plural(len(waits.ranks), 'rank')}"
    if moved:
        call = "call" if any(rank.shows_messages for rank in waits.ranks.values()) else "collective"
        return f"The job moves: {seen} entered or left a {call} within the last {format_seconds(waits.interval)}."
    if not waits.inside:
        here = [rank for rank, one in waits.ranks.items() if not (one.gone or one.ended)]
        if not here:
            return f"All ranks have {_ended(waits)}, or have ended."
        if waits.in_messages():
            return f"No rank is in a collective. {_messages(waits, None, here)}"
        return f"No rank is in a collective{_since(waits, here)}"
    if circle := waits.circle():
        return _deadlock(waits, circle)
    needing = [key for key in waits.inside if any(not waits.ranks[rank].busy() for rank in waits.absent[key])]
    if needing:
        return _missing(waits, max(needing, key=waits.longest))
    return _open_end(waits)
