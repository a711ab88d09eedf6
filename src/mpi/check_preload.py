"""Checks that a preload library is inert without MPI: it must be loadable into any process.

- it needs no MPI library and refers to no symbol of one (Open MPI's handles are data symbols);
- it exports only MPI names, each of them as MPI_ and PMPI_ (and Open MPI's MPIX_X_init), the functions that
  liboutrigger looks up, and the one in finalize_barrier.cpp for MPICH;
- it does not affect a program without MPI.
"""

import os
import re
import subprocess
import sys


def dynamic_symbols(library: str) -> list[tuple[str, str]]:
    lines = subprocess.run(["nm", "-D", library], check=True, capture_output=True, text=True).stdout.splitlines()
    return [(fields[-2], fields[-1].split("@")[0]) for fields in (line.split() for line in lines)]


def main() -> int:
    library = os.path.abspath(sys.argv[1])
    problems = []
    needed = subprocess.run(["readelf", "-d", library], check=True, capture_output=True, text=True).stdout
    for name in re.findall(r"\(NEEDED\).*\[(.*)\]", needed):
        if not re.match(r"(libc|libm|libpthread|libdl|librt|ld-linux.*|lib[atu]san|libubsan)\.so", name):
            problems.append(f"needs {name}")
    defined = set()
    for kind, name in dynamic_symbols(library):
        of_mpi = re.match(r"P?MPI_|ompi_|MPIR_|MPIX_|mca_|opal_", name)
        if kind in "UwWvV" and of_mpi:
            problems.append(f"refers to {name}")
        elif kind not in "UwWvV":
            defined.add(name)
    problems += [
        f"defines {name}"
        for name in sorted(defined)
        if not re.match(r"P?MPI_[A-Z]|P?MPIX_[A-Z]\w*_init$|outrigger_preload_[a-z_]+$|ucp_request_is_completed$", name)
    ]
    names = {name.removeprefix("P") for name in defined if re.match(r"P?MPIX?_", name)}
    problems += [f"defines only one of {name} and P{name}" for name in names if not {name, "P" + name} <= defined]
    if "MPI_Ialltoall" not in names:
        problems.append("does not define MPI_Ialltoall")
    if "san.so" not in needed:  # a sanitizer's runtime must come first in a process, so this cannot be checked
        shell = subprocess.run(
            ["/bin/sh", "-c", "echo alive"],
            env={**os.environ, "LD_PRELOAD": library},
            capture_output=True,
            text=True,
            check=False,
        )
        if (shell.stdout, shell.stderr, shell.returncode) != ("alive\n", "", 0):
            problems.append(f"disturbs /bin/sh: {shell}")
    for problem in problems:
        print(f"{os.path.basename(library)} {problem}", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
