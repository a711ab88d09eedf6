"""Makes the user's file from a job's output."""

from __future__ import annotations

import glob
import time
from pathlib import Path

from outrigger.errors import UserError
from outrigger.report_data import plural
from outrigger.trace import timeline, torch_ranks, torch_timeline, trace_events
from outrigger.trace.events import Part, read_parts

_KEEPER_SECONDS = 3.0
"""A keeper writes after its last rank has ended, possibly after the launcher has."""
_LOOK_SECONDS = 0.02


def events_path(path: Path) -> Path:
    """Path of the library's output."""
    return path.with_name(path.name + ".events")


def _left(path: Path, of: str) -> list[Path]:
    """Files of keepers, or of single ranks that did not reach MPI_Finalize."""
    events = events_path(path)
    return [
        Path(name) for name in sorted(glob.glob(f"{glob.escape(str(events))}.{of}-*")) if not name.endswith(".part")
    ]


def forget(path: Path) -> None:
    """Files of an earlier job must not be mistaken for this job's."""
    for file in (path, events_path(path), *_left(path, "node"), *_left(path, "rank")):
        if file.is_file():
            file.unlink()


def _read(file: Path) -> list[Part]:
    try:
        return read_parts(file.read_bytes(), str(file))
    except OSError as error:
        raise UserError(f"the trace {file} cannot be read: {error.strerror}") from error


def _by_keepers(path: Path) -> list[Path]:
    """Waits for the files of all nodes that write to this directory."""
    end = time.monotonic() + _KEEPER_SECONDS
    nodes = 0
    while time.monotonic() < end:
        found = _left(path, "node")
        if found and not nodes:
            nodes = next((part.nodes for part in _read(found[0])), 1)
        if nodes and len(found) >= nodes:
            break
        if not found and _left(path, "rank"):
            break
        time.sleep(_LOOK_SECONDS)
    return _left(path, "node") + _left(path, "rank")


def read_written(path: Path) -> list[Part]:
    """Events of an ended job. None: nothing was traced."""
    events = events_path(path)
    files = [events] if events.is_file() else _by_keepers(path)
    return [part for file in files for part in _read(file)]


def finish(path: Path, cores: int = 0) -> str:
    """Makes the file and returns a summary line. `cores`: per node; 0: unknown."""
    parts = read_written(path)
    if not parts:
        return (
            f"there is no trace {path}: no rank has reached MPI_Init under the library, all were killed there, or "
            f"{path.parent} is full"
        )
    made = timeline.build(parts)
    made.about["cores"] = cores
    trace_events.write(made, path)
    for file in (events_path(path), *_left(path, "node"), *_left(path, "rank")):
        file.unlink(missing_ok=True)
    return describe(made, path)


def finish_torch(path: Path, directory: Path) -> str:
    """The same for a PyTorch job whose ranks have recorded in the directory."""
    starts = torch_ranks.read_all(directory)
    if not starts:
        return f"there is no trace {path}: no rank has made a process group of Outrigger's, or {directory} is full"
    made = torch_timeline.build(starts)
    trace_events.write(made, path)
    return describe(made, path)


def describe(made: timeline.Timeline, path: Path) -> str:
    """Summary in one line."""
    about = made.about
    ranks, traced = about["ranks"], about["traced_ranks"]
    whose = plural(ranks, "rank") if traced == ranks else f"{traced} of {ranks} ranks"
    text = f"trace of {whose} in {path}: open it in ui.perfetto.dev, or draw it with outrigger lab replay {path.name}"
    dropped = about["dropped_events"] + about["dropped_service_events"]
    remarks = timeline.losses(made)
    if remarks:
        remarks[-1] += (
            ": its last half second is missing" if len(remarks) == 1 else ": their last half seconds are missing"
        )
    remarks += timeline.torch_remarks(about)
    why = timeline.why_nothing_is_offloaded(made)
    remarks += [f"nothing was offloaded: {why}"] if why else []
    remarks += [f"{dropped} events did not fit, the last ones"] if dropped else []
    return "; ".join([text, *remarks])
