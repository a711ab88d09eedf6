"""DPUs by name, one a line: the i-th belongs to the i-th host.

One for each host, no `:`, no name twice. `#` begins a comment.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from outrigger.errors import UserError
from outrigger.hostfile import Host, is_host_name, meaningful_lines, read_text


def parse(text: str, source: str) -> tuple[str, ...]:
    """DPUs of a text, in its order."""
    lines: dict[str, int] = {}
    for number, line in meaningful_lines(text):
        where = f"{source}:{number}"
        if ":" in line:
            raise UserError(
                f"{where}: '{line}' has a ':'; write the DPU's name alone, how many processes it runs is decided here"
            )
        if not is_host_name(line):
            raise UserError(f"{where}: '{line}' is not the name of a DPU; write one a line")
        if line in lines:
            raise UserError(f"{where}: {line} is named in line {lines[line]} already; each DPU serves one host")
        lines[line] = number
    if not lines:
        raise UserError(f"{source}: no DPU is named; write one a line, in the order of their hosts")
    return tuple(lines)


def read(path: Path) -> tuple[str, ...]:
    """DPUs of a file."""
    return parse(read_text(path, "--dpufile"), str(path))


def pair(hosts: Sequence[Host], dpus: Sequence[str], source: str) -> dict[str, str]:
    """DPU of each host, by the host's name."""
    if len(dpus) != len(hosts):
        raise UserError(f"{source}: {len(dpus)} DPUs for {len(hosts)} hosts; name one for each host, in the same order")
    names = {host.name for host in hosts}
    for dpu in dpus:
        if dpu in names:
            raise UserError(f"{source}: {dpu} is a host of this job; name the DPU in it, not the host")
    return {host.name: dpu for host, dpu in zip(hosts, dpus, strict=True)}
