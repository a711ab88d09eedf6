#!/usr/bin/env bash
# Count messages, moves and memory of a service process of a large job; writes docs/inside/scaling.md and its plot.
#
# usage: ./dev scale [--check]
#
#   --check   only check that docs/inside/scaling.md is up to date
#
# A single count: build/release/bin/outrigger-sim scale --help
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"

ensure_setup
build_preset release outrigger-sim
cd "$ROOT"
exec "$VENV/bin/python" scripts/scale.py --program build/release/bin/outrigger-sim "$@"
