"""What was found on this machine, and why not better."""

from __future__ import annotations

import ctypes
import os
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from outrigger import formats, tables
from outrigger.artifacts import Artifacts
from outrigger.cores import allowed_cores, format_cpu_list
from outrigger.errors import UserError
from outrigger.mpis import ABI_NAMES, FAMILIES, NAMES, Mpi, find_all_mpis
from outrigger.report import format_bytes


@dataclass(frozen=True, kw_only=True)
class Reach:
    """How service processes of this machine touch its ranks' memory."""

    mapped: bool
    cma: bool
    cma_why_not: str = ""
    xpmem: bool
    xpmem_why_not: str = ""
    copier: bool


@dataclass(frozen=True, kw_only=True)
class Wire:
    """What they would use to another node."""

    kind: str = ""
    transports: str = ""
    problem: str = ""
    """Not empty: there is none."""


@dataclass(frozen=True, kw_only=True)
class HugePages:
    """For buffers."""

    bytes: int
    """0: there are none."""
    why_not: str


@dataclass(frozen=True, kw_only=True)
class Machine:
    """What `outriggerd info` prints, as far as it is used here."""

    reach: Reach
    wire: Wire
    huge_pages: HugePages


@dataclass(frozen=True)
class Finding:
    """One line: what, how it is, and a remark."""

    name: str
    good: bool
    value: str
    remark: str = ""


def _preload(artifacts: Artifacts | None, family: str) -> tuple[str | None, str]:
    """The preload library for an ABI, or why there is none."""
    if artifacts is None:
        return None, "no build was found"
    try:
        return str(artifacts.preload(family)), ""
    except UserError as error:
        return None, str(error)


def _mpi(artifacts: Artifacts | None, mpi: Mpi) -> dict[str, Any]:
    preload, reason = _preload(artifacts, mpi.family)
    return {
        "family": mpi.family,
        "vendor": mpi.vendor,
        "title": mpi.title,
        "version": mpi.version,
        "launcher": str(mpi.launcher),
        "library": str(mpi.library) if mpi.library else None,
        "preload": preload,
        "served": not reason,
        "reason": reason,
    }


def _mpis(artifacts: Artifacts | None) -> list[dict[str, Any]]:
    return [_mpi(artifacts, mpi) for mpi in find_all_mpis()]


def find_ucx() -> str | None:
    """The version of UCX, or None."""
    try:
        library = ctypes.CDLL("libucp.so.0")
        library.ucp_get_version_string.restype = ctypes.c_char_p
        version: bytes = library.ucp_get_version_string()
    except (OSError, AttributeError):
        return None
    return version.decode()


def _daemon(artifacts: Artifacts | None) -> dict[str, Any]:
    """What outriggerd says of this machine."""
    if artifacts is None:
        return {"path": None, "problem": "no build was found; run ./dev build"}
    try:
        path = artifacts.daemon
        # UCX says on standard output what it does not like.
        env = {"UCX_LOG_FILE": "/dev/stderr", **os.environ}
        result = subprocess.run(
            [path, "info", "--json"], capture_output=True, text=True, timeout=20, check=False, env=env
        )
        if result.returncode != 0:
            return {"path": str(path), "problem": result.stderr.strip() or f"exit code {result.returncode}"}
        return {"path": str(path), "info": formats.parse(result.stdout, dict, f"what {path} info printed")}
    except (UserError, OSError, ValueError, subprocess.TimeoutExpired) as error:
        return {"path": None, "problem": str(error)}


def _environment(artifacts: Artifacts | None) -> dict[str, dict[str, str]]:
    """Our variables that are set, each with its meaning; for people, as far as a build says it."""
    try:
        known = {} if artifacts is None else {row.name: row.meaning for row in tables.read(artifacts).settings}
    except UserError:
        known = {}
    names = sorted(name for name in os.environ if name.startswith("OUTRIGGER_"))
    return {name: {"value": os.environ[name], "meaning": known.get(name, "")} for name in names}


def collect(artifacts: Artifacts | None) -> dict[str, Any]:
    """Everything that `outrigger info` knows, as plain data."""
    cores = allowed_cores()
    kept = cores[-1:] if len(cores) > 1 else []
    return {
        "mpis": _mpis(artifacts),
        "ucx": find_ucx(),
        "cores": {
            "allowed": [list(core) for core in cores],
            "ranks": [cpu for core in cores if core not in kept for cpu in core],
            "services": [core[0] for core in kept],
        },
        "daemon": _daemon(artifacts),
        "environment": _environment(artifacts),
    }


def _mpi_finding(found: dict[str, Any]) -> Finding:
    name = NAMES[found["vendor"] or found["family"]]
    value = f"{found['version']}, {ABI_NAMES[found['family']]}"
    where = f"{found['launcher']}, {found['library'] or 'its libmpi was not found'}"
    if not found["served"]:
        return Finding(name, False, value, f"{where}; cannot be served: {found['reason']}")
    return Finding(name, True, value, f"{where}; served by {Path(found['preload']).name}")


def _mpi_findings(data: dict[str, Any]) -> list[Finding]:
    found = {mpi["vendor"] or mpi["family"] for mpi in data["mpis"]}
    missing = [Finding(NAMES[name], False, "not found", "its mpiexec is not on PATH") for name in FAMILIES]
    return [
        *map(_mpi_finding, data["mpis"]),
        *(finding for name, finding in zip(FAMILIES, missing, strict=True) if name not in found),
    ]


def _core_finding(data: dict[str, Any]) -> Finding:
    cores = data["cores"]
    ranks = f"ranks on CPUs {format_cpu_list(cores['ranks'])}"
    if not cores["services"]:
        return Finding("cores", False, ranks, "only one core may be used: service processes share it with the ranks")
    kept = f"service process on CPU {format_cpu_list(cores['services'])}"
    return Finding("cores", True, f"{ranks}, {kept}", "as outrigger run places up to eight ranks")


def _daemon_findings(data: dict[str, Any]) -> list[Finding]:
    daemon = data["daemon"]
    if "info" not in daemon:
        return [Finding("outriggerd", False, daemon["path"] or "not found", daemon["problem"])]
    machine = formats.convert(daemon["info"], Machine, f"what {daemon['path']} info printed")
    reaches = reach_findings(machine.reach, machine.huge_pages)
    return [Finding("outriggerd", True, daemon["path"]), *reaches, wire_finding(machine.wire)]


def wire_finding(wire: Wire) -> Finding:
    """What a service process would use to another node like this one."""
    if wire.problem:
        return Finding("wire", False, "none", f"jobs on several nodes run natively: {wire.problem}")
    how = "the network moves memory" if wire.kind == "rdma" else "processors copy"
    return Finding("wire", True, f"{wire.kind} ({wire.transports})", f"to a node like this one; {how}")


def reach_findings(reach: Reach, huge_pages: HugePages) -> list[Finding]:
    """How service processes can touch the ranks' memory, best first."""
    ways = (
        ("mapped", reach.mapped, "buffers from MPI_Alloc_mem", ""),
        ("xpmem", reach.xpmem, "any other buffer: attached", reach.xpmem_why_not),
        ("cma", reach.cma, "any other buffer", reach.cma_why_not),
        ("copier", reach.copier, "any other buffer on both sides: one copy", "needs cma"),
        ("bounce", True, "scattered small pieces" if reach.cma else "what cma cannot do: ranks copy", ""),
    )
    found = [
        Finding(f"reach {name}", good, "yes" if good else "no", use if good else why) for name, good, use, why in ways
    ]
    return [*found, _huge_pages_finding(huge_pages)]


def _huge_pages_finding(huge: HugePages) -> Finding:
    if not huge.bytes:
        return Finding("huge pages", False, "no", huge.why_not)
    return Finding("huge pages", True, format_bytes(huge.bytes), "for buffers that are copied from again and again")


def findings(data: dict[str, Any]) -> list[Finding]:
    """The lines of `outrigger info`."""
    ucx = data["ucx"]
    result = [*_mpi_findings(data), _core_finding(data), *_daemon_findings(data)]
    result.append(Finding("UCX", True, ucx or "not found", "not used between processes of one node"))
    for name, found in data["environment"].items():
        result.append(Finding(name, bool(found["meaning"]), found["value"], found["meaning"] or "not read"))
    return result


def show(console: Console, data: dict[str, Any]) -> None:
    """Prints the lines as a table."""
    table = Table(show_header=False, box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column()
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    table.add_column(style="dim", overflow="fold")
    for finding in findings(data):
        mark = "[green]●[/]" if finding.good else "[yellow]○[/]"
        table.add_row(mark, finding.name, finding.value, finding.remark)
    console.print(table)
