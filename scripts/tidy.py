"""Runs clang-tidy on every source of a compilation database, in parallel, and remembers clean sources.

A database of a unity build is several times faster: headers are read once for many sources. Unity files with the same
options are joined for the same reason. Sources that are built for several MPIs are checked for one, and those that
depend on the MPI for all.

A file is checked again when it, a header it includes, its command line or .clang-tidy has changed.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import re
import shlex
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
TIDY = "clang-tidy-16"
ASKS_WHICH_MPI = "OUTRIGGER_ABI_"
MOST_JOINED = 100
"""Most sources in one run of clang-tidy: it needs memory for all of them."""
HAS_MAIN = re.compile(r"^int main\(", re.M)
DOES_NOT_COMPILE = "clang-diagnostic-error"


@dataclass(frozen=True)
class Source:
    """One entry of the compilation database."""

    path: Path
    directory: Path
    arguments: tuple[str, ...]
    within: tuple[Path, ...] = ()
    """The sources in a unity file."""
    parts: tuple[Source, ...] = ()
    """Sources of a joined file."""


def read_database(build: Path) -> list[Source]:
    """The C and C++ sources of this project, each once."""
    found: dict[Path, Source] = {}
    for entry in json.loads((build / "compile_commands.json").read_text(encoding="utf-8")):
        path = Path(entry["directory"], entry["file"]).resolve()
        ours = not path.is_relative_to(build) or "Unity" in path.parts  # unity files contain only our sources
        if path.suffix in {".cpp", ".cxx", ".c"} and path.is_relative_to(ROOT) and ours:
            arguments = tuple(shlex.split(entry["command"]))
            found.setdefault(path, Source(path, Path(entry["directory"]), arguments, in_unity(path)))
    return joined(each_once([found[path] for path in sorted(found)]), build)


def in_unity(path: Path) -> tuple[Path, ...]:
    """The sources in a unity file; none for others."""
    if "Unity" not in path.parts:
        return ()
    return tuple(Path(name) for name in re.findall(r'^#include "(.+)"$', path.read_text(encoding="utf-8"), re.M))


def each_once(sources: list[Source]) -> list[Source]:
    """The first of unity files with the same sources, and from the others the sources that depend on the MPI."""
    seen: set[tuple[Path, ...]] = set()
    kept = []
    for source in sources:
        if source.within not in seen:
            kept.append(source)
        else:
            asking = [path for path in source.within if ASKS_WHICH_MPI in path.read_text(encoding="utf-8")]
            kept += [alone(source, path) for path in asking]
        if source.within:
            seen.add(source.within)
    return kept


def alone(unity: Source, path: Path) -> Source:
    """A source of a unity file, with that file's command line."""
    return Source(path, unity.directory, with_path(unity, path), (path,))


def with_path(source: Source, path: Path) -> tuple[str, ...]:
    """The command line of a source, for another one."""
    return tuple(str(path) if word == str(source.path) else word for word in source.arguments)


def joined(sources: list[Source], build: Path) -> list[Source]:
    """Sources of unity files in as few files as possible, and all others."""
    groups: list[list[Source]] = []
    for source in sources:
        group = next((group for group in groups if source.within and fits(group, source)), None)
        if group is None:
            groups.append([source])
        else:
            group.append(source)
    return [group[0] if len(group) == 1 else join(group, build / f"joined_{n}.cxx") for n, group in enumerate(groups)]


def fits(group: list[Source], source: Source) -> bool:
    """True if sources can be in one file: each once, with the same options, and no program's main(). Unity files of one
    target stay apart, as the build has them: their sources may have equal local names.
    """
    within = [path for one in (*group, source) for path in one.within]
    return (
        len(within) == len(set(within)) <= MOST_JOINED
        and not ("Unity" in source.path.parts and any(source.path.parent == one.path.parent for one in group))
        and other_options(group[0]) == other_options(source)
        and len({macro.partition("=")[0] for macro in macros(*group, source)}) == len(macros(*group, source))
        and not any(HAS_MAIN.search(path.read_text(encoding="utf-8")) for path in within)
    )


def macros(*sources: Source) -> set[str]:
    return {word for source in sources for word in source.arguments if word.startswith("-D")}


def other_options(source: Source) -> list[str]:
    """All but macros, directories of our headers, and names of files."""
    output = source.arguments.index("-o")
    words = [*source.arguments[:output], *source.arguments[output + 2 :]]
    return [word for word in words if not word.startswith(("-D", "-I")) and word != str(source.path)]


def join(group: list[Source], path: Path) -> Source:
    text = "".join(f'#include "{part.path}"\n' for part in group)
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")
    first = with_path(group[0], path)
    further = {word: None for part in group for word in part.arguments if word.startswith(("-D", "-I"))}
    arguments = (*first, *(word for word in further if word not in first))
    return Source(path, group[0].directory, arguments, parts=tuple(group))


def dependencies(source: Source) -> list[Path]:
    """The source and the headers of this project that it includes, according to its compiler."""
    arguments = [word for word in source.arguments if "ccache" not in Path(word).name]
    output = arguments.index("-o")
    del arguments[output : output + 2]
    result = subprocess.run(
        [*arguments, "-MM", "-MF", "-"], cwd=source.directory, capture_output=True, text=True, check=False
    )
    if result.returncode != 0:
        raise RuntimeError(f"{source.path}: {result.stderr.strip()}")
    words = result.stdout.replace("\\\n", " ").split()[1:]
    return sorted({Path(source.directory, word).resolve() for word in words})


def fingerprint(source: Source) -> str:
    """A digest of all inputs of clang-tidy's answer."""
    digest = hashlib.sha256((ROOT / ".clang-tidy").read_bytes())
    digest.update(repr(source.arguments).encode())
    for path in dependencies(source):
        digest.update(str(path).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()


def tidy(source: Source, cache: Path) -> str:
    """The findings in one source; empty if it is clean."""
    mark = cache / fingerprint(source)
    if mark.exists():
        return ""
    compiler = next(index for index, word in enumerate(source.arguments) if "ccache" not in Path(word).name)
    result = subprocess.run(
        [TIDY, "--quiet", str(source.path), "--", *source.arguments[compiler + 1 :]],
        cwd=source.directory,
        capture_output=True,
        text=True,
        check=False,
    )
    if result.returncode == 0:
        mark.touch()
        return ""
    if source.parts and DOES_NOT_COMPILE in result.stdout:  # sources with the same local names
        return "\n".join(filter(None, (tidy(part, cache) for part in source.parts)))
    return result.stdout.strip() or result.stderr.strip() or f"{source.path}: exit code {result.returncode}"


def main() -> int:
    """Prints the findings as they come; 1 if there were any."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--build", type=Path, required=True, help="directory with compile_commands.json")
    parser.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args()
    build = options.build.resolve()
    cache = build / "tidy-clean"
    cache.mkdir(exist_ok=True)
    sources = read_database(build)
    failed = 0
    with ThreadPoolExecutor(options.jobs) as pool:
        running = {pool.submit(tidy, source, cache): source for source in sources}
        for done, future in enumerate(as_completed(running), start=1):
            findings = future.result()
            name = running[future].path.relative_to(ROOT)
            if sys.stdout.isatty():
                print(f"\r\x1b[K[{done}/{len(sources)}] {name}", end="", flush=True)
            if findings:
                failed += 1
                print(f"\n{findings}", flush=True)
    if sys.stdout.isatty():
        print("\r\x1b[K", end="")
    print(f"clang-tidy: {len(sources)} files, {failed} with findings")
    return 1 if failed or not sources else 0


if __name__ == "__main__":
    sys.exit(main())
