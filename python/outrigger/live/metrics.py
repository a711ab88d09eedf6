"""Running jobs as metrics (prometheus_client): monotonic counters and a few gauges, by job."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from outrigger.live.snapshot import Node, Row
from outrigger.live.sources import Source

MOST_COMMUNICATORS = 100
"""Per job, by name; the rest is counted together as OTHERS, because programs may make thousands."""
OTHERS = "(others)"
_CALL = ("job", "call", "form", "communicator")
_SERVICE = ("job", "host", "service")


def _names(node: Node) -> list[str]:
    """Names of communicators: those with the most calls keep theirs."""
    calls = [0] * len(node.communicators)
    for row in node.rows:
        calls[row.communicator] += row.calls
    order = sorted(range(len(calls)), key=lambda at: -calls[at])
    names = [communicator.name for communicator in node.communicators]
    for at in order[MOST_COMMUNICATORS:]:
        names[at] = OTHERS
    return names


class _Sums:
    """By labels, in insertion order."""

    def __init__(self) -> None:
        self._of: dict[tuple[str, ...], float] = {}

    def add(self, labels: tuple[str, ...], value: float) -> None:
        self._of[labels] = self._of.get(labels, 0.0) + value

    def counter(self, name: str, help_text: str, labels: Iterable[str]) -> Metric:
        family = CounterMetricFamily(name, help_text, labels=tuple(labels))
        for values, value in self._of.items():
            family.add_metric(values, value)
        return family

    def gauge(self, name: str, help_text: str, labels: Iterable[str]) -> Metric:
        family = GaugeMetricFamily(name, help_text, labels=tuple(labels))
        for values, value in self._of.items():
            family.add_metric(values, value)
        return family


def _call_metrics(nodes: Iterable[Node]) -> Iterator[Metric]:
    calls, offloaded, by_ranks, sent, exposed, hidden, late = (_Sums() for _ in range(7))
    native, received = _Sums(), _Sums()

    def add(node: Node, row: Row, communicator: str) -> None:
        call = node.calls[row.call]
        labels = (node.job, call.name, call.form, communicator)
        calls.add(labels, row.calls)
        offloaded.add(labels, row.offloaded)
        by_ranks.add(labels, row.by_ranks)
        sent.add(labels, row.bytes)
        exposed.add(labels, row.exposed_ns * 1e-9)
        hidden.add(labels, row.hidden_ns * 1e-9)
        late.add(labels, row.late_ns * 1e-9)
        for reason, count in row.native:
            native.add((node.job, node.reasons[reason]), count)
        for reach, count in row.reached:
            received.add((node.job, node.reaches[reach]), count)

    for node in nodes:
        names = _names(node)
        for row in node.rows:
            add(node, row, names[row.communicator])
    yield calls.counter("outrigger_calls", "Collectives called by ranks.", _CALL)
    yield offloaded.counter("outrigger_calls_offloaded", "Collectives accepted by service processes.", _CALL)
    yield by_ranks.counter("outrigger_calls_by_ranks", "Collectives done by the ranks of a node themselves.", _CALL)
    yield native.counter("outrigger_calls_native", "Collectives left to the MPI, by reason.", ("job", "reason"))
    yield sent.counter("outrigger_handed_over_bytes", "Bytes passed by ranks in calls.", _CALL)
    yield received.counter("outrigger_received_bytes", "Bytes received, by reach.", ("job", "reach"))
    yield exposed.counter("outrigger_exposed_seconds", "Time of ranks in collectives and their waits.", _CALL)
    yield hidden.counter("outrigger_hidden_seconds", "Time of collectives overlapped with other work.", _CALL)
    yield late.counter("outrigger_late_seconds", "Delays of ranks after the first of their group.", _CALL)


def _service_metrics(nodes: Iterable[Node]) -> Iterator[Metric]:
    up, offers, ran, waited, restarts = (_Sums() for _ in range(5))
    for node in nodes:
        for service in node.services:
            labels = (node.job, node.host, str(service.number))
            offers.add(labels, 0 if service.warning else 1)
            restarts.add(labels, service.restarts)
            if service.pid == 0:  # on a DPU, whose kernel cannot be read from here
                continue
            ran.add(labels, service.ran_ns * 1e-9)
            waited.add(labels, service.waited_ns * 1e-9)
            up.add(labels, 0 if service.ran_ns == 0 else 1)
    yield up.gauge("outrigger_service_up", "1 if the service process of this machine is running.", _SERVICE)
    yield offers.gauge("outrigger_service_offloads", "0: it has failed too often, and nothing is offloaded.", _SERVICE)
    yield ran.counter("outrigger_service_ran_seconds", "Time on its core.", _SERVICE)
    yield waited.counter("outrigger_service_waited_seconds", "Time when others used its core.", _SERVICE)
    yield restarts.counter("outrigger_service_restarts", "Number of its replacements.", _SERVICE)


def _link_metrics(nodes: Iterable[Node]) -> Iterator[Metric]:
    sent, received, all_sent, all_received, read, written = (_Sums() for _ in range(6))
    for node in nodes:
        for link in node.links:
            sent.add((node.job, node.host, link.name or f"node {link.node}"), link.sent)
            received.add((node.job, node.host, link.name or f"node {link.node}"), link.received)
        all_sent.add((node.job, node.host), node.all_links.sent)
        all_received.add((node.job, node.host), node.all_links.received)
        if node.dpu.name:
            read.add((node.job, node.host, node.dpu.name), node.dpu.read)
            written.add((node.job, node.host, node.dpu.name), node.dpu.written)
    by_link, by_host = ("job", "host", "peer"), ("job", "host")
    yield sent.counter("outrigger_link_sent_bytes", "Bytes sent to another node; only the busiest nodes.", by_link)
    yield received.counter("outrigger_link_received_bytes", "Bytes received from it.", by_link)
    yield all_sent.counter("outrigger_wire_sent_bytes", "Bytes sent to all other nodes.", by_host)
    yield all_received.counter("outrigger_wire_received_bytes", "Bytes received from them.", by_host)
    by_dpu = ("job", "host", "dpu")
    yield read.counter("outrigger_dpu_read_bytes", "Bytes that a DPU has read from its host's memory.", by_dpu)
    yield written.counter("outrigger_dpu_written_bytes", "Bytes that a DPU has written to its host's memory.", by_dpu)


def _job_metrics(nodes: Iterable[Node]) -> Iterator[Metric]:
    info, ranks, seconds, slept, left_out = (_Sums() for _ in range(5))
    for node in nodes:
        info.add((node.job, node.host, node.mpi, str(node.uid)), 1)
        ranks.add((node.job, node.host), sum(not rank.gone for rank in node.ranks))
        seconds.add((node.job, node.host), sum(rank.run_seconds for rank in node.ranks))
        slept.add((node.job, node.host), sum(rank.slept_seconds for rank in node.ranks))
        left_out.add((node.job, node.host), node.rows_left_out)
    by_host = ("job", "host")
    yield info.gauge("outrigger_job_info", "A job on this node.", (*by_host, "mpi", "uid"))
    yield ranks.gauge("outrigger_job_ranks", "Running ranks of the job on this node.", by_host)
    yield seconds.counter("outrigger_rank_seconds", "Time since MPI_Init, of all its ranks here.", by_host)
    yield slept.counter("outrigger_rank_slept_seconds", "Time asleep in polite waits, of all its ranks here.", by_host)
    yield left_out.gauge("outrigger_rows_left_out", "Communicators and calls without figures.", by_host)


class Jobs(Collector):
    """Reads the jobs anew for each scrape."""

    def __init__(self, source: Source) -> None:
        self._source = source

    def collect(self) -> Iterator[Metric]:
        """All metrics."""
        told = self._source()
        yield from _job_metrics(told.nodes)
        yield from _call_metrics(told.nodes)
        yield from _service_metrics(told.nodes)
        yield from _link_metrics(told.nodes)
        problems = GaugeMetricFamily("outrigger_exporter_problems", "Keepers that could not be read.")
        problems.add_metric((), len(told.problems))
        yield problems
