"""Checks that includes follow the one direction of dependencies between the layers of src/, and have no cycles within
them.

Prints each forbidden include, as file:line, each layer with more units in cycles than allowed, and each file name that
is used twice. Exits with 1 if there is one.
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass
from pathlib import Path

# The seams under the engine.
SEAMS = ("fabric/block_mover.hpp", "fabric/peer_messenger.hpp", "fabric/rank_view.hpp", "fabric/seams.hpp")
# Headers that the rooms of src/fabric share.
FABRIC = (
    *SEAMS,
    "fabric/finished_moves.hpp",
    "fabric/memory_reducer.hpp",
    "fabric/node_memory.hpp",
    "fabric/port.hpp",
)

# Files that a file may include with quotes, by the longest matching layer of its path: prefixes of paths under src/. A
# layer's own files are always allowed.
ALLOWED: dict[str, tuple[str, ...]] = {
    "api": (),
    "base": (),
    "protocol": ("base/", "copy/"),
    "steer": ("base/", "protocol/", "report/native_reason.hpp"),
    "reduce": ("protocol/",),
    "intranode": ("base/", "protocol/collective_calls.hpp", "protocol/reduction.hpp", "reduce/"),
    "group": (
        "base/",
        "client/memory/huge_pages.hpp",
        "client/start/background_program.hpp",
        "client/start/daemon_path.hpp",
        "intranode/",
        "protocol/options/settings.hpp",
        "protocol/reduction.hpp",
        "reduce/",
    ),
    "proof": ("base/", "protocol/"),
    "copy": ("base/",),
    "fabric": ("base/", "protocol/", "reduce/"),
    "fabric/host": (*FABRIC, "base/", "copy/", "protocol/", "reduce/"),
    "fabric/sim": (*SEAMS, "base/", "protocol/", "reduce/"),
    "fabric/ucx": (*FABRIC, "base/", "proof/", "protocol/", "reduce/"),
    "fabric/dpu": (*FABRIC, "fabric/host/", "fabric/ucx/", "base/", "copy/", "protocol/"),
    "engine": (*SEAMS, "base/", "protocol/"),
    "client": (
        "base/",
        "copy/",
        "heap/address_space.hpp",
        "protocol/",
        "steer/plan/",
        "steer/rank/dispatch_port.hpp",
    ),
    "report": ("base/", "protocol/"),
    "trace": ("base/", "protocol/", "report/"),
    "service": (
        "base/",
        "copy/",
        "group/service/serve_group.hpp",
        "proof/",
        "protocol/",
        "report/",
        "trace/",
        "engine/",
        "fabric/",
        "steer/coordinator/",
        "steer/plan/",
    ),
    "sim": (*SEAMS, "engine/", "fabric/sim/", "base/", "copy/", "protocol/", "reduce/"),
    "mpi": ("client/", "intranode/", "base/", "copy/", "protocol/", "report/", "trace/", "steer/plan/", "steer/rank/"),
    "heap": (
        "base/",
        "protocol/",
    ),
}

# Files of its own layer that a file may include, by its directory: directories and files under src/. Its own directory
# is always allowed. Layers that are missing here have no rooms.
KEEPER_BASICS = ("service/keeper/events.hpp", "service/keeper/keeper_config.hpp", "service/notices")
MPI_BASICS = ("mpi/job", "mpi/native", "mpi/types")
ROOMS: dict[str, tuple[str, ...]] = {
    "protocol": (),
    "protocol/shared": ("protocol",),
    "protocol/wire": ("protocol", "protocol/shared"),
    "protocol/options": ("protocol", "protocol/wire"),
    "intranode": ("intranode/sums",),
    "intranode/sums": (),
    "group": ("group/nodes", "group/service"),
    "group/nodes": (
        "group/combines.hpp",
        "group/layout.hpp",
        "group/member_waiter.hpp",
        "group/member_watch.hpp",
        "group/stream.hpp",
        "group/team_slices.hpp",
    ),
    "group/service": (
        "group/combines.hpp",
        "group/failure.hpp",
        "group/layout.hpp",
        "group/member_processes.hpp",
        "group/member_watch.hpp",
        "group/nodes",
        "group/stream.hpp",
    ),
    "steer/plan": (),
    "steer/rank": ("steer/plan",),
    "steer/coordinator": ("steer/plan",),
    "service/notices": (),
    "service/placement": (),
    "service/tools": ("service/placement",),
    "service/keeper/ranks": KEEPER_BASICS,
    "service/keeper/nodes": (*KEEPER_BASICS, "service/keeper/ranks"),
    "service/keeper/supervise": (
        *KEEPER_BASICS,
        "service/keeper/nodes",
        "service/keeper/ranks",
        "service/placement",
    ),
    "service/dpu": (),
    "service/dpu/daemon": (*KEEPER_BASICS, "service/dpu", "service/keeper/supervise", "service/placement"),
    "service/dpu/host": (
        *KEEPER_BASICS,
        "service/dpu",
        "service/keeper/nodes",
        "service/keeper/ranks",
        "service/keeper/supervise",
        "service/placement",
    ),
    "service/keeper/observe": (
        *KEEPER_BASICS,
        "service/dpu/host",
        "service/keeper/nodes",
        "service/keeper/ranks",
        "service/keeper/supervise",
    ),
    "service/keeper": (
        "service/dpu/host",
        "service/keeper/nodes",
        "service/keeper/observe",
        "service/keeper/ranks",
        "service/keeper/supervise",
        "service/notices",
        "service/placement",
    ),
    "service/loop": (
        "service/keeper/supervise/hung_services.hpp",
        "service/notices",
        "service/placement/cores.hpp",
    ),
    "service": (
        "service/dpu/daemon",
        "service/keeper",
        "service/loop",
        "service/notices",
        "service/placement",
        "service/tools",
    ),
    "mpi": (),
    "mpi/native": (),
    "mpi/windows": ("mpi/native",),
    "mpi/job": ("mpi/native",),
    "mpi/types": ("mpi/job", "mpi/memory/accelerators.hpp", "mpi/native"),
    "mpi/memory": ("mpi/job", "mpi/native", "mpi/types", "mpi/windows"),
    "mpi/intranode": (
        *MPI_BASICS,
        "mpi/collectives/arguments.hpp",
        "mpi/communicators",
        "mpi/completion/waiting.hpp",
        "mpi/memory/accelerators.hpp",
        "mpi/report",
    ),
    # The next six still include each other in circles: arrows may be taken out here, and none added.
    "mpi/communicators": (*MPI_BASICS, "mpi/report"),
    "mpi/collectives": (
        *MPI_BASICS,
        "mpi/communicators",
        "mpi/completion",
        "mpi/intranode",
        "mpi/memory",
        "mpi/persistent",
        "mpi/report",
        "mpi/trace",
    ),
    "mpi/completion": (*MPI_BASICS, "mpi/collectives", "mpi/persistent", "mpi/report"),
    "mpi/persistent": (*MPI_BASICS, "mpi/collectives", "mpi/completion", "mpi/report", "mpi/windows"),
    "mpi/report": (
        *MPI_BASICS,
        "mpi/collectives",
        "mpi/communicators",
        "mpi/memory",
        "mpi/start/abort.hpp",
        "mpi/trace",
        "mpi/windows",
    ),
    "mpi/trace": (*MPI_BASICS, "mpi/collectives", "mpi/report"),
    "mpi/api": (*MPI_BASICS, "mpi/communicators", "mpi/report"),
    "mpi/tool": (*MPI_BASICS, "mpi/api", "mpi/report"),
    "mpi/polite": ("mpi/job", "mpi/native"),
    "mpi/start": (
        *MPI_BASICS,
        "mpi/collectives",
        "mpi/communicators",
        "mpi/completion",
        "mpi/intranode",
        "mpi/memory",
        "mpi/persistent",
        "mpi/polite",
        "mpi/report",
        "mpi/trace",
        "mpi/windows",
    ),
}

# The engine must not use threads, clocks, files or sockets; the simulator must replay exactly.
IMPURE = (
    r"thread|mutex|shared_mutex|condition_variable|future|stop_token|semaphore|latch|barrier|chrono|ctime|time\.h"
    r"|random|filesystem|fstream|iostream|cstdio|stdio\.h|pthread\.h|unistd\.h|fcntl\.h|poll\.h|netdb\.h|signal\.h"
    r"|sys/.*|linux/.*|netinet/.*|arpa/.*"
)
FORBIDDEN_SYSTEM: dict[str, str] = {"engine": IMPURE}

# How many units of a layer (a header with its source) include each other in circles. New layers have none. A number may
# only shrink: lower it when the check says so.
IN_CIRCLES: dict[str, int] = {"engine": 12, "mpi": 15, "sim": 8}

# File names that two directories may share. This may only shrink.
SHARED_NAMES: set[str] = set()

# Allowed only in src/mpi.
MPI_HEADER = r"mpi\.h|mpio\.h|mpi/.*"

INCLUDE = re.compile(r'^\s*#\s*include\s*(?:"(?P<ours>[^"]+)"|<(?P<system>[^>]+)>)')
SUFFIXES = {".hpp", ".cpp", ".h", ".c", ".inc", ".ipp"}
OWN_SOURCE = Path(__file__).resolve().parent.parent / "src"


@dataclass(frozen=True)
class Violation:
    """An include that the layers do not allow."""

    path: Path
    line: int
    message: str

    def __str__(self) -> str:
        return f"{self.path}:{self.line}: {self.message}"


def layer_of(relative: str) -> str | None:
    """The layer of a path under src/: the longest match."""
    fitting = [layer for layer in ALLOWED if relative.startswith(layer + "/")]
    return max(fitting, key=len, default=None)


def check_room(including: str, included: str) -> str | None:
    """The reason why a file must not include one of its own layer, or None."""
    room, other = (Path(path).parent.as_posix() for path in (including, included))
    if room == other or room not in ROOMS or {other, included} & set(ROOMS[room]):
        return None
    allowed = ", ".join(ROOMS[room]) or "nothing"
    return f'{room} must not include "{included}" (of its layer it may include its own files and: {allowed})'


def check_ours(layer: str, including: str, included: str, source: Path) -> str | None:
    """The reason why a quoted include is not allowed, or None."""
    target = included
    if not (source / included).exists():
        return f'"{included}" is not a path under src/; includes are written from there'
    if target.startswith(layer + "/") and layer_of(target) == layer:
        return check_room(including, target)
    if any(target.startswith(prefix) for prefix in ALLOWED[layer]):
        return None
    allowed = ", ".join(ALLOWED[layer]) or "nothing"
    return f'{layer} must not include "{included}" (it may include its own files and: {allowed})'


def check_system(layer: str, header: str) -> str | None:
    """The reason why an include in angle brackets is not allowed, or None."""
    if layer != "mpi" and re.fullmatch(MPI_HEADER, header):
        return f"<{header}>: only src/mpi knows MPI"
    if layer in FORBIDDEN_SYSTEM and re.fullmatch(FORBIDDEN_SYSTEM[layer], header):
        return f"<{header}>: {layer} has no threads, clocks, files or sockets"
    return None


def check_file(path: Path, source: Path) -> list[Violation]:
    """The violations in one file under `source`."""
    including = path.relative_to(source).as_posix()
    layer = layer_of(including)
    if layer is None:
        return [Violation(path, 1, "belongs to no layer; add its directory to scripts/check_layers.py")]
    if layer in ROOMS and Path(including).parent.as_posix() not in ROOMS:
        return [Violation(path, 1, "belongs to no room; add its directory to ROOMS in scripts/check_layers.py")]
    violations = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1):
        match = INCLUDE.match(line)
        if match is None:
            continue
        ours, system = match["ours"], match["system"]
        message = check_ours(layer, including, ours, source) if ours else check_system(layer, system)
        if message:
            violations.append(Violation(path, number, message))
    return violations


def unit_includes(source: Path, layer: str) -> dict[str, set[str]]:
    """The units of a layer that each of its units includes."""
    units: dict[str, set[str]] = {}
    for path in sorted((source / layer).rglob("*")):
        if path.suffix not in SUFFIXES:
            continue
        unit = path.relative_to(source).with_suffix("").as_posix()
        included = units.setdefault(unit, set())
        for line in path.read_text(encoding="utf-8").splitlines():
            match = INCLUDE.match(line)
            if match and match["ours"] and match["ours"].startswith(layer + "/"):
                included.add(Path(match["ours"]).with_suffix("").as_posix())
        included.discard(unit)
    return units


def reachable(units: dict[str, set[str]], start: str) -> set[str]:
    """Units that a unit includes, directly or indirectly."""
    found: set[str] = set()
    waiting = list(units.get(start, ()))
    while waiting:
        unit = waiting.pop()
        if unit not in found:
            found.add(unit)
            waiting.extend(units.get(unit, ()))
    return found


def in_circles(source: Path, layer: str) -> list[str]:
    """The units of a layer that include themselves indirectly."""
    units = unit_includes(source, layer)
    return [unit for unit in units if unit in reachable(units, unit)]


def check_circles(source: Path) -> list[str]:
    """Wrong numbers of units in cycles, layer by layer."""
    problems = []
    for layer in sorted(path.name for path in source.iterdir() if path.is_dir()):
        circling, allowed = in_circles(source, layer), IN_CIRCLES.get(layer, 0)
        if len(circling) > allowed:
            problems.append(
                f"{source / layer}: {len(circling)} units include each other in circles, {allowed} may: "
                + ", ".join(circling)
            )
        elif len(circling) < allowed and source == OWN_SOURCE:
            problems.append(f"{source / layer}: only {len(circling)} units are in circles: lower IN_CIRCLES to that")
    return problems


def check_names(source: Path) -> list[str]:
    """Wrong file names: each must identify its file wherever it appears."""
    units: dict[str, set[str]] = {}
    for path in source.rglob("*"):
        if path.suffix in SUFFIXES:
            units.setdefault(path.stem, set()).add(path.relative_to(source).with_suffix("").as_posix())
    shared = {name: sorted(paths) for name, paths in sorted(units.items()) if len(paths) > 1}
    problems = [
        f"{source}: {len(paths)} files have one name, rename them to say what each is: {', '.join(paths)}"
        for name, paths in shared.items()
        if name not in SHARED_NAMES
    ]
    if source == OWN_SOURCE:
        problems += [
            f"{source}: no two files are named {name}: remove it from SHARED_NAMES"
            for name in sorted(SHARED_NAMES - shared.keys())
        ]
    return problems


def check_tree(source: Path) -> tuple[int, list[Violation]]:
    """The number of checked files under `source`, and their violations."""
    files = sorted(path for path in source.rglob("*") if path.suffix in SUFFIXES)
    return len(files), [violation for path in files for violation in check_file(path, source)]


def main() -> int:
    """Checks the given directory, default this project's src/."""
    source = Path(sys.argv[1]) if len(sys.argv) > 1 else OWN_SOURCE
    count, violations = check_tree(source)
    if count == 0:
        print(f"{source}: no source files found", file=sys.stderr)
        return 1
    for violation in violations:
        print(violation, file=sys.stderr)
    problems = check_circles(source) + check_names(source)
    for problem in problems:
        print(problem, file=sys.stderr)
    print(f"{count} files, {len(violations)} includes against the layers")
    return 1 if violations or problems else 0


if __name__ == "__main__":
    sys.exit(main())
