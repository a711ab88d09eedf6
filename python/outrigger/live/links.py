"""Traffic between nodes, from both ends' counts, each direction counted once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from outrigger.live.snapshot import Node
from outrigger.live.view import BetweenNodes, NodeLinkView

MOST_LINKS = 64
"""Per job, in the view; a keeper names the 32 nodes with the most traffic."""


@dataclass
class LinkRates:
    """Rates of one node, in bytes per second over the last interval."""

    sent: dict[int, float] = field(default_factory=dict)
    """To each named node."""
    received: dict[int, float] = field(default_factory=dict)
    all_sent: float = 0.0
    """Also to nodes that are not named."""


def rates(node: Node, before: Node | None, seconds: float) -> LinkRates:
    """Without an earlier one: since MPI_Init. A newly named node has no rate yet."""
    if before is None:
        was = {link.node: (0, 0) for link in node.links}
    else:
        was = {link.node: (link.sent, link.received) for link in before.links}
    found = LinkRates()
    for link in node.links:
        sent, received = was.get(link.node, (link.sent, link.received))
        found.sent[link.node] = max(0, link.sent - sent) / seconds
        found.received[link.node] = max(0, link.received - received) / seconds
    all_sent = before.all_links.sent if before is not None else 0
    found.all_sent = max(0, node.all_links.sent - all_sent) / seconds
    return found


def between(told: Sequence[tuple[Node, LinkRates]]) -> BetweenNodes:
    """Busiest first. If both ends report a link, the sender's count is used."""
    names = {link.node: link.name for node, _ in told for link in node.links}
    names.update({node.node: node.host for node, _ in told})

    def view(source: int, target: int, count: int, rate: float) -> NodeLinkView:
        return NodeLinkView(source, target, names[source], names[target], count, rate)

    ways = {
        (link.node, node.node): view(link.node, node.node, link.received, rate.received[link.node])
        for node, rate in told
        for link in node.links
    }
    ways.update(
        ((node.node, link.node), view(node.node, link.node, link.sent, rate.sent[link.node]))
        for node, rate in told
        for link in node.links
    )
    busiest = sorted(ways.values(), key=lambda way: (-way.bytes_per_second, -way.bytes, way.source, way.target))
    shown = busiest[:MOST_LINKS]
    senders = {node.node for node, _ in told}
    sent = sum(rate.all_sent for _, rate in told)
    named = sum(way.bytes_per_second for way in shown if way.source in senders)
    unnamed = sum(max(0, node.all_links.nodes - len(node.links)) for node, _ in told)
    return BetweenNodes(shown, len(busiest) - len(shown) + unnamed, max(0.0, sent - named))
