"""Guests on one network, each a Linux of its own with soft RoCE, that see the host's files at the same paths.

A guest boots when a test first asks for it and serves all later ones.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import subprocess
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from rdma_kernel import AARCH64, X86_64, Architecture, Bootable, CannotBootError, prepare
from rdma_switch import Switch

MTU_BYTES = 4200
"""Room for RoCE's largest packets, 4096 bytes."""
BOOT_TIMEOUT_S = 120
PATIENCE = float(os.environ.get("OUTRIGGER_PATIENCE", "1"))
"""Times all limits: for a busy machine."""


@dataclass(frozen=True)
class Machine:
    """The hardware of a guest."""

    name: str
    number: int
    """Also the last number of its address."""
    architecture: Architecture = X86_64
    cpus: int = 2
    memory_mib: int = 1024

    @property
    def address(self) -> str:
        return f"10.9.0.{self.number}"


MACHINES = (
    Machine("h0", 1),
    Machine("h1", 2),
    Machine("d0", 11, memory_mib=768),
    Machine("d1", 12, memory_mib=768),
    Machine("arm0", 21, AARCH64, memory_mib=768),
)
"""Two hosts, the DPU of each, and a DPU with Arm cores."""


@dataclass(frozen=True)
class Outcome:
    """A command that has ended in a guest."""

    status: int
    output: str

    def ok(self) -> Outcome:
        assert self.status == 0, f"exit status {self.status}\n{self.output}"
        return self


@dataclass
class Guest:
    """A running guest. Commands go through its directory of the share."""

    machine: Machine
    directory: Path
    process: subprocess.Popen[bytes]
    console: Path
    numbers: itertools.count[int] = field(default_factory=itertools.count)

    @property
    def name(self) -> str:
        return self.machine.name

    @property
    def share(self) -> Path:
        return self.directory.parent

    def run(self, command: str, timeout_s: float) -> Outcome:
        """Runs a command of the shell to its end."""
        task = self.directory / f"run-{next(self.numbers)}"
        new = task.with_suffix(".new")
        new.write_text(command + "\n")
        new.rename(task.with_suffix(".task"))
        output = task.with_suffix(".output")
        if not self._wait_for(task.with_suffix(".status"), timeout_s):
            said = output.read_text(errors="replace") if output.exists() else ""
            raise AssertionError(f"{self.name}: {command}\nhas not ended after {timeout_s} s\n{said}\n{self.said()}")
        return Outcome(int(task.with_suffix(".status").read_text()), output.read_text(errors="replace"))

    def wait_until_up(self) -> None:
        if not self._wait_for(self.directory / "ready", BOOT_TIMEOUT_S):
            raise CannotBootError(f"guest {self.name} is not up after {BOOT_TIMEOUT_S} s. Its console:\n{self.said()}")

    def is_up(self) -> bool:
        return self.process.poll() is None

    def said(self) -> str:
        return self.console.read_text(errors="replace")[-4000:]

    def power_off(self) -> None:
        """As a power cut."""
        self.process.kill()
        self.process.wait()

    def _wait_for(self, file: Path, timeout_s: float) -> bool:
        """Where all stands still, as on a machine that is suspended, guests have no time either: it does not count."""
        left_s = timeout_s * PATIENCE
        looked = time.monotonic()
        while not file.exists():
            if not self.is_up() or left_s < 0:
                return file.exists()
            time.sleep(0.1)
            now = time.monotonic()
            left_s -= min(now - looked, 1.0)
            looked = now
        return True

    def end(self) -> None:
        (self.directory / "end").touch()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(10)
        self.power_off()


class Laboratory:
    """The guests, and what they have in common: a directory, a key for ssh, a switch."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self.share = directory / "share"
        shutil.rmtree(self.share, ignore_errors=True)
        self.share.mkdir(parents=True)
        (self.share / "hosts").write_text("".join(f"{each.address} {each.name}\n" for each in MACHINES))
        subprocess.run(
            ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "guests", "-f", self.share / "key"], check=True
        )
        self.switch = Switch()
        self._running: dict[str, Guest] = {}

    def guests(self, *names: str) -> list[Guest]:
        """These guests, up. Those that are not, or not any more, are booted together."""
        wanted = [next(machine for machine in MACHINES if machine.name == name) for name in names]
        asleep = [machine for machine in wanted if not self._is_up(machine.name)]
        booted = [self._start(machine) for machine in asleep]
        try:
            for guest in booted:
                guest.wait_until_up()
        except BaseException:  # also where the tests are interrupted
            for guest in booted:
                guest.power_off()
            raise
        self._running |= {guest.name: guest for guest in booted}
        return [self._running[name] for name in names]

    def end(self) -> None:
        for guest in self._running.values():
            guest.end()
        self.switch.end()

    def _is_up(self, name: str) -> bool:
        return name in self._running and self._running[name].is_up()

    def _start(self, machine: Machine) -> Guest:
        boots = prepare(self._directory, machine.architecture)
        own = self.share / machine.name
        shutil.rmtree(own, ignore_errors=True)
        own.mkdir()
        console = self.share / f"{machine.name}.console"
        command = _qemu(machine, boots, self.share, self.switch.netdev(machine.name))
        with console.open("wb") as output:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT)
        return Guest(machine, own, process, console)


def why_not(architectures: Iterable[Architecture] = (X86_64,)) -> str | None:
    """The reason why no guest can run here; None if guests can run."""
    if os.uname().machine != "x86_64":
        return "the guests take the files of this machine, which must be x86-64"
    for architecture in architectures:
        if shutil.which(architecture.qemu) is None:
            packages = {"x86_64": "qemu-system-x86", "aarch64": "qemu-system-arm"}
            return f"{architecture.qemu} is not installed (Debian: {packages[architecture.machine]})"
        if not list(Path("/usr/lib").glob(f"{architecture.machine}-*/libibverbs/librxe*.so")):
            return f"the verbs of soft RoCE are not installed (Debian: ibverbs-providers:{architecture.debian})"
    for program, package in {"busybox": "busybox-static", "rdma": "iproute2", "ssh-keygen": "openssh-client"}.items():
        if shutil.which(program, path="/usr/bin:/bin:/usr/sbin:/sbin") is None:
            return f"{program} is not installed (Debian: {package})"
    return None


def _qemu(machine: Machine, boots: Bootable, share: Path, link: str) -> list[str]:
    words = f"quiet panic=-1 mitigations=off guest.name={machine.name} guest.address={machine.address}"
    console = {X86_64: "ttyS0", AARCH64: "ttyAMA0"}[machine.architecture]
    board = {X86_64: ("q35", "max"), AARCH64: ("virt,gic-version=3", "cortex-a72")}[machine.architecture]
    card = f"virtio-net-pci,netdev=link,mac=52:54:00:09:00:{machine.number:02x},host_mtu={MTU_BYTES}"
    if machine.architecture is AARCH64:
        card += ",romfile="  # its boot program is in a package of its own, and not needed
    return [
        machine.architecture.qemu, "-M", board[0], "-cpu", board[1], "-accel", "tcg,thread=multi,tb-size=256",
        "-smp", str(machine.cpus), "-m", str(machine.memory_mib),
        "-nodefaults", "-no-user-config", "-no-reboot", "-display", "none", "-serial", "stdio",
        "-kernel", str(boots.kernel), "-initrd", str(boots.initrd),
        "-append", f"console={console} {words} guest.share={share}",
        "-netdev", f"{link},id=link", "-device", card,
        *_files("host", Path("/"), read_only=True),
        *_files("layer", boots.layer, read_only=True),
        *_files("share", share, read_only=False),
    ]  # fmt: skip


def _files(tag: str, path: Path, *, read_only: bool) -> list[str]:
    backend = f"local,id={tag},path={path},security_model=none,multidevs=remap"
    if read_only:
        backend += ",readonly=on"
    return ["-fsdev", backend, "-device", f"virtio-9p-pci,fsdev={tag},mount_tag={tag}"]
