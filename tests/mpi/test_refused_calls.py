"""System calls that are rejected, as by a container's seccomp profile: never a crash, a hang or a wrong byte. A rank's
keeper and service processes have the same filter.
"""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import Job, Mpi, Result, with_copiers

pytestmark = [pytest.mark.one_machine, pytest.mark.any_mpi]

ERRORS = ("EPERM", "ENOSYS")
NEEDED = {
    "accept4": "accept4", "epoll_create1": "epoll_create1", "eventfd2": "eventfd", "memfd_create": "memfd_create",
    "fcntl-add-seals": "fcntl(F_ADD_SEALS)", "fcntl-get-seals": "fcntl(F_GET_SEALS)",
    "madvise": "madvise(MADV_DONTFORK)", "socketpair": "socketpair",
}  # fmt: skip
"""Without these nothing is offloaded; with their names in the message."""
OTHERS = (
    "close_range", "fallocate", "getrandom", "getrusage", "mlock", "pidfd_getfd", "pidfd_open", "pidfd_send_signal",
    "prctl", "prlimit64", "sched_getattr", "sched_setaffinity", "sched_setattr", "setpgid", "signalfd4", "tgkill",
    "userfaultfd", "waitid",
)  # fmt: skip
OPERATIONS = 40
HEAP = {"OUTRIGGER_SHARED_HEAP": "on"}


def refusal(offload: Mpi, error: str, calls: str) -> list[str]:
    program = offload.build / "tests" / "mpi" / "seccomp" / "refuse"
    if subprocess.run([program, error, calls, "true"], check=False, capture_output=True).returncode == 77:
        pytest.skip("this system installs no seccomp filters")
    return [str(program), error, calls]


def started(offload: Mpi, error: str, calls: str, env: dict[str, str]) -> Job:
    soak = [str(offload.programs / "soak"), str(OPERATIONS)]
    return offload.start(2, [*refusal(offload, error, calls), *soak], env=with_copiers() | env)


def refused(offload: Mpi, calls: str, env: dict[str, str] | None = None) -> list[Result]:
    """The results with each error; correct bytes throughout."""
    jobs = [started(offload, error, calls, env or {}) for error in ERRORS]
    results = [job.wait(40).ok() for job in jobs]
    offload.nothing_left()
    for result in results:
        assert result.out.count(f"{OPERATIONS} operations, seed 1: all right") == 2, result.out
    return results


def expect_native(results: list[Result], named: str) -> None:
    for result in results:
        lines = [line for line in result.out.splitlines() if line.startswith("outrigger: ")]
        assert len(lines) == 1 and f"running natively: the system refuses {named}, which" in lines[0], result.out
        assert result.seconds < 10 * Job.patience


@pytest.mark.parametrize("mpi", ("mpich",), indirect=True)  # ours is the same under each
@pytest.mark.parametrize("call", NEEDED)
def test_it_says_what_it_cannot_do_without(offload: Mpi, call: str) -> None:
    expect_native(refused(offload, call), NEEDED[call])


@pytest.mark.parametrize("mpi", ("mpich",), indirect=True)
@pytest.mark.parametrize("call", OTHERS)
def test_it_does_without(offload: Mpi, call: str) -> None:
    for result in refused(offload, call):
        assert result.offloaded() > 0
        assert "outrigger: " not in result.out


@pytest.mark.parametrize("mpi", ("openmpi",), indirect=True)  # MPICH 4.0 then hangs in MPI_Finalize, natively, too
@pytest.mark.parametrize("call", ("process_vm_readv", "process_vm_writev"))
def test_it_does_without_reaching_private_memory(offload: Mpi, call: str) -> None:
    for result in refused(offload, call):
        assert result.offloaded() > 0


@pytest.mark.parametrize("nodes", (1, 2))
def test_it_does_without_all_of_them(offload: Mpi, nodes: int) -> None:
    offload.pretend_nodes = nodes
    for result in refused(offload, ",".join(OTHERS)):
        assert result.offloaded() > 0


@pytest.mark.parametrize("call", ("madvise", "memfd_create", "fcntl-add-seals"))
def test_no_shared_heap(offload: Mpi, call: str) -> None:
    expect_native(refused(offload, call, HEAP), NEEDED[call])


IN_THE_MIDDLE = """
import ctypes, struct, sys
before = [bytearray(3 << 20) for _ in range(4)]
libc = ctypes.CDLL(None, use_errno=True)
MADVISE, EPERM = int(sys.argv[1]), 1
filters = ((0x20, 0, 0, 0), (0x15, 0, 1, MADVISE), (0x06, 0, 0, 0x00050000 | EPERM), (0x06, 0, 0, 0x7fff0000))
code = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *one) for one in filters))
program = ctypes.create_string_buffer(struct.pack("HxxxxxxQ", len(filters), ctypes.addressof(code)))
if libc.prctl(38, 1, 0, 0, 0) != 0 or libc.prctl(22, 2, program, 0, 0) != 0:
    sys.exit(77)
after = [bytearray(3 << 20) for _ in range(40)]
for number, memory in enumerate(before + after):
    memory[:] = bytes([number]) * len(memory)
for number, memory in enumerate(before + after):
    assert memory.count(number) == len(memory)
print("all right")
"""


@pytest.mark.parametrize("mpi", ("openmpi",), indirect=True)
def test_heap_of_a_program_that_restricts_itself(offload: Mpi, tmp_path: Path) -> None:
    """The heap ends; large allocations come from elsewhere."""
    if not offload.heap.exists():
        pytest.skip(f"{offload.heap} is not built")
    script = tmp_path / "restrict.py"
    script.write_text(IN_THE_MIDDLE)
    number = {"x86_64": "28", "aarch64": "233"}.get(os.uname().machine, "")
    if not number:
        pytest.skip("the number of madvise is not known here")
    env = {**os.environ, **HEAP, "LD_PRELOAD": str(offload.heap)}
    command = [sys.executable, str(script), number]
    done = subprocess.run(command, env=env, capture_output=True, text=True, timeout=60, check=False)
    if done.returncode == 77:
        pytest.skip("this system installs no seccomp filters")
    assert (done.stdout, done.returncode) == ("all right\n", 0), done.stderr
