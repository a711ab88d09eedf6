"""Properties of a cluster and the location of its files."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from ipaddress import IPv4Address
from pathlib import Path

from outrigger import formats
from outrigger.errors import UserError

DEFAULT_NAME = "box"
NODES_AT_MOST = 250
PREFIX_LENGTH = 16

_FIRST_ADDRESS = IPv4Address("10.77.1.0")
_NAME = re.compile(r"[a-z0-9][a-z0-9_-]{0,19}")


@dataclass(frozen=True)
class Faults:
    """Faults of the cables, in each direction; as fractions."""

    loss: float = 0.0
    duplicate: float = 0.0
    reorder: float = 0.0
    """Held back for some milliseconds, so that later frames overtake."""
    seed: int = 1

    def any(self) -> bool:
        """True if there is any fault."""
        return self.loss > 0 or self.duplicate > 0 or self.reorder > 0


@dataclass(frozen=True)
class Spec:
    """Requested properties of a cluster."""

    nodes: int
    rate_bits: int | None
    """Rate of every host's link in each direction; None: not limited."""
    latency_us: int = 0
    """Added between any two hosts."""
    private: tuple[str, ...] = ()
    """Directories that are private to each host and empty at first."""
    faults: Faults = Faults()
    cores_per_host: int | None = None
    """Cores per host, taken in turn. None: every host has all cores of the machine."""

    def hosts(self) -> list[str]:
        """The hosts' names."""
        return [host_name(index) for index in range(self.nodes)]


def host_name(index: int) -> str:
    """n0, n1..."""
    return f"n{index}"


def address(index: int) -> str:
    """Address of a host's eth0. Clusters share no network, so all use the same addresses."""
    return str(_FIRST_ADDRESS + index + index // 254 * 2 + 1)


def check_name(name: str) -> str:
    """Checks a cluster's name."""
    if not _NAME.fullmatch(name):
        raise UserError(f"--name {name}: up to 20 of a-z, 0-9, - and _ are needed, a letter or digit first")
    return name


def root_directory() -> Path:
    """Directory of this user's clusters."""
    if os.geteuid() == 0:
        return Path("/run/outrigger")
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    if runtime and os.access(runtime, os.W_OK):
        return Path(runtime) / "outrigger"
    return Path(f"/tmp/outrigger-{os.geteuid()}")


def _own_directory(path: Path) -> Path:
    """Private directory of this user; one made by another user is not trusted."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = path.lstat()
    except OSError as error:
        raise UserError(f"{path}: {error.strerror}; the files of clusters lie there") from None
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.geteuid():
        raise UserError(f"{path} belongs to another user; set XDG_RUNTIME_DIR to a directory of your own")
    return path


@dataclass(frozen=True)
class Files:
    """Paths of a cluster's files."""

    directory: Path

    @property
    def name(self) -> str:
        """The cluster's."""
        return self.directory.name

    @property
    def keeper(self) -> Path:
        """Socket of the keeper."""
        return self.directory / "keeper"

    def host(self, name: str) -> Path:
        """Socket of a host."""
        return self.directory / name

    @property
    def hosts(self) -> Path:
        """/etc/hosts of every host."""
        return self.directory / "hosts"

    @property
    def spec(self) -> Path:
        """The requested properties."""
        return self.directory / "cluster.json"

    @property
    def log(self) -> Path:
        """Errors of the keeper and the hosts."""
        return self.directory / "log"

    @property
    def temporary(self) -> Path:
        """TMPDIR: the same path on every host, but private."""
        return self.directory / "tmp"

    @property
    def programs(self) -> Path:
        """Directory with `ssh`, first in PATH on every host."""
        return self.directory / "bin"

    @property
    def agent(self) -> Path:
        """The launch agent."""
        return self.directory / "agent"

    def write_spec(self, spec: Spec) -> None:
        """Saves the requested properties."""
        self.spec.write_text(formats.as_json(spec))

    def read_spec(self) -> Spec:
        """Loads the requested properties."""
        return formats.parse(self.spec.read_bytes(), Spec, str(self.spec))


def files(name: str) -> Files:
    """Paths of a cluster's files, whether it exists or not."""
    return Files(root_directory() / check_name(name))


@contextmanager
def locked(name: str) -> Iterator[tuple[Files, int]]:
    """Excludes other `up` and `down` of this user; the lock ends with the last process that holds its descriptor.

    The directory shared by all clusters exists meanwhile, and is removed when empty.
    """
    found = files(name)
    directory = root_directory()
    while True:
        lock = os.open(_own_directory(directory), os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not _is_still_at(lock, directory):
                continue
            yield found, lock
            with contextlib.suppress(OSError):
                directory.rmdir()
            return
        finally:
            os.close(lock)


def _is_still_at(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), path.stat())
    except FileNotFoundError:
        return False
