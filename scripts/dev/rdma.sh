#!/usr/bin/env bash
# Build, then test the wire over RDMA, between two emulated machines with soft RoCE.
#
# usage: ./dev rdma [options of pytest]
#
# Installs an emulator (scripts/packages-rdma.txt) and fetches Debian's kernel for it, both only if missing. Takes some
# minutes: an emulated machine is slow. docs/testing.md says what is shown.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"

bash "$ROOT/scripts/dev/setup.sh" --quiet --with rdma
build_preset release
cd "$ROOT"
OUTRIGGER_BUILD="$ROOT/build/release" exec "$VENV/bin/python" -m pytest tests/rdma -v "$@"
