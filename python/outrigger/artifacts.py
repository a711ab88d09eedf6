"""Where Outrigger's own files are: the preload libraries, the daemon, the benchmark programs."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from outrigger.errors import UserError
from outrigger.mpis import MPIABI

_PROJECT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Artifacts:
    """A build directory, or an installation prefix of the same shape."""

    root: Path

    @property
    def daemon(self) -> Path:
        """The program of keeper and service processes."""
        return self._existing(self.root / "bin" / "outriggerd")

    def preload(self, family: str) -> Path:
        """The library that goes under programs of an MPI family."""
        path = self.root / "lib" / f"liboutrigger-{family}.so"
        if family == MPIABI and not path.exists():
            raise UserError(
                f"{path} is missing: no MPI with the standard ABI was there when it was built; ./dev mpis installs "
                "one, then ./dev build"
            )
        return self._existing(path)

    @property
    def heap(self) -> Path:
        """The library of the shared heap."""
        path = self.root / "lib" / "liboutrigger-heap.so"
        if not path.exists():
            raise UserError(
                f"{path} is missing: the shared heap needs it (--reach heap), and it is built where jemalloc is "
                "installed (Debian: libjemalloc-dev); then ./dev build"
            )
        return path

    def benchmark(self, family: str, name: str) -> Path:
        """A benchmark program built for an MPI family."""
        return self._existing(self.root / "bench" / family / name)

    @staticmethod
    def _existing(path: Path) -> Path:
        if not path.exists():
            raise UserError(f"{path} is missing; build it with ./dev build, or name another build with --build DIR")
        return path


def find(build: Path | None = None) -> Artifacts:
    """--build, else OUTRIGGER_BUILD, else the release build of the checkout that this package is part of."""
    if build is not None:
        if not build.is_dir():
            raise UserError(f"--build {build}: no such directory")
        return Artifacts(build.resolve())
    if value := os.environ.get("OUTRIGGER_BUILD"):
        if not Path(value).is_dir():
            raise UserError(f"OUTRIGGER_BUILD={value}: no such directory")
        return Artifacts(Path(value).resolve())
    release = _PROJECT / "build" / "release"
    if not release.is_dir():
        raise UserError(f"{release} is missing; run ./dev build, or name a build directory with --build DIR")
    return Artifacts(release)
