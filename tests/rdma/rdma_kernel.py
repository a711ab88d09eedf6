"""What a guest boots: Debian's generic kernel, and a first file system with the modules that it needs.

The kernel is fetched by `apt-get download` and unpacked; nothing is installed.
"""

from __future__ import annotations

import lzma
import re
import shutil
import stat
import struct
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).parent
BUSYBOX = Path("/bin/busybox")
# crc32_generic is asked for by name at run time, so that rdma_rxe does not list it.
MODULES = (
    "virtio_pci", "virtio_net", "9pnet_virtio", "9p", "overlay", "crc32_generic", "rdma_rxe", "ib_uverbs", "rdma_ucm",
)  # fmt: skip
DIRECTORIES = ("bin", "dev", "host", "memory", "modules", "proc", "root", "sys")


class CannotBootError(Exception):
    """Why there can be no guest here."""


@dataclass(frozen=True)
class Bootable:
    """Files for qemu."""

    kernel: Path
    initrd: Path


def prepare(directory: Path) -> Bootable:
    """Makes what a guest boots in `directory`; what is there already is kept."""
    result = Bootable(directory / "vmlinux", directory / "initrd")
    if not result.kernel.exists():
        directory.mkdir(parents=True, exist_ok=True)
        image = next(_unpacked(directory).glob("boot/vmlinuz-*"))
        result.kernel.write_bytes(elf_of(image.read_bytes()))
    modules = _in_order(directory / "package", MODULES)
    result.initrd.write_bytes(_archive(modules))
    return result


def _unpacked(directory: Path) -> Path:
    """Debian's newest generic kernel. The flavour for clouds has no soft RoCE."""
    unpacked = directory / "package"
    depends = _output(["apt-cache", "depends", "linux-image-amd64"])
    names = re.findall(r"Depends: (linux-image-\S+)", depends)
    if not names:
        raise CannotBootError("apt knows no linux-image-amd64; run: apt-get update")
    shutil.rmtree(unpacked, ignore_errors=True)
    _output(["apt-get", "download", "-q", "-o", "APT::Sandbox::User=root", names[0]], directory)
    package = max(directory.glob("linux-image-*.deb"), key=lambda path: path.stat().st_mtime)
    _output(["dpkg-deb", "-x", str(package), str(unpacked)])
    package.unlink()
    return unpacked


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
    """The modules by name, each after those that it needs. What the kernel has built in is left out."""
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


def _archive(modules: dict[str, bytes]) -> bytes:
    """The first file system, in cpio's "newc" form."""
    executable = stat.S_IFREG | 0o755
    parts = [_entry(name, stat.S_IFDIR | 0o755, b"") for name in DIRECTORIES]
    parts.append(_entry("init", executable, (HERE / "init").read_bytes()))
    parts.append(_entry("bin/busybox", executable, BUSYBOX.read_bytes()))
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
