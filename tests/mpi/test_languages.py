"""The same program in C, three Fortran bindings and mpi4py gives the same bytes, native and offloaded."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import HERE, Mpi

from outrigger.mpis import MPIABI

RANKS = 3
LANGUAGES = ("c", "mpif", "usempi", "f08", "python")


def python_environment(mpi: Mpi) -> dict[str, str]:
    """Lets the mpi4py wheel find this MPI: Debian's MPICH is called libmpich.so.12, mpi4py wants libmpi.so.12."""
    if mpi.installed.libraries is not None or mpi.name == "openmpi":
        return {"MPI4PY_MPIABI": mpi.name}
    directory = mpi.directory / "names"
    if not directory.exists():
        directory.mkdir()
        libraries = subprocess.check_output(["/sbin/ldconfig", "-p"], text=True)
        path = next(line.split()[-1] for line in libraries.splitlines() if "libmpich.so.12" in line)
        (directory / "libmpi.so.12").symlink_to(path)
    search = os.pathsep.join(filter(None, [str(directory), os.environ.get("LD_LIBRARY_PATH")]))
    return {"MPI4PY_MPIABI": "mpich", "LD_LIBRARY_PATH": search}


def digests(mpi: Mpi, language: str, services: int | None, preloads: dict[str, str] | None = None) -> list[str]:
    """Digests of the file that each rank writes."""
    prefix = mpi.directory / f"{language}-{services}"
    if language == "python":
        pytest.importorskip("mpi4py", reason="mpi4py is not installed beside pytest")
        if mpi.name == MPIABI:
            pytest.skip("mpi4py's wheel knows no standard ABI")
        program, env = [sys.executable, str(HERE / "languages" / "alltoall.py"), str(prefix)], python_environment(mpi)
    else:
        program, env = [f"alltoall_{language}", str(prefix)], {}
        if not (mpi.programs / program[0]).exists():
            pytest.skip(f"{program[0]} was not built: no Fortran compiler")
        if language != "c" and not mpi.installed.has_fortran():
            pytest.skip(f"{mpi.installed} has no Fortran libraries")
    if services is not None:
        env |= {"OUTRIGGER_BLOCKING": "on" if services > 1 else "off"}
    result = mpi.run(RANKS, program, services=services, env=env | (preloads or {})).ok()
    if services is not None:  # four sizes, seven operations each and a blocking one
        assert result.offloaded() == (32 if services > 1 else 28) * RANKS, result.report
        blocking = [
            entry["calls"] for entry in result.report["calls"] if entry["form"] == "blocking" and entry["collective"]
        ]
        assert sum(blocking) == 4 * RANKS, result.report  # each once, independent of the binding's inner calls
    return [hashlib.sha256(Path(f"{prefix}.{rank}").read_bytes()).hexdigest() for rank in range(RANKS)]


@pytest.fixture(scope="module")
def expected() -> list[str]:
    """Computed here, without MPI, from the program's description."""
    import struct

    def value(rank: int, index: int, salt: int) -> int:
        return (rank * 1000003 + index * 31 + salt * 7919) % 1000000007

    def v_count(sender: int, receiver: int, block: int) -> int:
        return (sender * 3 + receiver * 5) % 4 * block // 3

    def v_place(sender: int, receiver: int, block: int) -> int:
        return sum(v_count(sender, peer, block) + 2 for peer in range(receiver))

    files = []
    for me in range(RANKS):
        digest = hashlib.sha256()
        for block in (1, 17, 4096, 40000):
            cells = [(peer, me * block + i) for peer in range(RANKS) for i in range(block)]
            regular = [value(peer, at, 1) for peer, at in cells]
            v_form = []
            for peer in range(RANKS):
                first = v_place(peer, me, block)
                v_form += [value(peer, first + i, 2) * 0.5 for i in range(v_count(peer, me, block))] + [-1.0, -1.0]
            in_place = [value(peer, at, 3) for peer, at in cells]
            strided = [value(peer, 2 * at, 4) for peer, at in cells]
            digest.update(struct.pack(f"<{len(regular)}i", *regular))
            digest.update(struct.pack(f"<{len(v_form)}d", *v_form))
            digest.update(struct.pack(f"<{len(in_place)}i", *in_place))
            digest.update(struct.pack(f"<{len(strided)}i", *strided))
            typed = [value(peer, at, 5) for peer, at in cells]
            gathered = [value(at // block, at, 6) for at in range(RANKS * block)]
            from_last = [value(RANKS - 1, at, 7) for at in range(block)]
            from_first = [value(0, at, 8) for at in range(block)]
            for others in (typed, gathered, from_last, from_first):
                digest.update(struct.pack(f"<{len(others)}i", *others))
        files.append(digest.hexdigest())
    return files


@pytest.mark.parametrize("language", LANGUAGES)
def test_native(mpi, expected, language):
    assert digests(mpi, language, None) == expected


@pytest.mark.parametrize("services", (1, 2))
@pytest.mark.parametrize("language", LANGUAGES)
def test_offloaded(offload, expected, language, services):
    assert digests(offload, language, services) == expected


def test_switched_off(offload, expected):
    """OUTRIGGER_ENABLE=0 disables everything: correct bytes, no process of ours, no report."""
    offload.must_end_natively()
    prefix = offload.directory / "off"
    job = offload.start(RANKS, ["alltoall_c", str(prefix)], services=1, env={"OUTRIGGER_ENABLE": "0"})
    result = job.wait(60).ok()
    assert not offload.daemons()
    assert result.report is None
    found = [hashlib.sha256(Path(f"{prefix}.{rank}").read_bytes()).hexdigest() for rank in range(RANKS)]
    assert found == expected


def test_no_daemon_to_be_had(offload, expected):
    """Without outriggerd the program runs natively, and one line tells the reason."""
    offload.must_end_natively()
    prefix = offload.directory / "none"
    env = {"OUTRIGGER_DAEMON": str(offload.directory / "no-such-outriggerd")}
    result = offload.start(RANKS, ["alltoall_c", str(prefix)], services=1, env=env).wait(60).ok()
    lines = [line for line in result.out.splitlines() if "outrigger" in line.lower()]
    assert len(lines) == 1, result.out
    found = [hashlib.sha256(Path(f"{prefix}.{rank}").read_bytes()).hexdigest() for rank in range(RANKS)]
    assert found == expected
