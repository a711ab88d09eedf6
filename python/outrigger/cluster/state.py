"""What a cluster is, and where its files lie."""

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
    """What the cables do to frames that pass, each way; shares of one."""

    loss: float = 0.0
    duplicate: float = 0.0
    reorder: float = 0.0
    """Held back for some milliseconds, so that later ones come before them."""
    seed: int = 1

    def any(self) -> bool:
        """Are they anything but whole?"""
        return self.loss > 0 or self.duplicate > 0 or self.reorder > 0


@dataclass(frozen=True)
class Spec:
    """A cluster as it is asked for."""

    nodes: int
    rate_bits: int | None
    """Of every host's link, each way; None leaves it unshaped."""
    latency_us: int = 0
    """Added on the way from one host to another."""
    private: tuple[str, ...] = ()
    """Directories that are empty at first and each host's own."""
    faults: Faults = Faults()
    cores_per_host: int | None = None
    """Cores that a host is confined to; hosts take them in turn. None: every host has all of the machine's."""

    def hosts(self) -> list[str]:
        """The hosts' names."""
        return [host_name(index) for index in range(self.nodes)]


def host_name(index: int) -> str:
    """n0, n1..."""
    return f"n{index}"


def address(index: int) -> str:
    """The address of a host's eth0. Clusters share no network, so each may have the same ones."""
    return str(_FIRST_ADDRESS + index + index // 254 * 2 + 1)


def check_name(name: str) -> str:
    """The name, if a cluster may have it."""
    if not _NAME.fullmatch(name):
        raise UserError(f"--name {name}: up to 20 of a-z, 0-9, - and _ are needed, a letter or digit first")
    return name


def root_directory() -> Path:
    """Where this user's clusters have their files."""
    if os.geteuid() == 0:
        return Path("/run/outrigger")
    runtime = os.environ.get("XDG_RUNTIME_DIR")
    if runtime and os.access(runtime, os.W_OK):
        return Path(runtime) / "outrigger"
    return Path(f"/tmp/outrigger-{os.geteuid()}")


def _own_directory(path: Path) -> Path:
    """Made for this user alone; one that another user made is not to be trusted."""
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
    """The files of one cluster."""

    directory: Path

    @property
    def name(self) -> str:
        """The cluster's."""
        return self.directory.name

    @property
    def keeper(self) -> Path:
        """The socket of the keeper."""
        return self.directory / "keeper"

    def host(self, name: str) -> Path:
        """The socket of a host."""
        return self.directory / name

    @property
    def hosts(self) -> Path:
        """Becomes /etc/hosts of every host."""
        return self.directory / "hosts"

    @property
    def spec(self) -> Path:
        """The cluster as it was asked for."""
        return self.directory / "cluster.json"

    @property
    def log(self) -> Path:
        """What the keeper and the hosts say of faults."""
        return self.directory / "log"

    @property
    def temporary(self) -> Path:
        """TMPDIR: the same path on every host, and each host's own."""
        return self.directory / "tmp"

    @property
    def programs(self) -> Path:
        """A directory with `ssh`, put before PATH on every host."""
        return self.directory / "bin"

    @property
    def agent(self) -> Path:
        """The launch agent."""
        return self.directory / "agent"

    def write_spec(self, spec: Spec) -> None:
        """Keeps what was asked for."""
        self.spec.write_text(formats.as_json(spec))

    def read_spec(self) -> Spec:
        """What was asked for."""
        return formats.parse(self.spec.read_bytes(), Spec, str(self.spec))


def files(name: str) -> Files:
    """Where the files of a cluster lie, whether it exists or not."""
    return Files(root_directory() / check_name(name))


@contextmanager
def locked(name: str) -> Iterator[tuple[Files, int]]:
    """Keeps other `up` and `down` of this user away; the lock goes with the last process that holds its descriptor.

    The directory that all clusters share exists meanwhile, and goes when it is empty.
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
