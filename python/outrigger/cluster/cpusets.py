"""Cores per host: control groups with the cpuset controller, version 1 or 2.

Affinity alone is not enough: programs can change it, and service processes do.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

from outrigger.cluster.state import Spec, host_name
from outrigger.errors import UserError

MOUNT = Path("/sys/fs/cgroup")
_SECONDS_TO_EMPTY = 5.0


def _root(mount: Path) -> Path | None:
    """Directory of the group that contains all others; None: the controller is not available."""
    if (mount / "cpuset" / "cpuset.cpus").exists():
        return mount / "cpuset"
    with contextlib.suppress(OSError):
        if "cpuset" in (mount / "cgroup.controllers").read_text().split():
            return mount
    return None


def _parse(cpus: str) -> list[int]:
    """Parses the kernel's format: 0-2,5."""
    ranges = [part.partition("-") for part in cpus.strip().split(",") if part]
    return [cpu for low, _, high in ranges for cpu in range(int(low), int(high or low) + 1)]


def _cpus_of(root: Path) -> list[int]:
    """CPUs available to child groups."""
    for name in ("cpuset.cpus.effective", "cpuset.effective_cpus", "cpuset.cpus"):
        with contextlib.suppress(OSError):
            if cpus := _parse((root / name).read_text()):
                return cpus
    return sorted(os.sched_getaffinity(0))


def share(cpus: list[int], hosts: int, cores_per_host: int) -> list[list[int]]:
    """CPUs of each host: taken in turn, starting again from the first when all are used."""
    if not 1 <= cores_per_host <= len(cpus):
        raise UserError(f"--cores-per-host {cores_per_host}: this machine has {len(cpus)} to give")
    return [
        [cpus[(host * cores_per_host + core) % len(cpus)] for core in range(cores_per_host)] for host in range(hosts)
    ]


def _enable(group: Path) -> None:
    """Version 2 enables a controller for child groups only on request."""
    if (group / "cgroup.subtree_control").exists():
        (group / "cgroup.subtree_control").write_text("+cpuset")


def _group(root: Path, cluster: str) -> Path:
    return root / f"outrigger-{cluster}"


def make(spec: Spec, cluster: str, mount: Path = MOUNT) -> None:
    """Creates the hosts' groups."""
    if spec.cores_per_host is None:
        return
    root = _root(mount)
    if root is None:
        raise UserError(f"--cores-per-host needs the cpuset controller of control groups, which {mount} does not offer")
    every = _cpus_of(root)
    shares = share(every, spec.nodes, spec.cores_per_host)
    group = _group(root, cluster)
    try:
        _enable(root)
        group.mkdir()
        _restrict(group, root, every)
        _enable(group)
        for index, cpus in enumerate(shares):
            (group / host_name(index)).mkdir()
            _restrict(group / host_name(index), group, cpus)
    except OSError as error:
        remove(cluster, mount)
        raise UserError(f"--cores-per-host needs root and writable control groups: {error}") from None


def _restrict(group: Path, parent: Path, cpus: list[int]) -> None:
    (group / "cpuset.cpus").write_text(",".join(map(str, sorted(cpus))))
    with contextlib.suppress(FileNotFoundError):
        if mems := (parent / "cpuset.mems").read_text().strip():  # version 1 has no default
            (group / "cpuset.mems").write_text(mems)


def enter(cluster: str, host: str, mount: Path = MOUNT) -> None:
    """Moves the calling process and its future children into a host's group, if hosts have groups."""
    root = _root(mount)
    if root is not None and (group := _group(root, cluster) / host).is_dir():
        (group / "cgroup.procs").write_text("0")


def _groups_of(root: Path, cluster: str) -> Iterator[Path]:
    group = _group(root, cluster)
    if group.is_dir():
        yield from (entry for entry in group.iterdir() if entry.is_dir())
        yield group


def remove(cluster: str, mount: Path = MOUNT) -> None:
    """Removes the groups. Their processes have been killed, but may still be exiting."""
    root = _root(mount)
    if root is None:
        return
    deadline = time.monotonic() + _SECONDS_TO_EMPTY
    for group in list(_groups_of(root, cluster)):
        while True:
            try:
                group.rmdir()
                break
            except OSError:
                if time.monotonic() > deadline:
                    break
                time.sleep(0.02)
