#!/usr/bin/env bash
# Write docs/using/reference.md: all variables, options and keys.
#
# usage: ./dev reference [--check]
#
#   --check   only check that docs/using/reference.md is up to date
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"

ensure_setup
build_preset release outriggerd
cd "$ROOT"
exec "$VENV/bin/python" scripts/reference.py --build build/release "$@"
