#!/usr/bin/env bash
# Build, then run the tests that need RDMA: on emulated hosts and DPUs with soft RoCE.
#
# usage: ./dev rdma [--quick] [--no-arm] [options of pytest]
#
#   --quick    one test of each kind, without the DPU with Arm cores: some minutes
#   --no-arm   leave out the DPU with Arm cores, and its build
#
# Installs emulators (scripts/packages-rdma.txt) and downloads Debian's kernels for them, both only if missing. Takes
# about an hour, as emulated machines are slow. OUTRIGGER_PATIENCE=3 triples all time limits, for a busy machine.
# docs/inside/testing.md describes the tests.
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
