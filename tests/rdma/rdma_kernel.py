"""Makes the kernel and files that a guest boots from: Debian's generic kernel, an initial file system with its modules,
and a layer of files over the host's.

Packages are fetched by `apt-get download` and unpacked; nothing is installed.
"""

from __future__ import annotations

import lzma
import re
import shutil
import stat
import struct
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
# crc32_generic is asked for by name at run time, so that rdma_rxe does not list it.
MODULES = (
    "virtio_pci", "virtio_net", "9pnet_virtio", "9p", "overlay", "crc32_generic", "rdma_rxe", "ib_uverbs", "rdma_ucm",
)  # fmt: skip
DIRECTORIES = ("bin", "dev", "host", "layer", "memory", "modules", "proc", "root", "sys")
_UCX_TOOLS = ("ucx-utils", "libgomp1")
_SSH_SERVER = ("dropbear-bin", "libtomcrypt1", "libtommath1", "libgmp10")
_RDMA_COMMAND = (
    "iproute2", "libbpf1", "libbsd0", "libmd0", "libcap2", "libdb5.3", "libelf1", "libmnl0", "libselinux1",
    "libpcre2-8-0", "zlib1g",
)  # fmt: skip


@dataclass(frozen=True)
class Architecture:
    """A kind of machine, as qemu, Debian and its packages name it."""

    machine: str
    debian: str
    packages: tuple[str, ...]
    """Packages of the layer over the host's files. They are complete if the guest has another architecture."""

    @property
    def qemu(self) -> str:
        return f"qemu-system-{self.machine}"


X86_64 = Architecture("x86_64", "amd64", ("busybox-static", *_SSH_SERVER, *_UCX_TOOLS))
AARCH64 = Architecture(
    "aarch64", "arm64", ("busybox-static", "bash", "libtinfo6", *_RDMA_COMMAND, *_SSH_SERVER, *_UCX_TOOLS)
)


class CannotBootError(Exception):
    """Why there can be no guest here."""


@dataclass(frozen=True)
class Bootable:
    """Files for qemu."""

    architecture: Architecture
    kernel: Path
    initrd: Path
    layer: Path


def prepare(directory: Path, architecture: Architecture) -> Bootable:
    """Makes what a guest boots in `directory`; what is there already is kept."""
    place = directory / architecture.machine
    result = Bootable(architecture, place / "kernel", place / "initrd", place / "layer")
    package = place / "package"
    if not result.kernel.exists():
        shutil.rmtree(place, ignore_errors=True)
        place.mkdir(parents=True)
        _unpack([_kernel_package(architecture)], architecture, package)
        image = next(package.glob("boot/vmlinuz-*")).read_bytes()
        result.kernel.write_bytes(elf_of(image) if architecture is X86_64 else image)
    if not result.layer.exists():
        new = place / "layer.new"
        _unpack(architecture.packages, architecture, new)
        _merge_usr(new)
        if architecture is not X86_64:
            _add_applets(new / "usr/bin")
        new.rename(result.layer)
    busybox = (result.layer / "usr/bin/busybox").read_bytes()
    initrd = _archive(_in_order(package, MODULES), busybox)
    if not result.initrd.exists() or result.initrd.read_bytes() != initrd:
        new = place / "initrd.new"
        new.write_bytes(initrd)
        new.rename(result.initrd)  # a guest that is starting may be reading the old one
    return result


def _kernel_package(architecture: Architecture) -> str:
    """Debian's newest generic kernel. The flavour for clouds has no soft RoCE."""
    package = f"linux-image-{architecture.debian}:{architecture.debian}"
    names = re.findall(r"Depends: (linux-image-[^\s:]+)", _output(["apt-cache", "depends", package]))
    if not names:
        raise CannotBootError(f"apt knows no {package}; run: apt-get update")
    return names[0]


def _unpack(packages: Sequence[str], architecture: Architecture, directory: Path) -> None:
    fetched = directory.with_suffix(".fetched")
    for old in (directory, fetched):
        shutil.rmtree(old, ignore_errors=True)
    fetched.mkdir(parents=True)
    names = [f"{name}:{architecture.debian}" for name in packages]
    _output(["apt-get", "download", "-q", "-o", "APT::Sandbox::User=root", *names], fetched)
    for package in fetched.glob("*.deb"):
        _output(["dpkg-deb", "-x", str(package), str(directory)])
    shutil.rmtree(fetched)


def _merge_usr(directory: Path) -> None:
    """Moves /bin, /sbin and /lib below /usr: put over the host's files they would hide its links of these names."""
    for name in ("bin", "sbin", "lib"):
        if (directory / name).is_dir():
            shutil.copytree(directory / name, directory / "usr" / name, symlinks=True, dirs_exist_ok=True)
            shutil.rmtree(directory / name)


def _add_applets(directory: Path) -> None:
    """The usual commands, by busybox, where the host's are for another machine."""
    for applet in _output(["busybox", "--list"]).split():
        if not (directory / applet).exists():
            (directory / applet).symlink_to("/usr/bin/busybox")


def _output(command: list[str], directory: Path | None = None) -> str:
    if shutil.which(command[0]) is None:
        raise CannotBootError(f"{command[0]} is not installed: guests boot Debian's kernel")
    result = subprocess.run(command, cwd=directory, capture_output=True, text=True, check=False, timeout=300)
    if result.returncode != 0:
        raise CannotBootError(f"{' '.join(command)}: {result.stderr.strip()}")
    return result.stdout


def elf_of(image: bytes) -> bytes:
    """The kernel inside a bzImage: qemu starts it as it is, and the guest need not decompress it."""
    setup_sectors = image[0x1F1]
    offset, length = struct.unpack_from("<II", image, 0x248)
    begin = (setup_sectors + 1) * 512 + offset
    payload = image[begin : begin + length]
    if not payload.startswith(b"\xfd7zXZ"):
        raise CannotBootError("the kernel is not compressed by xz")
    return lzma.LZMADecompressor().decompress(payload)


def _in_order(package: Path, wanted: Iterable[str]) -> dict[str, bytes]:
    """The modules by name, each after those that it needs, without those that are built into the kernel."""
    files = {path.name.split(".")[0].replace("-", "_"): path for path in package.glob("lib/modules/*/kernel/**/*.ko*")}
    builtin = next(package.glob("lib/modules/*/modules.builtin")).read_text()
    built_in = {Path(line).name.split(".")[0].replace("-", "_") for line in builtin.splitlines()}
    loaded: dict[str, bytes] = {}

    def add(name: str) -> None:
        if name in loaded or name in built_in:
            return
        if name not in files:
            raise CannotBootError(f"the kernel has no module {name}")
        content = files[name].read_bytes()
        if files[name].suffix == ".xz":
            content = lzma.decompress(content)
        found = re.search(rb"\0depends=([^\0]*)\0", content)
        for needed in filter(None, found[1].decode().split(",") if found else []):
            add(needed.replace("-", "_"))
        loaded[name] = content

    for name in wanted:
        add(name)
    return loaded


def _archive(modules: dict[str, bytes], busybox: bytes) -> bytes:
    """The first file system, in cpio's "newc" form."""
    executable = stat.S_IFREG | 0o755
    parts = [_entry(name, stat.S_IFDIR | 0o755, b"") for name in DIRECTORIES]
    parts.append(_entry("init", executable, (HERE / "init").read_bytes()))
    parts.append(_entry("bin/busybox", executable, busybox))
    for number, (name, content) in enumerate(modules.items()):
        parts.append(_entry(f"modules/{number:02}-{name}.ko", executable, content))
    parts.append(_entry("TRAILER!!!", 0, b""))
    return b"".join(parts)


def _entry(name: str, mode: int, content: bytes) -> bytes:
    path = name.encode() + b"\0"
    fields = (0, mode, 0, 0, 1, 0, len(content), 0, 0, 0, 0, len(path), 0)
    head = b"070701" + b"".join(b"%08X" % value for value in fields) + path
    return _padded(head) + _padded(content)


def _padded(data: bytes) -> bytes:
    return data + bytes(-len(data) % 4)
