#!/usr/bin/env bash
# Build, then compare native and offloaded collectives (outrigger bench).
#
# usage: ./dev bench [ialltoall] [ialltoallv] [options]
#
# Options: see .venv/bin/outrigger bench --help
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"

ensure_setup
build_preset release
exec "$VENV/bin/outrigger" bench "$@"
