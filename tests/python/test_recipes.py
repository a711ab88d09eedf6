"""The recipes of packages name what the project itself names: versions, Python packages, libraries to build with."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable
from pathlib import Path

import outrigger

ROOT = Path(__file__).resolve().parents[2]
SPACK = "packaging/spack/repo/packages/outrigger/package.py"

Needs = dict[str, str]  # by name, the least version; empty: any

# CMake's packages and their names in Debian, Fedora and Spack. None: the recipe does not use the package.
CALLED: dict[str, tuple[str | None, str | None, str | None]] = {
    "cmake": ("cmake", "cmake", "cmake"),
    "CLI11": ("libcli11-dev", "cli11-devel", "cli11"),
    "OpenSSL": ("libssl-dev", "openssl-devel", "openssl"),
    "PkgConfig": ("pkg-config", "pkgconf-pkg-config", "pkgconfig"),
    "Python": ("python3", "python3-devel", "python"),
    "fftw3": ("libfftw3-dev", "fftw-devel", "fftw"),
    "fmt": ("libfmt-dev", "fmt-devel", "fmt"),
    "hwloc": ("libhwloc-dev", "hwloc-devel", "hwloc"),
    "jemalloc/jemalloc.h": ("libjemalloc-dev", None, "jemalloc"),  # Fedora has no jemalloc to link into a library
    "nlohmann_json": ("nlohmann-json3-dev", "json-devel", "nlohmann-json"),
    "slurm/spank.h": (None, None, None),  # packages have no plugin: it is for one version of Slurm
    "spdlog": ("libspdlog-dev", "spdlog-devel", "spdlog"),
    "ucx": ("libucx-dev", "ucx-devel", "ucx"),
}
OF_THE_BUILD = {"Threads", "GTest", "Python3"}  # of the compiler, and of tests
# Further requirements of the recipes: MPIs, compilers and packaging tools.
BESIDES = (
    {"debhelper-compat", "dh-python", "libmpich-dev", "libopenmpi-dev", "ninja-build"},
    {"gcc", "gcc-c++", "mpich-devel", "ninja-build", "openmpi-devel", "systemd-rpm-macros"},
    {"c", "cxx", "mpi", "ninja"},
)


def _text(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


def _requirements(lines: Iterable[str]) -> Needs:
    """The requirements in lines of the form `name>=version`."""
    split = (re.fullmatch(r"([\w-]+)(?:>=([\d.]+))?", line) for line in lines)
    return {found[1]: found[2] or "" for found in split if found}


def _project() -> dict[str, object]:
    project = tomllib.loads(_text("pyproject.toml"))["project"]
    assert isinstance(project, dict)
    return project


def _python_packages() -> Needs:
    dependencies = _project()["dependencies"]
    assert isinstance(dependencies, list) and dependencies
    needs = _requirements(dependencies)
    assert len(needs) == len(dependencies), "one has another form than name>=version, which this test does not read"
    return needs


def _first(pattern: str, path: str) -> str:
    """The text that the pattern's group matches in a file."""
    found = re.search(pattern, _text(path), re.MULTILINE)
    assert found, f"{path} has no line like {pattern}"
    return found[1]


def _debian(field: str) -> Needs:
    """The first field of that name in debian/control: Build-Depends of the sources, the others of the command."""
    written = _first(rf"^{field}: (.*(?:\n .*)*)", "packaging/debian/control")
    words = [word.strip() for word in re.split(r"[,|]", written)]
    read = [found for word in words if (found := re.fullmatch(r"([\w${}:.+-]+)(?: \((?:>=|=) (.+)\))?", word))]
    assert len(read) == len(words), f"{field} has a form that this test does not read"
    return {found[1]: found[2] or "" for found in read}


def _fedora(field: str) -> Needs:
    """The main package's BuildRequires or Requires."""
    main = _text("packaging/outrigger.spec").split("%description")[0]
    return {name: least for name, least in re.findall(rf"^{field}:\s+(\S+)(?: >= (\S+))?$", main, re.MULTILINE)}


def _spack() -> Needs:
    return {name: least for name, least in re.findall(r'depends_on\("([\w-]+)(?:@([\d.]+):)?"', _text(SPACK))}


def _cmake_files() -> list[Path]:
    """The CMake files of everything that recipes build: no tests, and no benchmarks for them."""
    below = (ROOT / name for name in ("cmake", "src", "packaging", "examples", "bench/mpi"))
    named = (path for place in below for kind in ("CMakeLists.txt", "*.cmake") for path in place.rglob(kind))
    return [ROOT / "CMakeLists.txt", *named]


_FINDS = re.compile(
    r"find_package\(([A-Za-z]\w*)(?: ([\d.]+))?"
    r"|pkg_check_modules\(\w+ (?:REQUIRED )?(?:IMPORTED_TARGET )?([\w-]+)(?:>=(\S+?))?\)"
    r"|find_path\([A-Z_]+ (\S+?)\)"
)


def _found_by_cmake() -> Needs:
    """The packages that the build requires, with their least versions."""
    needs = {"Python": str(_project()["requires-python"]).removeprefix(">=")}
    for path in _cmake_files():
        text = path.read_text(encoding="utf-8")
        variables = dict(re.findall(r"set\((\w+) ([\d.]+)\)", text))
        if least := re.search(r"cmake_minimum_required\(VERSION ([\d.]+)\)", text):
            needs["cmake"] = least[1]
        for package, version, module, bound, header in _FINDS.findall(text):
            given = version or variables.get(bound.strip("${}"), bound)
            needs[package or module or header] = given or needs.get(package or module or header, "")
    return {name: least for name, least in needs.items() if name not in OF_THE_BUILD}


def _recipes_to_build_by() -> tuple[Needs, Needs, Needs]:
    return _debian("Build-Depends"), _fedora("BuildRequires"), _spack()


def test_all_name_the_same_version() -> None:
    named = {
        "pyproject.toml": _project()["version"],
        "outrigger": outrigger.__version__,
        "CMakeLists.txt": _first(r"^  VERSION (\S+)$", "CMakeLists.txt"),
        "debian/changelog": _first(r"\Aoutrigger \((\S+)\)", "packaging/debian/changelog"),
        "outrigger.spec": _first(r"^Version:\s+(\S+)$", "packaging/outrigger.spec"),
        "Spack": _first(r' version\("(\S+)"\)', SPACK),
    }
    assert set(named.values()) == {outrigger.__version__}, named


def test_debian_depends_on_the_python_packages_or_brings_them() -> None:
    """Or recommends what only pictures need: Debian's comes with compilers, 700 MiB in all."""
    recommended = {name: least for name, least in _debian("Recommends").items() if name == "python3-matplotlib"}
    depends = _debian("Depends")
    assert recommended and not depends.keys() & recommended.keys()
    depends |= recommended
    vendor = _requirements(_text("packaging/vendor.txt").splitlines())
    system = {name.removeprefix("python3-"): least for name, least in depends.items() if name.startswith("python3-")}
    assert not system.keys() & vendor.keys()
    assert system | vendor == _python_packages()


def test_fedora_requires_the_python_packages_to_run_and_to_write_pages() -> None:
    for field in ("Requires", "BuildRequires"):
        needs = _fedora(field)
        python = {
            name.removeprefix("python3-").replace("_", "-"): least
            for name, least in needs.items() if name.startswith("python3-") and name != "python3-devel"
        }  # fmt: skip
        assert python == _python_packages(), field
    assert _fedora("Requires")["python3"] == _found_by_cmake()["Python"]


def test_spack_depends_on_the_python_packages() -> None:
    python = {name.removeprefix("py-"): least for name, least in _spack().items() if name.startswith("py-")}
    assert python == _python_packages()


def test_what_cmake_looks_for_is_what_recipes_build_with() -> None:
    found = _found_by_cmake()
    assert found.keys() == CALLED.keys(), "name it here, and in each recipe"
    for place, recipe in enumerate(_recipes_to_build_by()):
        for name, least in found.items():
            called = CALLED[name][place]
            assert called is None or called in recipe, f"{recipe} lacks {called}"
            assert called is None or not least or recipe[called] == least, f"{called}: CMake wants {least}"


def test_recipes_build_with_nothing_else() -> None:
    for place, recipe in enumerate(_recipes_to_build_by()):
        python = {name for name in recipe if re.match(r"(py|python3)-", name)}
        known = {names[place] for names in CALLED.values()} | BESIDES[place] | python
        assert recipe.keys() - known == set()


def test_the_container_has_the_command_and_the_packages_that_it_depends_on() -> None:
    own = set(re.findall(r"^Package: (\S+)$", _text("packaging/debian/control"), re.MULTILINE))
    needed = {"outrigger"} | (own & _debian("Depends").keys())
    taken = _text("packaging/Containerfile")
    installed = _first(r"apt install (\./build/package/.*)", "docs/site/install.md")
    assert set(re.findall(r"/packages/([\w-]+)_\*\.deb", taken)) == needed
    assert set(re.findall(r"([\w-]+)_\*\.deb", installed)) == needed
