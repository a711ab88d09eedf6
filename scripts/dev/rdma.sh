#!/usr/bin/env bash
# Build, then test what needs RDMA: on emulated machines with soft RoCE, hosts and DPUs.
#
# usage: ./dev rdma [--quick] [--no-arm] [options of pytest]
#
#   --quick    one test of each kind, without the DPU with Arm cores: some minutes
#   --no-arm   leave out the DPU with Arm cores, and what is built for it
#
# Installs emulators (scripts/packages-rdma.txt) and fetches Debian's kernels for them, both only if missing. Takes an
# hour or so: an emulated machine is slow. OUTRIGGER_PATIENCE=3 triples all time limits, for a machine that has other work
# to do. docs/inside/testing.md says what is shown.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"

arm=true
quick=()
while [[ "${1:-}" == --no-arm || "${1:-}" == --quick ]]; do
  arm=false
  [[ "$1" == --quick ]] && quick=(-m quick)
  shift
done
bash "$ROOT/scripts/dev/setup.sh" --quiet --with rdma
build_preset release
cd "$ROOT"
if $arm; then
  build_preset aarch64 outriggerd ucx_test
else
  set -- -k 'not arm' "$@"
fi
OUTRIGGER_BUILD="$ROOT/build/release" OUTRIGGER_ARM_BUILD="$ROOT/build/aarch64" \
  exec "$VENV/bin/python" -m pytest tests/rdma -v -rs "${quick[@]}" "$@"
