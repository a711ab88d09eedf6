#!/usr/bin/env bash
# Write docs/using/reference.md: every variable, option and key there is.
#
# usage: ./dev reference [--check]
#
#   --check   only say whether docs/using/reference.md is what the programs say
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"

ensure_setup
build_preset release outriggerd
cd "$ROOT"
exec "$VENV/bin/python" scripts/reference.py --build build/release "$@"
