"""Unusual programs and systems with offloaded jobs: the bytes stay correct, nothing crashes, hangs or stays behind."""

from __future__ import annotations

import ctypes.util
import os
import re
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from conftest import Mpi, Process, with_copiers

pytestmark = pytest.mark.one_machine

HUGE_MIB = 1229
"""1.2 GiB, on each of two ranks."""


def said_right(mpi: Mpi, program: list[str], **options) -> None:
    result = mpi.run(2, program, **options).ok()
    assert "all right" in result.out
    assert result.offloaded() > 0


@pytest.mark.parametrize("mode", ("protect", "move", "files", "undumpable", "undumpable 1"))
def test_what_programs_do_to_their_memory(offload: Mpi, mode: str) -> None:
    said_right(offload, ["rough", *mode.split()], env=with_copiers())


def test_2000_communicators(offload: Mpi) -> None:
    said_right(offload, ["rough", "many", "2000"], timeout_s=120)


@pytest.mark.slow
@pytest.mark.parametrize("mpi", ("openmpi",), indirect=True)  # the service process moves it
def test_blocks_of_more_than_a_gibibyte(offload: Mpi) -> None:
    available = re.search(r"MemAvailable: *(\d+)", Path("/proc/meminfo").read_text())
    if available is None or int(available[1]) < 6 * HUGE_MIB << 10:
        pytest.skip("too little memory")
    said_right(offload, ["rough", "huge", str(HUGE_MIB)], timeout_s=120)


@pytest.mark.parametrize("name", ("jemalloc", "tcmalloc", "tcmalloc_minimal"))
@pytest.mark.parametrize("mpi", ("openmpi",), indirect=True)
def test_other_allocators(offload: Mpi, name: str) -> None:
    library = ctypes.util.find_library(name)
    if library is None:
        pytest.skip(f"{name} is not installed")
    said_right(offload, ["soak", "100"], env=with_copiers() | {"LD_PRELOAD": f"{offload.library}:{library}"})


LIMITS = {"no locked memory": "ulimit -l 0", "40 descriptors": "ulimit -n 40"}


@pytest.mark.parametrize("limit", LIMITS)
def test_limits_of_ranks(offload: Mpi, limit: str) -> None:
    command = f"{LIMITS[limit]} && exec {offload.programs}/soak 60"
    result = offload.run(2, ["/bin/sh", "-c", command], env=with_copiers()).ok()
    assert result.out.count("60 operations, seed 1: all right") == 2, result.out


def unshare(*options: str) -> list[str]:
    words = ["unshare", "--user", "--map-root-user", *options]
    if shutil.which("unshare") is None or subprocess.run([*words, "true"], check=False).returncode != 0:
        pytest.skip("there are no user namespaces")
    return words


NAMESPACES = {
    "user and PID": ("--pid", "--fork", "--kill-child", "--mount-proc"),
    "a small /dev/shm": ("--mount", "sh", "-c", 'mount -t tmpfs -o size=256k none /dev/shm && exec "$0" "$@"'),
    "a read-only /dev/shm": ("--mount", "sh", "-c", 'mount -t tmpfs -o ro none /dev/shm && exec "$0" "$@"'),
}


@pytest.mark.parametrize("kind", NAMESPACES)
def test_namespaces_of_jobs(offload: Mpi, kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(offload, "_shared_directory", lambda: str(tmp_path))
    env = {"UCX_TLS": "sysv,cma,self"}  # a native MPICH needs /dev/shm otherwise
    said_right(offload, ["soak", "60"], env=with_copiers() | env, under=unshare(*NAMESPACES[kind]))


@pytest.mark.parametrize("mpi", ("openmpi",), indirect=True)
def test_user_namespaces_of_ranks(offload: Mpi) -> None:
    """Each rank in its own. The MPI is told to use no single copies, which it would use untested. PID namespaces of
    ranks stop the MPIs themselves.
    """
    env = {"OMPI_MCA_btl_vader_single_copy_mechanism": "none"}
    program = [shutil.which("unshare") or "", *unshare()[1:], str(offload.programs / "soak"), "60"]
    result = offload.run(2, program, env=with_copiers() | env).ok()
    assert result.out.count("60 operations, seed 1: all right") == 2, result.out


def sockets(process: Process) -> set[str]:
    """Inode numbers of its sockets, as in /proc/net."""
    inodes = set()
    for descriptor in Path(f"/proc/{process.pid}/fd").iterdir():
        with suppress(OSError):
            if found := re.fullmatch(r"socket:\[(\d+)\]", os.readlink(descriptor)):
                inodes.add(found[1])
    return inodes


def listening_ports(process: Process) -> Iterator[tuple[str, int]]:
    """TCP addresses at which it listens."""
    inodes = sockets(process)
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        if fields[3] == "0A" and fields[9] in inodes:
            address, port = fields[1].split(":")
            yield socket.inet_ntoa(bytes.fromhex(address)[::-1]), int(port, 16)


def abstract_names(processes: list[Process]) -> set[str]:
    inodes = set().union(*map(sockets, processes))
    lines = (line.split() for line in Path("/proc/net/unix").read_text().splitlines()[1:])
    names = {words[7] for words in lines if len(words) > 7 and words[6] in inodes}
    return {name[1:] for name in names if name.startswith("@outrigger-")}


def throw(kind: int, family: int, address: tuple[str, int] | str, garbage: bytes) -> None:
    with suppress(OSError), socket.socket(family, kind) as thrower:
        thrower.settimeout(1)
        thrower.connect(address)
        thrower.sendall(garbage)
        thrower.recv(100)


def test_garbage_at_everything_that_listens(offload: Mpi) -> None:
    offload.pretend_nodes = 2
    job = offload.start(2, ["steady", "operations", "3"])
    job.wait_for("steady: ready")
    ports = [port for process in offload.daemons("serve") for port in listening_ports(process)]
    names = abstract_names(offload.daemons())
    assert ports and names
    for garbage in (b"", b"\0" * 64, b"GET / HTTP/1.0\r\n\r\n", os.urandom(3000), b"\xff" * 70_000):
        for port in ports:
            throw(socket.SOCK_STREAM, socket.AF_INET, port, garbage)
        for name in names:
            throw(socket.SOCK_SEQPACKET, socket.AF_UNIX, "\0" + name, garbage)
    result = job.wait(60).ok()
    assert "WRONG DATA" not in result.out
    assert result.offloaded() > 0
    offload.nothing_left()
