#!/usr/bin/env bash
# Build, then test what needs RDMA: on emulated machines with soft RoCE, hosts and DPUs.
#
# usage: ./dev rdma [--no-arm] [options of pytest]
#
#   --no-arm   leave out the DPU with Arm cores, and what is built for it
#
# Installs emulators (scripts/packages-rdma.txt) and fetches Debian's kernels for them, both only if missing. Takes some
# minutes: an emulated machine is slow. OUTRIGGER_PATIENCE=3 triples all time limits, for a machine that has other work
# to do. docs/testing.md says what is shown.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"

arm=true
if [[ "${1:-}" == --no-arm ]]; then
  arm=false
  shift
fi
bash "$ROOT/scripts/dev/setup.sh" --quiet --with rdma
build_preset release
cd "$ROOT"
if $arm; then
  build_preset aarch64 outriggerd ucx_test
else
  set -- --deselect tests/rdma/test_arm.py "$@"
fi
OUTRIGGER_BUILD="$ROOT/build/release" OUTRIGGER_ARM_BUILD="$ROOT/build/aarch64" \
  exec "$VENV/bin/python" -m pytest tests/rdma -v "$@"
