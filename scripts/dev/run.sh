#!/usr/bin/env bash
# Build, then start an MPI program with its collectives on service processes (outrigger run).
#
# usage: ./dev run [options] -- ./prog args...
#
# Options: see .venv/bin/outrigger run --help
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"

ensure_setup
build_preset release
exec "$VENV/bin/outrigger" run "$@"
