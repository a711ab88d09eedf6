"""The hosts of a cluster on this machine, for tests."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass, field
from pathlib import Path

from outrigger.cluster import control
from outrigger.cluster.state import Faults, Spec, host_name

_EXECUTE = """
import sys
from outrigger.cluster import control
sys.exit(control.execute(sys.argv[2], sys.argv[3:], sys.argv[1]))
"""


def exported(mpi: str, for_ranks: dict[str, str]) -> list[str]:
    """Options of the MPI's launcher that set the ranks' environment."""
    if mpi == "openmpi":
        return [word for name, value in for_ranks.items() for word in ("-x", f"{name}={value}")]
    return [word for name, value in for_ranks.items() for word in ("-genv", name, value)]


@dataclass
class Hosts:
    """A cluster of `count` hosts. Killed hosts stay dead until `renew`."""

    count: int
    name: str = f"tests{os.getpid()}"
    faults: Faults = field(default_factory=Faults)
    _namespaces: dict[str, str] = field(default_factory=dict)

    def up(self) -> None:
        """Raises UserError if this machine cannot have a cluster."""
        control.up(Spec(nodes=self.count, rate_bits=1_000_000_000, faults=self.faults), self.name)
        self._namespaces = {self.on(name, "readlink /proc/self/ns/uts").strip(): name for name in self.names()}

    def down(self) -> None:
        control.down(self.name)

    def renew(self) -> None:
        """Takes it down, with everything that runs there, and starts it again."""
        self.down()
        self.up()

    def names(self) -> list[str]:
        return [host_name(index) for index in range(self.count)]

    def agent(self, host: str, command: str) -> list[str]:
        """A command that runs a shell command on a host, and ends it when it is ended."""
        return [str(control.agent(self.name)), "-n", host, command]

    def on(self, host: str, command: str) -> str:
        """Output of a shell command on a host."""
        return subprocess.run(self.agent(host, command), check=True, text=True, stdout=subprocess.PIPE).stdout

    def of(self, pid: int) -> str | None:
        """The host on which a process of this machine runs."""
        try:
            return self._namespaces.get(os.readlink(f"/proc/{pid}/ns/uts"))
        except OSError:
            return None

    def pid_there(self, pid: int) -> str:
        """A process's pid on its host."""
        status = Path(f"/proc/{pid}/status").read_text()
        return next(line.split()[-1] for line in status.splitlines() if line.startswith("NSpid:"))

    def shared_memory_files(self) -> list[str]:
        """Files in /dev/shm of all live hosts, except MPICH 5's own, which it leaves natively, too."""
        alive = [host.name for host in control.look(self.name) if host.state != "killed"]
        files = [(name, file) for name in alive for file in self.on(name, "ls -A /dev/shm").split()]
        return [f"{name}:/dev/shm/{file}" for name, file in files if not file.startswith("mpich_shm_")]

    def cut_link(self, host: str) -> None:
        control.set_link(host, "down", self.name)

    def join_link(self, host: str) -> None:
        control.set_link(host, "up", self.name)

    def kill(self, host: str) -> None:
        control.kill(host, self.name)

    def shares(self, ranks: int) -> list[tuple[str, int]]:
        """Distributes ranks evenly; hosts without any are left out."""
        counts = [ranks // self.count + (index < ranks % self.count) for index in range(self.count)]
        return [(name, count) for name, count in zip(self.names(), counts, strict=True) if count]

    def started_on_first(self, command: list[str]) -> list[str]:
        """A command that runs `command` on the first host."""
        return [sys.executable, "-c", _EXECUTE, self.name, "n0", *command]
