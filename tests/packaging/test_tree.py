"""Tests of a tree made by `cmake --install`, after it has been moved."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from conftest import BUILD, PATIENCE, ROOT, Tree, clean_environment, succeed

_MODULECMD = next(Path("/usr/lib").glob("*/modulecmd.tcl"), None)
_LMOD = Path("/usr/share/lmod/lmod/libexec/lmod")
_LOOKS = "command -v outrigger; man -w outrigger-run; pkg-config --modversion outrigger"
_SMALL = ("--sizes", "65536", "--seconds", "1")


def _elf_files(tree: Tree) -> Iterator[Path]:
    for path in sorted(tree.prefix.rglob("*")):
        if path.is_file() and not path.is_symlink():
            with path.open("rb") as file:
                if file.read(4) == b"\x7fELF":
                    yield path


def _offloaded(report: Path) -> int:
    calls = json.loads(report.read_text())["collectives"]
    return sum(call["offloaded"] for call in calls)


@pytest.mark.parametrize("mpi", ["openmpi", "mpich"])
def test_a_job_runs_from_the_moved_tree(tree: Tree, tmp_path: Path, mpi: str) -> None:
    program = tree.prefix / "lib/outrigger/bench" / mpi / "alltoall_bench"
    tree.outrigger(
        "run", "-n", "2", "--algorithm", "on", "--report-to", tmp_path / "report.json", "--", program, *_SMALL
    )  # fmt: skip
    assert _offloaded(tmp_path / "report.json") > 0


@pytest.mark.parametrize("mpi", ["openmpi", "mpich"])
def test_the_library_needs_no_launcher_of_ours(tree: Tree, tmp_path: Path, mpi: str) -> None:
    library = tree.prefix / f"lib/liboutrigger-{mpi}.so"
    program = tree.prefix / "lib/outrigger/bench" / mpi / "alltoall_bench"
    report = tmp_path / "report.json"
    settings = {"LD_PRELOAD": library, "OUTRIGGER_REPORT": report, "OUTRIGGER_ALGORITHM": "on"}
    if mpi == "openmpi":
        options = [word for name, value in settings.items() for word in ("-x", f"{name}={value}")]
        launcher = ["mpirun.openmpi", "--allow-run-as-root", "--oversubscribe", "--bind-to", "none", *options]
    else:
        options = [word for name, value in settings.items() for word in ("-genv", name, str(value))]
        launcher = ["mpirun.mpich", *options]
    succeed([*launcher, "-n", "2", program, *_SMALL])
    assert _offloaded(report) > 0


def test_everything_is_found_in_the_tree(tree: Tree) -> None:
    found = json.loads(tree.outrigger("info", "--json"))
    paths = [found["daemon"]["path"], *(mpi["preload"] for mpi in found["mpis"] if mpi["preload"])]
    assert len(paths) >= 3
    assert all(Path(path).is_relative_to(tree.prefix) for path in paths)


def test_no_place_of_a_build_is_left_in_it(tree: Tree) -> None:
    own = (str(ROOT).encode(), str(BUILD).encode(), str(tree.prefix.parent / "first").encode())
    text = [path for path in tree.prefix.rglob("*") if path.is_file() and path != tree.unit]
    assert [path for path in text if any(place in path.read_bytes() for place in own)] == []


def test_the_unit_has_the_prefix(tree: Tree) -> None:
    """As systemd wants whole paths, it does not follow the tree to another place."""
    first = tree.prefix.parent / "first"
    assert f"\nExecStart={first}/bin/outriggerd dpu\n" in tree.unit.read_text()


def test_clusters_and_dashboards_are_in_the_tree(tree: Tree) -> None:
    share = tree.prefix / "share/outrigger"
    for directory in ("clusters", "packaging/monitoring"):
        brought = {path.name for path in (share / Path(directory).name).iterdir()}
        assert brought == {path.name for path in (ROOT / directory).iterdir()}


def test_the_command_line_needs_no_pip(tree: Tree, tmp_path: Path) -> None:
    """A Python that has nothing but its own modules, as on a cluster without a network."""
    vendor = tree.prefix / "lib/outrigger/vendor"
    try:
        succeed([sys.executable, ROOT / "packaging/vendor.py", "--out", vendor], timeout_s=600)  # pip fetches them
        base = Path(sys.base_prefix) / "bin" / f"python3.{sys.version_info.minor}"
        succeed([base, "-m", "venv", "--without-pip", tmp_path / "bare"])
        bare = tmp_path / "bare/bin/python"
        for words in (
            ["info", "--json"],
            ["lab", "cluster", "up", "--help"],
            ["watch", "--help"],
            ["exporter", "--help"],
        ):
            assert succeed([bare, tree.prefix / "bin/outrigger", *words])
        modules = succeed([bare, "-c", "import pkgutil; print(*(found.name for found in pkgutil.iter_modules()))"])
        assert not {"typer", "msgspec", "aiohttp"} & set(modules.split())
    finally:
        shutil.rmtree(vendor, ignore_errors=True)  # other tests have a tree as the build installs it


def test_libraries_are_looked_for_in_the_tree_and_in_the_system(tree: Tree) -> None:
    binaries = list(_elf_files(tree))
    assert len(binaries) > 5
    for path in binaries:
        said = succeed(["readelf", "-d", path])
        for places in re.findall(r"\((?:RPATH|RUNPATH)\).*\[(.*)\]", said):
            assert all(place.startswith("$ORIGIN") for place in filter(None, places.split(":"))), path


def test_manual_pages_are_shown_without_a_warning(tree: Tree) -> None:
    pages = sorted((tree.prefix / "share/man").rglob("*.[18]"))
    names = {page.stem for page in pages}
    assert {"outrigger", "outrigger-run", "outrigger-lab-cluster-up", "outrigger-bench-fft3d", "outriggerd"} <= names
    done = subprocess.run(
        ["groff", "-man", "-Kutf8", "-Tutf8", "-ww", "-z", *pages], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


_COMPLETE = """
source "$1/share/bash-completion/completions/outrigger"; shift
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _outrigger 2>/dev/null; printf '%s\\n' "${COMPREPLY[@]}"
"""


@pytest.mark.parametrize(
    ("typed", "offered"),
    [
        (["r"], {"run", "report"}),
        (["lab", "re"], {"replay"}),
        (["run", "--hostf"], {"--hostfile"}),
        (["run", "--blocking", ""], {"on", "off", "auto"}),
        (["bench", "fft"], {"fft3d"}),
        (["bench", "fft3d", "--gri"], {"--grid"}),
        (["lab", "cluster", "u"], {"up"}),
        (["run", "--hostfile", "/etc/hostna"], {"/etc/hostname"}),
    ],
)
def test_bash_completes(tree: Tree, typed: list[str], offered: set[str]) -> None:
    said = succeed(["bash", "-c", _COMPLETE, "bash", tree.prefix, "outrigger", *typed])
    assert set(said.split()) == offered


def test_zsh_and_fish_can_read_theirs(tree: Tree) -> None:
    if shutil.which("zsh"):
        succeed(["zsh", "-n", tree.prefix / "share/zsh/site-functions/_outrigger"])
    if shutil.which("fish"):
        place = tree.prefix / "share/fish/vendor_completions.d/outrigger.fish"
        said = succeed(["fish", "-c", f"source {place}; complete -C 'outrigger bench ff'"])
        assert said.startswith("fft3d")
    if not shutil.which("zsh") and not shutil.which("fish"):
        pytest.skip("neither zsh nor fish is installed")


@pytest.mark.skipif(_MODULECMD is None, reason="environment-modules is not installed")
def test_the_module_file_is_loaded_by_environment_modules(tree: Tree) -> None:
    environment = {**clean_environment(), "MODULEPATH": str(tree.prefix / "share/modulefiles")}
    said = succeed([str(_MODULECMD), "bash", "load", "outrigger"], environment)
    shown = succeed(["bash", "-c", f"{said}\n{_LOOKS}"])
    assert shown.split() == [
        str(tree.prefix / "bin/outrigger"), str(tree.prefix / "share/man/man1/outrigger-run.1"), "0.1.0",
    ]  # fmt: skip


@pytest.mark.skipif(not _LMOD.exists(), reason="Lmod is not installed")
def test_the_module_file_is_loaded_by_lmod(tree: Tree) -> None:
    environment = {**clean_environment(), "MODULEPATH": str(tree.prefix / "share/lmod")}
    said = succeed([_LMOD, "bash", "load", "outrigger"], environment)
    assert succeed(["bash", "-c", f"{said}\ncommand -v outrigger"]).strip() == str(tree.prefix / "bin/outrigger")


def test_pkg_config_and_cmake_find_the_tree(tree: Tree, tmp_path: Path) -> None:
    found = {**clean_environment(), "PKG_CONFIG_PATH": str(tree.prefix / "lib/pkgconfig")}
    library = succeed(["pkg-config", "--variable=preload_openmpi", "outrigger"], found).strip()
    assert Path(library).resolve() == tree.prefix / "lib/liboutrigger-openmpi.so"
    (tmp_path / "CMakeLists.txt").write_text(
        "cmake_minimum_required(VERSION 3.25)\nproject(x C)\nfind_package(outrigger 0.1 REQUIRED)\n"
        'message("FOUND ${outrigger_DAEMON};${outrigger_PRELOAD_MPICH}")\n'
        "add_executable(program program.c)\ntarget_link_libraries(program outrigger::outrigger)\n"
    )
    (tmp_path / "program.c").write_text("#include <outrigger/outrigger.h>\nint main(void) { return 0; }\n")
    done = subprocess.run(
        ["cmake", "-S", tmp_path, "-B", tmp_path / "build", f"-DCMAKE_PREFIX_PATH={tree.prefix}"],
        capture_output=True, text=True, check=True, timeout=60 * PATIENCE,
    )  # fmt: skip
    assert f"FOUND {tree.prefix}/bin/outriggerd;{tree.prefix}/lib/liboutrigger-mpich.so" in done.stderr
    succeed(["cmake", "--build", tmp_path / "build"])
    succeed([tmp_path / "build" / "program"])


def test_a_missing_package_is_named_with_what_installs_it(tree: Tree) -> None:
    done = subprocess.run(
        [sys.executable, "-S", tree.prefix / "bin/outrigger", "info"], capture_output=True, text=True, check=False,
        env=clean_environment(),
    )  # fmt: skip
    assert done.returncode == 2
    assert "the Python package 'typer' is missing" in done.stderr
    places = (tree.prefix / "lib/outrigger/vendor", tree.prefix / "share/outrigger/requirements.txt")
    assert "--target {} -r {}".format(*places) in done.stderr


_AS_OLD = """
import runpy, sys
sys.version_info = (3, 6, 8)
del sys.argv[0]
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def test_a_python_that_is_too_old_leads_to_a_message(tree: Tree, tmp_path: Path) -> None:
    environment = {**clean_environment(), "PATH": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", _AS_OLD, tree.prefix / "bin/outrigger"], capture_output=True, text=True, check=False,
        env=environment,
    )  # fmt: skip
    assert done.returncode == 2
    assert "Python 3.11 or later is needed, this is 3.6" in done.stderr
    newer = tmp_path / "python3.12"
    newer.write_text("#!/bin/sh\necho started $1 $2\n")
    newer.chmod(0o755)
    said = succeed([sys.executable, "-c", _AS_OLD, tree.prefix / "bin/outrigger"], environment)
    assert said == f"started {tree.prefix}/bin/outrigger\n"
