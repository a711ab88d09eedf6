"""Places of runs: here, or on the hosts of a cluster on this machine."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from outrigger import itself
from outrigger.cluster import control
from outrigger.cluster.state import host_name


@dataclass(frozen=True)
class Here:
    """This machine is the only node."""

    def starts(self) -> tuple[str, ...]:
        """`outrigger`, in its place."""
        return itself.command()

    def options(self) -> tuple[str, ...]:
        """Options of `outrigger run`."""
        return ()

    def hosts(self) -> list[str]:
        """Hosts whose links can be cut."""
        return []

    def link(self, host: str, state: str) -> None:
        """Cuts a host off, or reconnects it."""
        raise AssertionError(f"{host} has no link to be {state}")


@dataclass(frozen=True)
class OnCluster:
    """One that `outrigger lab cluster up` has made. Its processes are this machine's as well."""

    name: str
    hostfile: Path

    @classmethod
    def of(cls, name: str, ranks: int, place: Path) -> OnCluster:
        """UserError: there is no such cluster. Ranks are spread evenly."""
        hosts = len(control.spec_of(name).hosts())
        file = place / "hosts"
        file.write_text(control.hostfile(-(-ranks // hosts), name=name))
        return cls(name, file)

    def starts(self) -> tuple[str, ...]:
        """On the first host."""
        again = itself.command()
        return (*again, "lab", "cluster", "exec", "--name", self.name, host_name(0), "--", *again)

    def options(self) -> tuple[str, ...]:
        """The hosts share this machine's cores, so ranks are not bound."""
        agent = str(control.agent(self.name))
        return ("--hostfile", str(self.hostfile), "--launch-agent", agent, "--bind", "none")

    def hosts(self) -> list[str]:
        """All but the first, which has the launcher."""
        return control.spec_of(self.name).hosts()[1:]

    def link(self, host: str, state: str) -> None:
        """Cuts a host off, or reconnects it."""
        control.set_link(host, state, self.name)


Place = Here | OnCluster
