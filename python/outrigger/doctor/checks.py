"""Findings as lines with remedies. Pure: the same facts give the same lines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from outrigger import busy, report_data
from outrigger.cores import format_cpu_list
from outrigger.doctor.line import Line
from outrigger.doctor.machine import System
from outrigger.doctor.trial import Trial
from outrigger.dpu_info import DpuFinding
from outrigger.info import Info, Machine

_SHARED_MEMORY_BYTES = 256 << 20
"""Less is too little for many ranks of one node; containers have 64 MiB by default."""
_ENABLE = "OUTRIGGER_ENABLE"

MPIS = "MPI"
PROCESSES = "processes"
MEMORY = "memory"
CORES = "cores"
NETWORK = "network"
INSTALLED = "installation"


@dataclass(frozen=True)
class Facts:
    """All collected facts."""

    command_version: str
    info: Info
    system: System
    trials: tuple[Trial, ...]
    dpus: tuple[DpuFinding, ...] | None
    """None: no DPUs were given."""


def lines(facts: Facts) -> list[Line]:
    """All lines, by topic."""
    return [
        *_installation(facts),
        *_mpis(facts.trials),
        *_processes(facts.system),
        *_cores(facts.info, facts.system),
        *_memory(facts),
        *_network(facts),
    ]


def _installation(facts: Facts) -> Iterator[Line]:
    daemon = facts.info.daemon
    if daemon.machine is None:
        remedy = f"{daemon.problem}; without it every job runs natively"
        yield Line(INSTALLED, "outriggerd", "fail", daemon.path or "not found", remedy)
    else:
        yield Line(INSTALLED, "outriggerd", "ok", f"runs: {daemon.path}")
        yield _versions(facts.command_version, daemon.machine)
    system = f"Linux {facts.system.kernel}, Python {facts.system.python}, UCX {facts.info.ucx or 'not found'}"
    remedy = "" if facts.info.ucx else "jobs on several nodes need UCX (Debian: libucx0); one node does without"
    yield Line(INSTALLED, "system", "ok" if facts.info.ucx else "warn", system, remedy)
    yield from _settings(facts)


def _versions(command: str, machine: Machine) -> Line:
    value = f"command {command}, outriggerd {machine.version} (protocol {machine.protocol})"
    if command == machine.version:
        return Line(INSTALLED, "versions", "ok", value)
    remedy = "take both from one installation: OUTRIGGER_BUILD or --build names the directory of outriggerd's"
    return Line(INSTALLED, "versions", "fail", value, remedy)


def _settings(facts: Facts) -> Iterator[Line]:
    for name, variable in facts.info.environment.items():
        if name == _ENABLE and variable.value in ("0", "off"):
            yield Line(INSTALLED, name, "warn", variable.value, "jobs of this shell run natively until it is unset")
        elif not variable.meaning and facts.info.daemon.machine is not None:
            yield Line(INSTALLED, name, "warn", variable.value, "unknown variable: is the name right?")
        else:
            yield Line(INSTALLED, name, "ok", variable.value)
    for path in facts.system.preloaded:
        yield Line(INSTALLED, "LD_PRELOAD", "ok", f"switched on for all programs of this shell: {path}")


def _mpis(trials: Sequence[Trial]) -> Iterator[Line]:
    if not trials:
        remedy = "no mpiexec is on PATH: load an MPI's module, or install Open MPI or MPICH"
        yield Line(MPIS, "MPI", "fail", "none found", remedy)
    any_served = any(trial.served for trial in trials)
    for trial in trials:
        yield _trial(trial, any_served=any_served)


def _trial(trial: Trial, *, any_served: bool) -> Line:
    if not trial.served:
        return Line(MPIS, trial.mpi, "warn" if any_served else "fail", "its programs run natively", trial.problem)
    if trial.problem:
        said = f" (Outrigger said: {trial.said})" if trial.said else ""
        remedy = f"{trial.problem}{said}; does it run without Outrigger, by the same mpiexec?"
        return Line(MPIS, trial.mpi, "fail", "a program of two ranks failed", remedy)
    if trial.offloaded == 0:
        remedy = trial.said or "the library was not loaded: does mpiexec forward LD_PRELOAD?"
        return Line(MPIS, trial.mpi, "fail", "preloaded, but the program ran natively", remedy)
    value = f"{trial.offloaded} of {trial.calls} calls offloaded, data right, in {trial.seconds:.1f} s"
    return Line(MPIS, trial.mpi, "ok", f"a program of two ranks: {value}")


def _processes(system: System) -> Iterator[Line]:
    filtered = "a seccomp filter is on" if system.seccomp else "no seccomp filter"
    if system.refused_calls:
        remedy = "allow these system calls in the container's or service's seccomp profile"
        yield Line(PROCESSES, "system calls", "fail", f"refused: {', '.join(system.refused_calls)}", remedy)
    else:
        yield Line(PROCESSES, "system calls", "ok", f"all calls of service processes are allowed; {filtered}")


def _ptrace(scope: int | None) -> str:
    return "no ptrace restriction in this kernel" if scope is None else f"kernel.yama.ptrace_scope is {scope}"


def _cross_memory(facts: Facts) -> Iterator[Line]:
    machine = facts.info.daemon.machine
    if machine is None:
        return
    scope = _ptrace(facts.system.ptrace_scope)
    if machine.reach.cma:
        yield Line(MEMORY, "cross-memory attach", "ok", f"tried, works; {scope}")
    else:
        slower = "without it ranks copy through shared memory, which costs them time"
        remedy = f"{machine.reach.cma_why_not}; {slower}"
        yield Line(MEMORY, "cross-memory attach", "warn", f"tried, does not work; {scope}", remedy)


def _memory(facts: Facts) -> Iterator[Line]:
    yield from _cross_memory(facts)
    yield _shared_memory(facts.system)
    machine = facts.info.daemon.machine
    if machine is not None and machine.huge_pages.bytes:
        value = f"{report_data.format_bytes(machine.huge_pages.bytes)} for buffers"
        yield Line(MEMORY, "huge pages", "ok", value)
    elif machine is not None:
        remedy = f"{machine.huge_pages.why_not}; copies of large buffers take more CPU time"
        yield Line(MEMORY, "huge pages", "warn", "none", remedy)
    yield _locked(facts.system)
    if (limit := facts.system.group.memory_bytes) is not None:
        value = f"{report_data.format_bytes(limit)} by the control group; shared memory counts"
        yield Line(MEMORY, "limit", "ok", value)


def _shared_memory(system: System) -> Line:
    found = system.shared_memory
    if found is None:
        remedy = "mount a tmpfs there: MPIs need it. Outrigger itself uses anonymous memory"
        return Line(MEMORY, "shared memory", "warn", "no /dev/shm", remedy)
    value = f"{report_data.format_bytes(found.free_bytes)} of {report_data.format_bytes(found.bytes)} free in /dev/shm"
    if found.free_bytes >= _SHARED_MEMORY_BYTES:
        return Line(MEMORY, "shared memory", "ok", value)
    remedy = "MPIs may fail with many ranks: remove old files there, or in a container give --shm-size 2g"
    return Line(MEMORY, "shared memory", "warn", value, remedy)


def _locked(system: System) -> Line:
    if system.locked_bytes is None:
        return Line(MEMORY, "locked memory", "ok", "no limit")
    value = f"at most {report_data.format_bytes(system.locked_bytes)}"
    if not system.rdma:
        return Line(MEMORY, "locked memory", "ok", f"{value}; only RDMA needs more")
    remedy = "RDMA registers buffers, which locks them: set `* - memlock unlimited` in /etc/security/limits.conf"
    return Line(MEMORY, "locked memory", "warn", value, f"{remedy}, in Slurm PropagateResourceLimitsExcept=MEMLOCK")


def _cores(info: Info, system: System) -> Iterator[Line]:
    count = len(info.cores.allowed)
    of = f"{system.allowed_cpus} of {system.online_cpus} CPUs may be used"
    if count < 2:
        remedy = "service processes share it with the ranks, so that little is gained: ask for a core more than ranks"
        yield Line(CORES, "cores", "warn", f"only one core; {of}", remedy)
    else:
        yield Line(CORES, "cores", "ok", f"{count} cores; {of}")
    yield from _taken(info)
    limit = system.group.cpus
    if limit is not None and limit < system.allowed_cpus:
        remedy = "all processes, including service processes, are stopped when it is used up: raise the limit, or bind "
        remedy += "the job to as many CPUs (cpuset) instead"
        value = f"{limit:g} CPUs' time for {system.allowed_cpus} CPUs"
        yield Line(CORES, "control group", "warn", value, remedy)
    elif limit is not None:
        yield Line(CORES, "control group", "ok", f"{limit:g} CPUs' time")


def _taken(info: Info) -> Iterator[Line]:
    if not info.cores.services:
        return
    where = f"CPU {format_cpu_list(info.cores.services)}"
    if info.cores.taken:
        remedy = "collectives are native meanwhile: end the processes there, or give the job a core of its own"
        value = f"other processes use CPU {busy.in_words(info.cores.taken)}"
        yield Line(CORES, "service process's core", "warn", value, remedy)
    else:
        yield Line(CORES, "service process's core", "ok", f"{where} is idle")


def _network(facts: Facts) -> Iterator[Line]:
    machine = facts.info.daemon.machine
    if machine is not None and machine.wire.problem:
        remedy = f"{machine.wire.problem}; jobs on several nodes run natively"
        yield Line(NETWORK, "between nodes", "warn", "none", remedy)
    elif machine is not None:
        how = "the network moves memory" if machine.wire.kind == "rdma" else "processors copy"
        yield Line(NETWORK, "between nodes", "ok", f"{machine.wire.kind} ({machine.wire.transports}): {how}")
    yield from _rdma(facts)
    yield from _dpus(facts.dpus)


def _rdma(facts: Facts) -> Iterator[Line]:
    if not facts.system.rdma:
        yield Line(NETWORK, "RDMA devices", "ok", "none; only DPUs and fast networks need them")
    for port in facts.system.rdma:
        name, value = f"{port.device} port {port.port}", f"{port.state}, {port.rate}"
        if port.state != "ACTIVE":
            remedy = "the link is not up: cable, switch, subnet manager (`ibstat`), or `ip link set DEVICE up` for RoCE"
            yield Line(NETWORK, name, "warn", value, remedy)
        elif not port.usable:
            remedy = "this user may not open /dev/infiniband/uverbs*: add the user to the device's group, or in a "
            remedy += "container give --device /dev/infiniband"
            yield Line(NETWORK, name, "warn", value, remedy)
        else:
            yield Line(NETWORK, name, "ok", value)
    machine = facts.info.daemon.machine
    usable = any(port.state == "ACTIVE" and port.usable for port in facts.system.rdma)
    if usable and machine is not None and machine.wire.kind == "messages":
        remedy = "UCX does not use it: does `ucx_info -d` list it (Debian: ibverbs-providers, rdma-core), and does "
        remedy += "UCX_TLS or UCX_NET_DEVICES leave it out?"
        yield Line(NETWORK, "RDMA", "warn", "there are devices, but the transport is messages", remedy)


def _dpus(found: Sequence[DpuFinding] | None) -> Iterator[Line]:
    for dpu in found or ():
        name = f"DPU {dpu.dpu} of {dpu.host}"
        if dpu.problem:
            remedy = f"{dpu.problem}; until then a job's service processes run on the hosts"
            yield Line(NETWORK, name, "fail", "of no use", remedy)
        else:
            speed = "" if dpu.bandwidth_bytes_per_s is None else f", {dpu.bandwidth_bytes_per_s / 1e9:.1f} GB/s"
            yield Line(NETWORK, name, "ok", f"{dpu.reach} by {dpu.device}, {dpu.cores} cores{speed}")
