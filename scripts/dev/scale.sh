#!/usr/bin/env bash
# Count what a service process of a large job sends, moves and holds; writes docs/inside/scaling.md and its plot.
#
# usage: ./dev scale [--check]
#
#   --check   only say whether docs/inside/scaling.md is what this code gives
#
# One count: build/release/bin/outrigger-sim scale --help
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"

ensure_setup
build_preset release outrigger-sim
cd "$ROOT"
exec "$VENV/bin/python" scripts/scale.py --program build/release/bin/outrigger-sim "$@"
