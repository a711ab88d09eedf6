"""Slurm, the real one, on machines of a test: its controller on the first, a node on each.

It does not authenticate, has no accounts and binds no processes: only one user may have access. All machines must share
a directory, with the same path.
"""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

_PROGRAMS = ("slurmctld", "slurmd", "salloc", "sbatch", "srun")


def why_not() -> str | None:
    """The reason why Slurm cannot run here; None if it can."""
    missing = [name for name in _PROGRAMS if shutil.which(name, path="/usr/sbin:/usr/bin:/sbin:/bin") is None]
    return f"{' and '.join(missing)} not installed (Debian: slurm-wlm; ./dev setup --with slurm)" if missing else None


@dataclass(frozen=True)
class Slurm:
    """Its files, and the commands of the shell that bring it up and use it. `machines` by their hostnames."""

    directory: Path
    """New, and the same on all machines."""
    machines: Sequence[str]
    local: Path
    """Where each machine has a directory of its own: in it if all see the same there."""
    cpus: int = 2
    plugin: Path | None = None
    """A SPANK plugin that all commands load."""
    task_prolog: Path | None = None

    def write(self) -> None:
        """Before anything starts."""
        self.directory.mkdir()
        own = f"{self.local}/%n"
        settings = {
            "ClusterName": "tests",
            "SlurmctldHost": self.machines[0],
            "SlurmUser": "root",
            "AuthType": "auth/none",
            "CredType": "cred/none",
            "MpiDefault": "none",  # what a job needs it must ask for
            "ProctrackType": "proctrack/linuxproc",
            "TaskPlugin": "task/affinity",
            "SelectType": "select/linear",
            "StateSaveLocation": f"{self.directory}/state",
            "SlurmctldPidFile": f"{self.directory}/state/pid",
            "SlurmctldLogFile": f"{self.directory}/controller.log",
            "SlurmdSpoolDir": own,
            "SlurmdPidFile": f"{own}/pid",
            "SlurmdLogFile": f"{self.directory}/%n.log",
            "SlurmdParameters": "config_overrides",  # machines have as many CPUs as it says here
            "TmpFS": own,
        }
        if self.task_prolog is not None:
            settings["TaskProlog"] = str(self.task_prolog)
        (self.directory / "state").mkdir()
        if self.plugin is not None:  # found beside slurm.conf
            (self.directory / "plugstack.conf").write_text(f"required {self.plugin}\n")
        lines = [f"{name}={value}" for name, value in settings.items()]
        lines += [f"NodeName={name} CPUs={self.cpus}" for name in self.machines]
        lines += ["PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE"]
        self._file.write_text("\n".join(lines) + "\n")
        (self.directory / "cgroup.conf").write_text("IgnoreSystemd=yes\n")  # there is none in a guest

    def services(self, machine: str) -> list[str]:
        """Commands that must run on the machine as long as Slurm is used; the controller's is first."""
        node = f"mkdir -p {self.local}/{machine} && exec slurmd -D -f {self._file}"
        return [f"exec slurmctld -D -f {self._file}", node] if machine == self.machines[0] else [node]

    def until_up(self, timeout_s: float) -> str:
        """A command for the first machine that waits until all nodes are idle, and reports a timeout."""
        ready = f"[ $(sinfo -h -N -t idle -o %N | wc -l) -eq {len(self.machines)} ]"
        waits = f"until {ready}; do sleep 0.2; done 2>{self.directory}/sinfo.log"
        said = f"tail -n 20 {self.directory}/*.log"
        return f"{self._environment} timeout {timeout_s:.0f} bash -c {shlex.quote(waits)} || {{ {said}; exit 1; }}"

    def allocated(self, options: Sequence[str], command: Sequence[str]) -> list[str]:
        """A command within an allocation, to be run on the first machine."""
        return ["env", self._environment, "salloc", "--quiet", *options, *command]

    def batch(self, options: Sequence[str], script: Path) -> list[str]:
        """A script as a job of its own, which has ended when this has, and whose output and exit code this has."""
        output = script.with_suffix(".out")
        words = ["sbatch", "--quiet", "--wait", f"--output={output}", *options, str(script)]
        return ["env", self._environment, "sh", "-c", f"{shlex.join(words)}; code=$?; cat {output}; exit $code"]

    @property
    def _file(self) -> Path:
        return self.directory / "slurm.conf"

    @property
    def _environment(self) -> str:
        return f"SLURM_CONF={self._file}"
