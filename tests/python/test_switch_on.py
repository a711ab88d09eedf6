"""`outrigger env`: what shells and launchers make of it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from outrigger import shells
from outrigger.artifacts import Artifacts
from outrigger.errors import UserError
from outrigger.mpis import INTEL, Mpi
from outrigger.switch_on import PRELOAD, launcher_options, lines, switched_on

LIBRARY = Path("/opt/outrigger/lib/liboutrigger-mpich.so")
ODD = "/tmp/it's $HOME/`x`\\!"


@pytest.mark.parametrize("name", shells.NAMES)
def test_a_shell_reads_what_was_meant(name: str) -> None:
    if shutil.which(name) is None:
        pytest.skip(f"no {name}")
    shell = shells.choose(name)
    script = f"{shell.export('OUTRIGGER_TEST_A', ODD)} printenv OUTRIGGER_TEST_A; {shell.unset('OUTRIGGER_TEST_A')} env"
    done = subprocess.run([name, "-c", script], capture_output=True, text=True, timeout=20, check=True)
    shown, *rest = done.stdout.splitlines()
    assert shown == ODD
    assert not any("OUTRIGGER_TEST_A" in line for line in rest)


def test_csh_and_fish_have_words_of_their_own() -> None:
    """Also where they are not installed."""
    assert shells.choose("tcsh").export("A", "it's") == "setenv A 'it'\\''s';"
    assert shells.choose("fish").export("A", "it's") == "set -gx A 'it\\'s';"
    with pytest.raises(UserError, match="--shell pwsh: there are bash, fish, csh"):
        shells.choose("pwsh")


@pytest.mark.parametrize(
    ("present", "now"),
    [
        ("", str(LIBRARY)),
        ("libtool.so /lib/b.so", f"{LIBRARY}:libtool.so:/lib/b.so"),
        (f"/old/liboutrigger-openmpi.so:{LIBRARY}:/lib/b.so", f"{LIBRARY}:/lib/b.so"),
    ],
)
def test_the_library_is_there_once_and_first(present: str, now: str) -> None:
    assert switched_on(LIBRARY, {PRELOAD: present}) == now


def test_a_place_that_cannot_be_preloaded() -> None:
    with pytest.raises(UserError, match="no path with a space"):
        switched_on(Path("/my tools/liboutrigger-mpich.so"), {})


def test_nothing_left_is_unset() -> None:
    assert lines(shells.choose("sh"), "") == ["unset LD_PRELOAD;"]


@pytest.mark.parametrize(
    ("launcher", "family", "vendor", "words"),
    [
        ("mpiexec", "openmpi", "", ["-x", "LD_PRELOAD=L"]),
        ("mpiexec", "mpich", "", ["-genv", "LD_PRELOAD", "L"]),
        ("mpiexec", "mpich", INTEL, ["-genv", "LD_PRELOAD", "L"]),
        ("srun", "openmpi", "", ["--export=ALL,LD_PRELOAD=L"]),
    ],
)
def test_each_launcher_has_its_option(launcher: str, family: str, vendor: str, words: list[str]) -> None:
    assert launcher_options(launcher, Mpi(family, "1", Path("mpiexec"), None, vendor), "L") == words


def test_eval_switches_on_and_off(built: Artifacts, tmp_path: Path) -> None:
    """In a real shell, with a launcher that says it is Open MPI's; nothing else is printed."""
    mpiexec = tmp_path / "mpiexec"
    mpiexec.write_text("#!/bin/sh\necho 'mpiexec (Open MPI) 5.0.11'\n", encoding="utf-8")
    mpiexec.chmod(0o755)
    outrigger = f"{sys.executable} -m outrigger env --build {built.root}"
    script = (
        f'eval "$({outrigger})"; echo "on $LD_PRELOAD"; eval "$({outrigger} --off)"; echo "off ${{LD_PRELOAD-unset}}"'
    )
    environment = {**os.environ, "PATH": f"{tmp_path}:/usr/bin:/bin"}
    environment.pop(PRELOAD, None)
    done = subprocess.run(
        ["bash", "-c", script], env=environment, capture_output=True, text=True, timeout=60, check=True
    )
    assert done.stdout.splitlines() == [f"on {built.root}/lib/liboutrigger-openmpi.so", "off unset"], done
    assert done.stderr == ""
