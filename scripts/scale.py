"""Runs outrigger-sim scale over sizes, algorithms and forms, and draws its counters.

Writes the tables of docs/inside/scaling.md and its picture. The page's text stays; the text between its markers is
replaced. All numbers are counts, not times, so the same code gives the same tables.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib

matplotlib.use("Agg")
from matplotlib import pyplot as plt
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, NullFormatter

DOCS = Path(__file__).resolve().parent.parent / "docs" / "inside"
NODES = (16, 256, 4096)
SERVICES = (1, 4)
CASES = tuple((algorithm, form) for algorithm in ("ring_pull", "scatter_dest") for form in ("regular", "v"))
BEGIN, END = "<!-- counted: begin -->", "<!-- counted: end -->"
# For collectives whose blocks are passed on, every service process is counted.
WHOLE_NODES = (4, 16)
WHOLE_SERVICES = (1, 4)
WHOLE_CASES = tuple(
    (collective, algorithm, block)
    for collective, algorithms, blocks in (
        ("allgather", ("flat", "node_pull", "hierarchical"), (4096, 1 << 20)),
        ("bcast", ("flat", "hierarchical"), (4096, 1 << 20)),
    )
    for algorithm in algorithms
    for block in (blocks if algorithm == "hierarchical" or collective == "bcast" else blocks[:1])
)
WHOLE_TEXT = """All service processes together, 8 ranks on each node, the root on the first. Every engine is the real
one; all ranks are there before the first byte moves."""
KINDS = ("announce", "delivered", "release", "replica_request", "replica_answer", "replica_done")

Count = dict[str, Any]


def count(program: Path, nodes: int, services: int, algorithm: str, form: str) -> Count:
    command = [str(program), "scale", "--json", "--nodes", str(nodes), "--services", str(services)]
    command += ["--algorithm", algorithm, "--form", form]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=900)
    figures: Count = json.loads(done.stdout)
    return figures


def count_whole(program: Path, collective: str, algorithm: str, block: int, nodes: int, services: int) -> Count:
    command = [str(program), "scale", "--json", "--nodes", str(nodes), "--services", str(services)]
    command += [
        "--collective",
        collective,
        "--algorithm",
        algorithm,
        "--block-bytes",
        str(block),
        "--ranks-per-node",
        "8",
    ]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=900)
    figures: Count = json.loads(done.stdout)
    return figures


def total(messages: dict[str, dict[str, int]], what: str) -> int:
    return sum(kind[what] for kind in messages.values())


def size(count_of_bytes: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if count_of_bytes < 1000 or unit == "GB":
            break
        count_of_bytes /= 1000
    return f"{count_of_bytes:.0f} {unit}" if count_of_bytes >= 100 else f"{count_of_bytes:.1f} {unit}"


def round_size(count_of_bytes: float) -> str:
    """For an axis: 10 kB."""
    return size(count_of_bytes).replace(".0 ", " ")


def number(count_of: float) -> str:
    """For an axis: 10,000; 10 million."""
    return f"{count_of / 1e6:g} million" if count_of >= 1e6 else f"{count_of:,.0f}"


def table(counts: list[Count]) -> str:
    lines = [
        "| algorithm | form | nodes | ranks | announcements | reports | releases | control bytes sent | moves "
        "| memory at most | a pair | coroutines |",
        "|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for one in counts:
        sent = one["sent"]
        kinds = [f"{sent.get(kind, {'count': 0})['count']:,}" for kind in ("announce", "delivered", "release")]
        lines.append(
            f"| `{one['algorithm']}` | {one['form']} | {one['nodes']:,} | {one['ranks']:,} | {' | '.join(kinds)} "
            f"| {size(total(sent, 'bytes'))} | {one['moves']:,} | {size(one['peak_bytes'])} "
            f"| {one['operation_bytes_per_pair']:.1f} B | {one['most_frames']} |"
        )
    return "\n".join(lines)


def tables(counts: list[Count]) -> str:
    parts = []
    for services in SERVICES:
        chosen = [one for one in counts if one["services"] == services]
        each = chosen[0]["local_ranks"]
        title = "One service process a node" if services == 1 else f"{services} service processes a node"
        parts.append(f"### {title}, {each} ranks each\n\n{table(chosen)}")
    return "\n\n".join(parts)


def whole_table(counts: list[Count]) -> str:
    lines = [
        "| collective | algorithm | block | nodes | SPs each | announcements | reports | releases "
        "| replica requests, answers, dones, each | control bytes | moves | blocks on the wire | of one node |",
        "|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|",
    ]
    for one in counts:
        sent, block = one["sent"], one["block_bytes"]
        numbers = {kind: sent.get(kind, {"count": 0})["count"] for kind in KINDS}
        assert len({numbers[kind] for kind in KINDS[3:]}) == 1, "a question without its answer"
        cells = [one["collective"].removeprefix("i"), f"`{one['algorithm']}`", f"{block >> 10} KiB"]
        cells += [str(one["nodes"]), str(one["services"])]
        cells += [f"{numbers[kind]:,}" for kind in KINDS[:4]]
        cells += [size(total(sent, "bytes")), f"{one['moves']:,}"]
        cells += [f"{one['wire_bytes'] / block:,.0f}", f"{one['most_bytes_from_a_node'] / block:,.0f}"]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def draw(counts: list[Count], path: Path) -> None:
    figure, axes = plt.subplots(1, 3, figsize=(12, 4), constrained_layout=True)
    panels: tuple[tuple[str, Callable[[Count], float], Callable[[float], str]], ...] = (
        ("control messages sent", lambda one: total(one["sent"], "count"), number),
        ("control bytes sent", lambda one: total(one["sent"], "bytes"), round_size),
        ("most memory", lambda one: one["peak_bytes"], round_size),
    )
    colours = {"ring_pull": "tab:blue", "scatter_dest": "tab:orange"}
    for panel, (title, value, label) in zip(axes, panels, strict=True):
        axis: Axes = panel
        for algorithm, form in CASES:
            chosen = [one for one in counts if (one["algorithm"], one["form"]) == (algorithm, form)]
            chosen = [one for one in chosen if one["services"] == 1]
            style = "-" if form == "regular" else "--"
            ranks = [one["ranks"] for one in chosen]
            axis.plot(
                ranks,
                [value(one) for one in chosen],
                style,
                marker="o",
                color=colours[algorithm],
                label=f"{algorithm}, {form}",
            )
        ranks = [one["ranks"] for one in counts if one["services"] == 1 and one["form"] == "regular"][:3]
        start = min(value(one) for one in counts if one["services"] == 1) / 2
        axis.plot(ranks, [start * rank / ranks[0] for rank in ranks], ":", color="grey", label="proportional to ranks")
        axis.set_xscale("log")
        axis.set_yscale("log")
        axis.set_xticks([512, 8192, 131072], ["512", "8,192", "131,072"])
        axis.xaxis.set_minor_formatter(NullFormatter())
        axis.yaxis.set_major_formatter(FuncFormatter(lambda tick, _position, label=label: label(tick)))
        axis.set_title(title)
        axis.set_xlabel("ranks of the job, 32 on a node")
        axis.grid(True, which="major", alpha=0.3)
    axes[0].legend(fontsize=8)
    figure.suptitle("One service process with 32 ranks, one all-to-all")
    figure.savefig(path, dpi=110, metadata={"Software": None})


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--program", type=Path, required=True, help="outrigger-sim")
    parser.add_argument("--check", action="store_true", help="write nothing; exit with 1 where the tables differ")
    arguments = parser.parse_args()
    counts = []
    for services in SERVICES:
        for algorithm, form in CASES:
            for nodes in NODES:
                print(f"{algorithm}, {form}, {nodes} nodes, {services} service processes each", file=sys.stderr)
                counts.append(count(arguments.program, nodes, services, algorithm, form))
    whole = []
    for services in WHOLE_SERVICES:
        for nodes in WHOLE_NODES:
            print(f"allgathers and broadcasts, {nodes} nodes, {services} service processes each", file=sys.stderr)
            whole += [count_whole(arguments.program, *case, nodes, services) for case in WHOLE_CASES]
    page = DOCS / "scaling.md"
    text = page.read_text()
    before, rest = text.split(BEGIN)
    after = rest.split(END)[1]
    passed_on = f"### Allgathers and broadcasts\n\n{WHOLE_TEXT}\n\n{whole_table(whole)}"
    fresh = f"{before}{BEGIN}\n\n{tables(counts)}\n\n{passed_on}\n\n{END}{after}"
    if arguments.check:
        if fresh != text:
            print("docs/inside/scaling.md differs from what is counted now: ./dev scale", file=sys.stderr)
        return int(fresh != text)
    page.write_text(fresh)
    draw(counts, DOCS / "scaling.png")
    return 0


if __name__ == "__main__":
    sys.exit(main())
