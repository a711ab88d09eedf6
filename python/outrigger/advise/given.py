"""The way to run a program, as options of `outrigger run`."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from outrigger import binding, launchers, settings
from outrigger import run as running
from outrigger.artifacts import Artifacts
from outrigger.hosts import Hosts


@dataclass(frozen=True, kw_only=True)
class Given:
    """Options of `outrigger run`, as given; None and empty: left out."""

    program: tuple[str, ...]
    ranks: int = 1
    mpi: str = "auto"
    services: int | None = None
    algorithms: tuple[str, ...] = ()
    choice: str | None = None
    reach: str | None = None
    blocking: str | None = None
    intranode: str | None = None
    shared_heap: str | None = None
    wait_copies: str | None = None
    huge_pages: str | None = None
    hosts: Hosts = field(default_factory=Hosts)
    bind: str = binding.BUNCH
    variables: tuple[str, ...] = ()
    native: bool = False

    def _places(self) -> list[str]:
        hosts = self.hosts
        words: list[str] = []
        if hosts.hostfile is not None:
            words += ["--hostfile", str(hosts.hostfile)]
        if hosts.agent != launchers.SSH:
            words += ["--launch-agent", hosts.agent]
        if hosts.oversubscribe:
            words += ["--oversubscribe"]
        if hosts.pretend_nodes > 1:
            words += ["--pretend-nodes", str(hosts.pretend_nodes)]
        return words

    def options(self) -> list[str]:
        """Without the program and -n."""
        values = {
            "--mpi": None if self.mpi == "auto" else self.mpi,
            "--services": None if self.services is None else str(self.services),
            "--choice": self.choice,
            "--reach": self.reach,
            "--blocking": self.blocking,
            "--intranode": self.intranode,
            "--shared-heap": self.shared_heap,
            "--wait-copies": self.wait_copies,
            "--huge-pages": self.huge_pages,
            "--bind": None if self.bind == binding.BUNCH else self.bind,
        }
        words = [word for name, value in values.items() if value is not None for word in (name, value)]
        words += [word for text in self.algorithms for word in ("--algorithm", text)]
        words += [word for text in self.variables for word in ("-x", text)]
        return [*words, *self._places(), *(["--native"] if self.native else [])]

    def command(self) -> str:
        """To paste into a shell."""
        return shlex.join(["outrigger", "run", "-n", str(self.ranks), *self.options(), "--", *self.program])

    def typed(self) -> str:
        """The user's command line: the MPI's own launcher if the variant is native without further options."""
        if not self.native or self.options() not in (["--native"], ["--bind", binding.NONE, "--native"]):
            return self.command()
        return shlex.join(["mpirun", "-n", str(self.ranks), *self.program])

    def request(self, found: Artifacts, report_to: Path | None) -> running.Request:
        """Checked."""
        return running.Request(
            program=self.program,
            ranks=self.ranks,
            mpi=self.mpi,
            settings=settings.make(
                found, services=self.services, algorithms=self.algorithms, choice=self.choice, reach=self.reach,
                blocking=self.blocking, intranode=self.intranode, shared_heap=self.shared_heap,
                wait_copies=self.wait_copies, huge_pages=self.huge_pages,
            ),
            hosts=self.hosts,
            bind=binding.parse_bind(self.bind),
            variables=running.parse_variables(self.variables),
            report_to=None if self.native else report_to,
            native=self.native,
        )  # fmt: skip


def added(base: Given, other: Given) -> str:
    """Options of `other` that `base` lacks, as text."""
    before = base.options()
    words: Sequence[str] = other.options()
    pairs, index = [], 0
    while index < len(words):
        width = 1 if index + 1 == len(words) or words[index + 1].startswith("--") else 2
        pairs.append(words[index : index + width])
        index += width
    present = {tuple(before[i : i + width]) for width in (1, 2) for i in range(len(before))}
    return shlex.join([word for pair in pairs if tuple(pair) not in present for word in pair])
