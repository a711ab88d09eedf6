"""Finding the MPIs of a machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from outrigger import mpis
from outrigger.mpis import Mpi, find_all_mpis, find_mpis, identify_launcher

Write = Callable[[Mapping[str, str]], None]

OPENMPI = "echo 'mpiexec (Open MPI) 5.0.11'"
HYDRA = "echo 'HYDRA build details:'; echo '    Version:           5.0.2'"
INTEL = "echo 'Intel(R) MPI Library for Linux* OS, Version 2021.18 Build 20260626 (id: b44)'"


@pytest.mark.parametrize(
    ("text", "identity"),
    [
        ("mpirun (Open MPI) 4.1.4\n\nReport bugs to ...", ("openmpi", "4.1.4")),
        ("mpiexec (Open MPI) 5.0.3", ("openmpi", "5.0.3")),
        ("mpirun.openmpi (OpenRTE) 4.1.4\n", ("openmpi", "4.1.4")),
        ("HYDRA build details:\n    Version:                                 4.0.2\n", ("mpich", "4.0.2")),
        ("Intel(R) MPI Library for Linux* OS, Version 2021.18 Build 20260626 (id: b44)\n", ("intel", "2021.18")),
        ("something else", None),
        ("", None),
    ],
)
def test_launchers_are_known_by_their_version(text: str, identity: tuple[str, str] | None) -> None:
    assert identify_launcher(text) == identity


@pytest.fixture
def on_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., None]:
    """Puts these directories of tmp_path, and no others, on PATH; what ldconfig would say is nothing."""

    def put(*names: str) -> None:
        monkeypatch.setenv("PATH", ":".join(str(tmp_path / name / "bin") for name in names) + ":/bin")
        monkeypatch.setattr(mpis, "_known_to_the_system", lambda _family: None)
        monkeypatch.setattr(mpis, "_SPECIFIC", ("mpirun.fake-openmpi", "mpirun.fake-mpich"))
        real = mpis._launchers_in
        ours = {tmp_path / name / "bin" for name in names}
        monkeypatch.setattr(mpis, "_launchers_in", lambda path: real(path) if path in ours else iter(()))

    return put


def library(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    return path


def test_an_mpi_with_two_abis_is_found_by_both(
    on_path: Callable[..., None], write_programs: Write, tmp_path: Path
) -> None:
    write_programs({"a/bin/mpiexec": HYDRA, "a/bin/mpirun": HYDRA})
    own = library(tmp_path / "a/lib/libmpi.so.12")
    standard = library(tmp_path / "a/lib/libmpi_abi.so.1")
    on_path("a")
    launcher = tmp_path / "a/bin/mpiexec"
    assert find_all_mpis() == [
        Mpi("mpich", "5.0.2", launcher, own),
        Mpi("mpiabi", "5.0.2", launcher, standard, "mpich"),
    ]
    assert [mpi.title for mpi in find_all_mpis()] == ["MPICH 5.0.2", "MPICH 5.0.2 (standard ABI)"]
    assert mpis.at(tmp_path / "a") == mpis.at(launcher) == find_all_mpis()


def test_several_of_a_kind_are_kept_apart(on_path: Callable[..., None], write_programs: Write, tmp_path: Path) -> None:
    """In the order of PATH: the first is the one that mpiexec starts."""
    write_programs({"a/bin/mpiexec": INTEL, "b/bin/mpiexec": HYDRA, "c/bin/mpiexec": OPENMPI})
    library(tmp_path / "a/lib/release/libmpi.so.12")
    on_path("a", "b", "c")
    assert [(mpi.implementation, mpi.family) for mpi in find_all_mpis()] == [
        ("intel", "mpich"), ("mpich", "mpich"), ("openmpi", "openmpi"),
    ]  # fmt: skip
    assert find_all_mpis()[0].library == tmp_path / "a/lib/release/libmpi.so.12"
    on_path("c", "a", "b")
    assert find_all_mpis()[0].implementation == "openmpi"
    assert [mpi.launcher for mpi in find_mpis()] == [tmp_path / "c/bin/mpiexec", tmp_path / "b/bin/mpiexec"]


def test_other_names_of_a_launcher_are_not_another_mpi(
    on_path: Callable[..., None], write_programs: Write, tmp_path: Path
) -> None:
    write_programs({"a/bin/mpirun.fake-openmpi": OPENMPI, "a/bin/mpirun.fake-mpich": HYDRA, "a/bin/other": "true"})
    (tmp_path / "a/bin/mpiexec").symlink_to("mpirun.fake-mpich")
    on_path("a")
    assert [mpi.launcher.name for mpi in find_all_mpis()] == ["mpirun.fake-mpich", "mpirun.fake-openmpi"]
    assert mpis.at(tmp_path / "a/bin/other") == []
    assert mpis.at(tmp_path) == []


def test_a_library_that_the_loaders_cache_does_not_name_is_found_below_the_prefix(tmp_path: Path) -> None:
    mpi = Mpi("openmpi", "4.1.4", tmp_path / "usr/bin/mpiexec", None)
    library(tmp_path / "usr/lib/aarch64-linux-gnu/libmpi.so.12")  # another ABI's
    assert mpis.unknown_to_the_loader(mpi) is None
    there = library(tmp_path / "usr/lib/aarch64-linux-gnu/libmpi.so.40")
    assert mpis.unknown_to_the_loader(mpi) == there
