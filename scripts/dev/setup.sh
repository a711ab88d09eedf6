#!/usr/bin/env bash
# Install the requirements of builds and tests: Debian packages, and a Python environment in .venv.
#
# usage: ./dev setup [--quiet] [--force] [--with rdma|aarch64|armwheel|slurm|simgrid|monitoring|packaging|torch]
#
#   --quiet       print nothing if nothing is missing
#   --force       install again even if nothing seems to be missing
#   --with rdma   also the requirements of ./dev rdma (scripts/packages-rdma.txt)
#   --with aarch64
#                 also those of ./dev test aarch64 (scripts/packages-aarch64.txt); adds arm64 to dpkg's architectures
#   --with armwheel
#                 also those of ./dev package wheel --arch aarch64 (scripts/packages-armwheel.txt)
#   --with slurm  also Debian's Slurm, for the tests of srun (scripts/packages-slurm.txt), which start it
#   --with simgrid
#                 also SimGrid, for comparison with the performance model (scripts/packages-simgrid.txt)
#   --with monitoring
#                 also a browser and a Prometheus, for the tests of pages and endpoints (scripts/packages-monitoring.txt)
#   --with packaging
#                 also those of ./dev package and its tests (scripts/packages-packaging.txt)
#   --with torch  also PyTorch, for tests/torch: more than 5 GB, as pip's torch brings libraries for GPUs
#
# Installs only what is missing (scripts/packages.txt, pyproject.toml). Installing packages needs root or sudo; without
# either it lists the packages and ends. A second run takes a fraction of a second.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"

quiet=false force=false torch=false lists=("$ROOT/scripts/packages.txt")
while (($#)); do
  case "$1" in
    --quiet) quiet=true ;;
    --force) force=true ;;
    --with)
      [[ "${2:-}" =~ ^[a-z0-9]+$ && -f "$ROOT/scripts/packages-$2.txt" ]] ||
        die "setup: --with wants the name of a list of packages, not '${2:-}'; see ./dev setup --help"
      lists+=("$ROOT/scripts/packages-$2.txt")
      [[ "$2" != torch ]] || torch=true
      shift
      ;;
    *) die "setup: unknown option '$1'; see ./dev setup --help" ;;
  esac
  shift
done

wanted_packages() { grep -hv '^#' "${lists[@]}"; }

# Packages of other architectures, such as libucx-dev:arm64.
add_architectures() {
  local architecture known
  known="$(dpkg --print-architecture; dpkg --print-foreign-architectures)"
  for architecture in $(printf '%s\n' "$@" | sed -n 's/.*://p' | sort -u); do
    grep -qx "$architecture" <<<"$known" || "${as_root[@]}" dpkg --add-architecture "$architecture"
  done
}

# A name without an architecture means the system's own; the same package of another architecture does not count.
missing_packages() {
  local package architectures own
  own="all|$(dpkg --print-architecture 2>/dev/null || true)"
  while read -r package; do
    architectures="$own"
    [[ "$package" == *:* ]] && architectures="${package##*:}"
    dpkg-query -W -f='${Architecture} ${db:Status-Status}\n' "$package" 2>/dev/null |
      grep -qxE "($architectures) installed" || echo "$package"
  done < <(wanted_packages)
}

install_packages() {
  if ! command -v apt-get >/dev/null; then
    die "setup: this is not a Debian-like system (no apt-get). Install the equivalents of: $*
       Then run: ./dev setup"
  fi
  local as_root=()
  if ((EUID != 0)); then
    command -v sudo >/dev/null ||
      die "setup: these packages are missing and there is neither root nor sudo to install them: $*
       Ask an administrator for: apt-get install $*"
    as_root=(sudo)
    sudo -v || die "setup: sudo refused. As root: apt-get install $*"
  fi
  add_architectures "$@"
  local patient=(-o Acquire::Retries=5 -o DPkg::Lock::Timeout=300)
  quiet_step "Fetching package lists" persistently "${as_root[@]}" apt-get update "${patient[@]}"
  quiet_step "Installing $# packages" persistently "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
    apt-get install -y --no-install-recommends -o Dpkg::Use-Pty=0 "${patient[@]}" "$@"
}

find_python() {
  local candidate
  for candidate in python3 python3.13 python3.12 python3.11 /usr/bin/python3; do
    if "$candidate" -c 'import sys, venv, ensurepip; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
      echo "$candidate"
      return
    fi
  done
  die "setup: no Python of 3.11 or later with the venv module was found. Install one (Debian 12: python3-venv)."
}

mapfile -t missing < <(missing_packages)
if $force && ((${#missing[@]} == 0)); then mapfile -t missing < <(wanted_packages); fi
if ((${#missing[@]})); then install_packages "${missing[@]}"; fi

stamp="$VENV/.outrigger-setup"
wanted="$(sha256sum <"$ROOT/pyproject.toml")"
if $force || [[ ! -x "$VENV/bin/outrigger" || "$(cat "$stamp" 2>/dev/null)" != "$wanted" ]]; then
  python="$(find_python)"
  if [[ ! -x "$VENV/bin/python" ]] || ! "$VENV/bin/python" -m pip --version >/dev/null 2>&1; then
    quiet_step "Making .venv with $("$python" --version)" "$python" -m venv --clear "$VENV"
  fi
  quiet_step "Installing Python packages" persistently "$VENV/bin/python" -m pip install --disable-pip-version-check \
    -e "${ROOT}[dev]"
  echo "$wanted" >"$stamp"
elif ! $quiet && ((${#missing[@]} == 0)); then
  note "Everything is installed."
fi
if $torch && ! "$VENV/bin/python" -c 'import torch' 2>/dev/null; then
  quiet_step "Installing PyTorch" persistently "$VENV/bin/python" -m pip install --disable-pip-version-check -e "${ROOT}[torch]"
fi
