#!/usr/bin/env bash
# Run an unmodified all-to-all benchmark, native and offloaded side by side.
#
# usage: ./dev demo [-n N] [--out DIR] [--json FILE]
#
# Installs missing packages, builds the demo and runs the benchmark under each MPI found (half a minute). Prints the gain
# in one line per MPI, a table and the path of a plot.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"

ensure_setup
build_preset release demo
exec "$VENV/bin/outrigger" demo --build "$ROOT/build/release" "$@"
