#!/usr/bin/env bash
# Say what was found here: MPIs, cores, how memory is reached, and why not better (outrigger info).
#
# usage: ./dev info [--json]
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"

ensure_setup
exec "$VENV/bin/outrigger" info "$@"
