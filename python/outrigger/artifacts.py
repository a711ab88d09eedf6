"""Places of Outrigger's own files: the preload libraries, the daemon, the benchmark programs."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from outrigger import formats
from outrigger.errors import UserError
from outrigger.mpis import MPIABI

_PACKAGE = Path(__file__).resolve().parent
_PROJECT = _PACKAGE.parents[1]
# Place of the layout file: in an installation with this package in share/outrigger/python, and in a wheel.
_LAYOUT = Path("share", "outrigger", "layout.json")
_OWN_LAYOUTS = (_PACKAGE.parents[1] / "layout.json", _PACKAGE / "installed" / _LAYOUT)
_SEPARATORS = " :"  # in LD_PRELOAD, which has no quoting: ld.so(8)


@dataclass(frozen=True)
class Layout:
    """The directories of an installation, each relative to the layout's: the tree is relocatable."""

    prefix: str
    programs: str
    libraries: str
    private: str
    """Programs that users do not call directly: benchmarks and examples."""
    scripts: str
    """Examples in Python."""


@dataclass(frozen=True)
class Artifacts:
    """A build directory, or an installation."""

    root: Path
    """The value of --build."""
    layout: Layout | None = None
    """None: a build directory."""
    place: Path = Path()
    """Base directory of the layout."""

    def _directory(self, installed: Callable[[Layout], str], built: Path) -> Path:
        return built if self.layout is None else Path(os.path.normpath(self.place / installed(self.layout)))

    @property
    def programs(self) -> Path:
        """Directory of outriggerd."""
        return self._directory(lambda layout: layout.programs, self.root / "bin")

    @property
    def libraries(self) -> Path:
        """Directory of the preload libraries."""
        return self._directory(lambda layout: layout.libraries, self.root / "lib")

    @property
    def daemon(self) -> Path:
        """The program of keeper and service processes."""
        return self._existing(self.programs / "outriggerd")

    def preload(self, family: str) -> Path:
        """The preload library for programs of an MPI family."""
        path = self.libraries / f"liboutrigger-{family}.so"
        if set(str(path)) & set(_SEPARATORS):
            raise UserError(f"{path} cannot be preloaded: its path has a space or a colon; move the tree elsewhere")
        if family == MPIABI and self.layout is None and not path.exists():
            raise UserError(
                f"{path} is missing: there was no MPI with the standard ABI at build time; ./dev mpis installs "
                "one, then ./dev build"
            )
        return self._existing(path)

    @property
    def heap(self) -> Path:
        """The library of the shared heap."""
        path = self.libraries / "liboutrigger-heap.so"
        if self.layout is None and not path.exists():
            raise UserError(
                f"{path} is missing: the shared heap needs it (--shared-heap on), and it is built where jemalloc is "
                "installed (Debian: libjemalloc-dev); then ./dev build"
            )
        return self._existing(path)

    def benchmark(self, family: str, name: str) -> Path:
        """A benchmark program built for an MPI family."""
        return self._existing(self._private / "bench" / family / name)

    @property
    def vendor(self) -> Path:
        """Python packages only for this command line; may be missing."""
        return self._private / "vendor"

    def example(self, family: str, name: str) -> Path:
        """An example program built for an MPI family; may be missing."""
        return self._private / "examples" / family / name

    @property
    def _private(self) -> Path:
        return self._directory(lambda layout: layout.private, self.root)

    def script(self, name: str) -> Path:
        """An example in Python; may be missing."""
        return self._directory(lambda layout: layout.scripts, _PROJECT / "examples") / name

    def missing(self, path: Path) -> UserError:
        """An error for a missing file, with the remedy."""
        if self.layout is None:
            return UserError(f"{path} is missing; build it with ./dev build, or name another build with --build DIR")
        return UserError(
            f"{path} is missing: this installation was made without it. Build and install Outrigger where what it "
            "needs is there (see docs/site/install.md), or name another installation with --build DIR"
        )

    def _existing(self, path: Path) -> Path:
        if not path.exists():
            raise self.missing(path)
        return path


def find_installed(file: Path) -> Artifacts:
    """An installation, by the file with its layout."""
    layout = formats.parse(file.read_text(encoding="utf-8"), Layout, f"{file},")
    return Artifacts(Path(os.path.normpath(file.parent / layout.prefix)), layout, file.parent)


def _at(directory: Path) -> Artifacts:
    """A build directory, or the prefix of an installation."""
    file = directory.resolve() / _LAYOUT
    return find_installed(file) if file.is_file() else Artifacts(directory.resolve())


def own_layout() -> Path | None:
    """Layout of the installation that has this package; None in a checkout."""
    return next((file for file in _OWN_LAYOUTS if file.is_file()), None)


def find(build: Path | None = None) -> Artifacts:
    """--build, else OUTRIGGER_BUILD, else the installation or checkout of this package."""
    if build is not None:
        if not build.is_dir():
            raise UserError(f"--build {build}: no such directory")
        return _at(build)
    if value := os.environ.get("OUTRIGGER_BUILD"):
        if not Path(value).is_dir():
            raise UserError(f"OUTRIGGER_BUILD={value}: no such directory")
        return _at(Path(value))
    if (file := own_layout()) is not None:
        return find_installed(file)
    release = _PROJECT / "build" / "release"
    if not release.is_dir():
        raise UserError(f"{release} is missing; run ./dev build, or name a build directory with --build DIR")
    return Artifacts(release)
