"""The wheel of `./dev package wheel --arch aarch64`: its files."""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path

import pytest
from conftest import ROOT, succeed

pytestmark = pytest.mark.slow

_WHEELS = sorted((ROOT / "build" / "package" / "aarch64").glob("outrigger-*.whl"))
_PAGE_BYTES = 65536  # the largest that 64-bit Arm has


@pytest.fixture(scope="module")
def wheel() -> Path:
    if not _WHEELS:
        pytest.skip("there is no wheel: ./dev package wheel --arch aarch64")
    return _WHEELS[-1]


def test_every_program_in_it_is_for_64_bit_arm(wheel: Path, tmp_path: Path) -> None:
    assert wheel.name.endswith("-py3-none-manylinux_2_36_aarch64.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(tmp_path)
    programs = [path for path in tmp_path.rglob("*") if path.is_file() and path.open("rb").read(4) == b"\x7fELF"]
    names = {path.name.split("-")[0] for path in programs}
    assert names >= {"outriggerd", "liboutrigger", "libucp.so.0", "libuct_ib.so.0", "libcrypto", "orbench"}
    for program in programs:
        headers = succeed(["readelf", "--file-header", "--segments", "--wide", program])
        assert "AArch64" in headers
        loaded = [line.split()[-1] for line in headers.splitlines() if line.split()[:1] == ["LOAD"]]
        assert min(int(alignment, 16) for alignment in loaded) >= _PAGE_BYTES, f"{program}: {loaded}"


def test_symbols_are_those_of_the_linux_that_its_name_says(wheel: Path) -> None:
    shown = " ".join(succeed([sys.executable, "-m", "auditwheel", "show", wheel]).split())
    assert 'constrains the platform tag to "manylinux_2_36_aarch64"' in shown
