#!/usr/bin/env bash
# Build, then measure native against offloaded (outrigger bench).
#
# usage: ./dev bench [ialltoall] [ialltoallv] [options]
#
# The options are those of: .venv/bin/outrigger bench --help
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"

ensure_setup
build_preset release
exec "$VENV/bin/outrigger" bench "$@"
