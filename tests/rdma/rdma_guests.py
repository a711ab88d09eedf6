"""Guests on one link, each a Linux of its own with soft RoCE, that see the host's files at the same paths."""

from __future__ import annotations

import contextlib
import itertools
import os
import shutil
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path

from rdma_kernel import BUSYBOX, HERE, Bootable, CannotBootError

MEMORY_MIB = 1024
MTU_BYTES = 4200
"""Room for RoCE's largest packets, 4096 bytes."""
BOOT_TIMEOUT_S = 120
QEMU = "qemu-system-x86_64"


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

    name: str
    directory: Path
    process: subprocess.Popen[bytes]
    console: Path
    numbers: itertools.count[int] = field(default_factory=itertools.count)

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

    def said(self) -> str:
        return self.console.read_text(errors="replace")[-4000:]

    def _wait_for(self, file: Path, timeout_s: float) -> bool:
        end = time.monotonic() + timeout_s
        while not file.exists():
            if self.process.poll() is not None or time.monotonic() > end:
                return file.exists()
            time.sleep(0.1)
        return True

    def end(self) -> None:
        (self.directory / "end").touch()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(10)
        self.process.kill()
        self.process.wait()


def why_not() -> str | None:
    """What is missing here for guests."""
    if os.uname().machine != "x86_64":
        return "the guests are x86-64 machines"
    if shutil.which(QEMU) is None:
        return f"{QEMU} is not installed (Debian: qemu-system-x86)"
    if not BUSYBOX.exists():
        return f"{BUSYBOX} is not there (Debian: busybox-static)"
    if shutil.which("rdma", path="/usr/bin:/bin:/usr/sbin:/sbin") is None:
        return "rdma is not installed (Debian: iproute2)"
    if not list(Path("/usr/lib").glob("*/libibverbs/librxe*.so")):
        return "the verbs of soft RoCE are not installed (Debian: ibverbs-providers)"
    return None


def boot(boots: Bootable, directory: Path, names: tuple[str, str]) -> list[Guest]:
    """Two guests on one link, both up. `directory` is their share."""
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    addresses = [f"10.9.0.{number}" for number, _ in enumerate(names, start=1)]
    (directory / "hosts").write_text("".join(f"{a} {n}\n" for a, n in zip(addresses, names, strict=True)))
    shutil.copy2(HERE / "agent.sh", directory / "agent.sh")
    guests = [_start(boots, directory, i, name, addresses[i]) for i, name in enumerate(names)]
    try:
        for guest in guests:
            guest.wait_until_up()
    except CannotBootError:
        for guest in guests:
            guest.end()
        raise
    return guests


def _start(boots: Bootable, share: Path, number: int, name: str, address: str) -> Guest:
    own = share / name
    own.mkdir()
    console = share / f"{name}.console"
    here, there = (f"{share}/link-{end}" for end in (number, 1 - number))
    words = (
        f"console=ttyS0 quiet panic=-1 mitigations=off guest.name={name} guest.address={address} guest.share={share}"
    )
    link = f"dgram,id=link,local.type=unix,local.path={here},remote.type=unix,remote.path={there}"
    card = f"virtio-net-pci,netdev=link,mac=52:54:00:09:00:{number + 1:02x},host_mtu={MTU_BYTES}"
    command = [
        QEMU, "-M", "q35", "-accel", "tcg,thread=multi,tb-size=256", "-cpu", "max", "-smp", "2", "-m", str(MEMORY_MIB),
        "-nodefaults", "-no-user-config", "-no-reboot", "-display", "none", "-serial", "stdio",
        "-kernel", str(boots.kernel), "-initrd", str(boots.initrd), "-append", words,
        "-netdev", link, "-device", card,
        *_files("host", Path("/"), read_only=True), *_files("share", share, read_only=False),
    ]  # fmt: skip
    with console.open("wb") as output:
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT)
    return Guest(name, own, process, console)


def _files(tag: str, path: Path, *, read_only: bool) -> list[str]:
    backend = f"local,id={tag},path={path},security_model=none,multidevs=remap"
    if read_only:
        backend += ",readonly=on"
    return ["-fsdev", backend, "-device", f"virtio-9p-pci,fsdev={tag},mount_tag={tag}"]
