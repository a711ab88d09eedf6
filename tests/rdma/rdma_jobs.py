"""MPI programs on guests, and service processes on DPUs: how they are started, and what they leave."""

from __future__ import annotations

import json
import re
import shlex
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rdma_guests import PATIENCE, Guest, Outcome
from slurm_site import Slurm
from waiting import wait_until

# UCX 1.13 drops soft RoCE's datagrams unless it is told not to check their addresses. When it connects, it registers
# 120 MB of buffers, which stops an emulated machine for seconds. Soft RoCE of Linux 6.1 does not restart a connection's
# timer for later requests. When the timer ends, it repeats all requests, answered or not. With UCX's default of one
# second a busy emulated machine makes no progress. Frames between guests are not lost, so the timeout may be long.
SOFT_ROCE = {
    "UCX_UD_VERBS_ETH_DGID_CHECK": "n",
    "UCX_RC_VERBS_TIMEOUT": "60s",
    "UCX_RC_VERBS_RX_QUEUE_LEN": "256",
    "UCX_RC_VERBS_RX_BUFS_GROW": "256",
    "UCX_RC_VERBS_TX_BUFS_GROW": "128",
    "UCX_UD_VERBS_RX_QUEUE_LEN": "256",
    "UCX_UD_VERBS_RX_BUFS_GROW": "256",
    "UCX_UD_VERBS_TX_BUFS_GROW": "128",
    "UCX_WARN_UNUSED_ENV_VARS": "n",
}
VERBS = {"OUTRIGGER_UCX_TLS": "rc,ud", **SOFT_ROCE}
TCP = {"OUTRIGGER_UCX_TLS": "tcp"}


STALL_S = int(120 * PATIENCE)
"""Operations that take longer are reported as a failure."""
LOST_WITHIN_S = 10.0 * PATIENCE
"""Time until a job that has lost a machine or a process must have ended everywhere."""
GOES_ON_S = 8.0
"""Run time after a disturbance, before the program is told to end: it must make progress."""
READY_S = 200
"""Time limit for a program's start and its first operation: the first read of a program is slow in a guest."""


OPENMPI_OVER_TCP = {
    "OMPI_MCA_pml": "ob1",
    "OMPI_MCA_btl": "tcp,self",
    "OMPI_MCA_mpi_yield_when_idle": "1",
    "OMPI_MCA_orte_allowed_exit_without_sync": "1",  # a slow mpirun misses the word of ranks that end
}


def assignments(environment: dict[str, str]) -> str:
    """For a shell, before a command."""
    return " ".join(f"{name}={value}" for name, value in environment.items())


def run_tests_of_the_wire(guest: Guest, build: Path, tests: str, environment: dict[str, str]) -> Outcome:
    return guest.run(f"{assignments(environment)} {build}/bin/ucx_test --gtest_filter='{tests}'", 240)


@dataclass(frozen=True)
class Watch:
    """Waits in a guest for the end of the processes that are there now. Quicker than asking for it afterwards."""

    guest: Guest
    file: Path

    @classmethod
    def of(cls, guest: Guest) -> Watch:
        watch = cls(guest, guest.directory / "gone")
        watch.file.unlink(missing_ok=True)
        script = (
            f"pids=$({OURS}) || exit 1\n(while kill -0 $pids; do sleep 0.1; done; touch {watch.file}) >/dev/null 2>&1 &"
        )
        guest.run(script, 60).ok()
        return watch

    def ended(self, within_s: float) -> float:
        """When, by this machine's clock."""
        assert wait_until(self.file.exists, within_s, pause_s=0.1), (
            f"{self.guest.name}: {self.guest.run('ps -ef', 60).output}"
        )
        return self.file.stat().st_mtime


@dataclass
class Jobs:
    """Starts offloaded programs of one MPI. The MPI's own messages go over TCP."""

    mpi: str
    build: Path
    guests: list[Guest]
    """The hosts."""
    ranks_each: int = 1

    @property
    def share(self) -> Path:
        return self.guests[0].share

    @property
    def _end_file(self) -> Path:
        """Programs that run for some time end when the first rank finds it there."""
        return self.share / "end"

    def command(self, program: str, environment: dict[str, str]) -> str:
        """For a shell of the first guest."""
        for_ranks = {
            "LD_PRELOAD": f"{self.build}/lib/liboutrigger-{self.mpi}.so",
            "OUTRIGGER_SERVICES": "1",
            "OUTRIGGER_REPORT": f"{self.share}/report.json",
            "TEST_END_FILE": str(self._end_file),
            **self._settings(environment),
        }
        path = f"{self.build}/tests/mpi/{self.mpi}/{program}"
        words = self._openmpi(for_ranks) if self.mpi == "openmpi" else self._mpich(for_ranks)
        return f"{' '.join(map(shlex.quote, words))} {path}"

    def _settings(self, environment: dict[str, str]) -> dict[str, str]:
        """Those that a job has in whatever way it is started. Files of earlier jobs are removed."""
        for old in (*self.share.glob("*.log"), *(self.share / name for name in ("report.json", "output", "end"))):
            old.unlink(missing_ok=True)
        return {
            "OUTRIGGER_INIT_TIMEOUT_MS": str(int(120_000 * PATIENCE)),  # of a guest that stands still now and then
            "OUTRIGGER_LOG": f"info:{self.share}/outrigger.log",
            **environment,
        }

    def by_ssh(self, program: str, dpus: list[Dpu], environment: dict[str, str]) -> str:
        """The same by `outrigger run`, as a user writes it: the launcher starts the DPUs as well, by ssh."""
        hosts, dpufile = (self.share / f"launcher.{kind}" for kind in ("hosts", "dpus"))
        hosts.write_text("".join(f"{guest.name}:{self.ranks_each}\n" for guest in self.guests))
        dpufile.write_text("".join(f"{dpu.guest.name}\n" for dpu in dpus))
        where = ["--hostfile", str(hosts), "--dpufile", str(dpufile)]
        return shlex.join(self._launcher_command(program, dpus, environment, where))

    def by_slurm(self, slurm: Slurm, program: str, dpus: list[Dpu], environment: dict[str, str]) -> str:
        """In an allocation of hosts and DPUs: the launcher starts all by srun."""
        where = ["--dpu-pattern", f"^({'|'.join(dpu.guest.name for dpu in dpus)})$"]
        asked = [f"--nodes={len(self.guests) + len(dpus)}", f"--ntasks-per-node={self.ranks_each}"]
        return shlex.join(slurm.allocated(asked, self._launcher_command(program, dpus, environment, where)))

    def _launcher_command(
        self, program: str, dpus: list[Dpu], environment: dict[str, str], where: list[str]
    ) -> list[str]:
        daemon = self.share / "launcher.daemon"
        daemon.write_text(_daemon_of_logins(dpus))
        daemon.chmod(0o755)
        native = OPENMPI_OVER_TCP if self.mpi == "openmpi" else {"UCX_TLS": "tcp"}
        settings = self._settings(environment) | native
        return [
            "env", *(f"{name}={value}" for name, value in settings.items()),
            sys.executable, "-m", "outrigger", "run", "-n", str(len(self.guests) * self.ranks_each),
            "--build", str(self.build), *where,
            "--dpu-daemon", str(daemon), "--services", "1", "--bind", "none",
            "--report-to", f"{self.share}/report.json", "--", *f"{self.build}/tests/mpi/{self.mpi}/{program}".split(),
        ]  # fmt: skip

    def _openmpi(self, for_ranks: dict[str, str]) -> list[str]:
        settings = {
            "OMPI_ALLOW_RUN_AS_ROOT": "1",
            "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
            **OPENMPI_OVER_TCP,
        }
        exports = [word for name, value in for_ranks.items() for word in ("-x", f"{name}={value}")]
        return [
            "env", *(f"{name}={value}" for name, value in settings.items()),
            "mpirun.openmpi", "--host", ",".join(f"{guest.name}:{self.ranks_each}" for guest in self.guests),
            "--bind-to", "none", "-n", str(len(self.guests) * self.ranks_each), *exports,
        ]  # fmt: skip

    def _mpich(self, for_ranks: dict[str, str]) -> list[str]:
        # The service processes go by OUTRIGGER_UCX_TLS, or by what there is: see `command`.
        exports = [word for name, value in {"UCX_TLS": "tcp", **for_ranks}.items() for word in ("-genv", name, value)]
        hosts = ",".join(guest.name for guest in self.guests)
        ranks = str(len(self.guests) * self.ranks_each)
        return ["mpiexec.mpich", "-hosts", hosts, "-ppn", str(self.ranks_each), "-n", ranks, *exports]

    def run(self, program: str, environment: dict[str, str], timeout_s: float) -> Outcome:
        """To its end."""
        return self.ran(self.command(program, environment), timeout_s)

    def ran(self, command: str, timeout_s: float) -> Outcome:
        """A job's command to its end, after which nothing of the job is there any more."""
        outcome = self.guests[0].run(command, timeout_s)
        for guest in self.guests:
            must_be_gone(guest, 10)
        return outcome

    def start(self, program: str, environment: dict[str, str]) -> None:
        """Until it has said that it is ready."""
        self.guests[0].run(f"({self.command(program, environment)}) >{self.share}/output 2>&1 & sleep 1", 30).ok()
        ready = f"until grep -q ready {self.share}/output; do sleep 0.2; done"
        outcome = self.guests[0].run(f"timeout {READY_S * PATIENCE:.0f} bash -c {shlex.quote(ready)}", READY_S + 20)
        assert outcome.status == 0, self.output()

    def end_soon(self) -> None:
        """The disturbance is over: lets the program run some more operations and end."""
        time.sleep(GOES_ON_S)
        self._end_file.touch()

    def end_launcher(self) -> None:
        """Kills a launcher that waits for a guest that cannot be reached."""
        for guest in filter(Guest.is_up, self.guests):
            guest.run("pkill -9 -f '[m]pirun|[m]piexec|[o]rted|[h]ydra|[s]sh h'", 30)

    def output(self) -> str:
        """The output of the program that `start` has started."""
        return (self.share / "output").read_text(errors="replace")

    def log(self) -> str:
        """The log of all service processes and keepers."""
        return (self.share / "outrigger.log").read_text(errors="replace")

    def report(self) -> dict[str, Any]:
        report: dict[str, Any] = json.loads((self.share / "report.json").read_text())
        return report

    def carried(self) -> dict[str, int]:
        """Bytes by the way that they took, of all collectives; ways that none took are left out."""
        total: dict[str, int] = {}
        for entry in self.report()["collectives"]:
            for reach, count in entry["bytes"].items():
                if count:
                    total[reach] = total.get(reach, 0) + count
        return total


@dataclass
class Dpu:
    """An `outriggerd dpu` in a guest. As with a launch agent, it lives as long as its standard input is open."""

    guest: Guest
    daemon: Path

    def start(self, secret: str, environment: dict[str, str]) -> int:
        """The port on which it listens."""
        out, log = self._file("out"), self._file("log")
        environment = {"OUTRIGGER_LOG": f"info:{log}", **environment}
        script = f"""
            rm -f /tmp/dpu.in {out} {log}; mkfifo /tmp/dpu.in
            sleep 3600 >/tmp/dpu.in &
            echo $! >/tmp/dpu.holder
            {assignments(environment)} {self.daemon} dpu --services 1 </tmp/dpu.in >{out} 2>>{log} &
            echo $! >/tmp/dpu.pid
            echo {secret} >/tmp/dpu.in
            for i in $(seq {300 * PATIENCE:.0f}); do grep -q '^outriggerd: dpu' {out} && exit; sleep 0.1; done
        """
        self.guest.run(script, 60).ok()
        found = re.search(r"^outriggerd: dpu ready .*port=(\d+)", out.read_text(), re.MULTILINE)
        assert found, out.read_text() + self.log()
        return int(found[1])

    def log(self) -> str:
        return self.log_file.read_text(errors="replace") if self.log_file.exists() else ""

    @property
    def log_file(self) -> Path:
        return self._file("log")

    def kill_service_process(self) -> None:
        """The one that has been there longest: the last one stands by."""
        self.guest.run(
            "for p in $(pidof outriggerd | tr ' ' '\\n' | sort -n); do "
            "[ $p = $(cat /tmp/dpu.pid) ] || { kill -9 $p; exit; }; done; exit 1",
            30,
        ).ok()

    def end(self) -> None:
        """Closes its input, after which nothing of it may stay."""
        self.guest.run("kill $(cat /tmp/dpu.holder)", 30)
        self.must_be_free(10)

    def must_be_free(self, within_s: float) -> None:
        """Waits until no service process and no starter of one is left. The guest may have busybox's programs only."""
        tries = f"{within_s * 10 * PATIENCE:.0f}"
        waited = f"for i in $(seq {tries}); do pidof outriggerd || exit 0; sleep 0.1; done; ps; exit 1"
        self.guest.run(waited, within_s + 60).ok()

    def _file(self, kind: str) -> Path:
        return self.guest.directory / f"dpu.{kind}"


def _daemon_of_logins(dpus: list[Dpu]) -> str:
    """An outriggerd for the launcher: each DPU's own, in the environment that its logins are to get."""
    cases = "".join(f"{dpu.guest.name}) log={dpu.log_file} daemon={dpu.daemon} ;;\n" for dpu in dpus)
    settings = assignments(SOFT_ROCE | {"OUTRIGGER_LOG": "info:$log"})
    return f'#!/bin/bash\ncase $(hostname) in\n{cases}esac\nrm -f $log\nexec env {settings} $daemon "$@"\n'


OURS = "ps -C outriggerd,steady,differential,stopped,soak,restarted -o pid="
"""Ranks, service processes and keepers; fails where there are none."""


def sweep(guest: Guest) -> None:
    """Ends what a test that failed has left."""
    if not guest.is_up():
        return
    names = "outriggerd steady differential stopped soak restarted mpiexec.mpich hydra_pmi_proxy mpirun.openmpi orted"
    guest.run(f"kill -9 $(pidof {names}); rm -rf /dev/shm/outrigger* /tmp/ompi.*; exit 0", 60)


def must_be_gone(guest: Guest, within_s: float) -> None:
    """All processes have ended, and there is nothing in shared memory."""
    guest.run(
        f"timeout {within_s * PATIENCE:.0f} bash -c {shlex.quote(f'while {OURS}; do sleep 0.2; done')}", within_s + 60
    ).ok()
    assert "outrigger" not in guest.run("ls -A /dev/shm", 30).ok().output


def counters(guest: Guest) -> dict[str, int]:
    """The counters of soft RoCE since the guest's boot."""
    output = guest.run("cd /sys/class/infiniband/rxe0/ports/1/hw_counters && grep . *", 30).ok().output
    return {name: int(value) for name, value in re.findall(r"^(\w+):(\d+)$", output, re.MULTILINE)}
