#!/usr/bin/env bash
# See it work: an unmodified all-to-all benchmark, native and offloaded side by side.
#
# usage: ./dev demo [-n N] [--out DIR] [--json FILE]
#
# Installs what is missing, builds what the demo needs and runs the benchmark under each MPI found (half a minute). Prints
# what is gained in a line each, a table and the path of a plot.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"

ensure_setup
build_preset release demo
exec "$VENV/bin/outrigger" demo --build "$ROOT/build/release" "$@"
