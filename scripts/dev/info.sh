#!/usr/bin/env bash
# List this machine's MPIs, cores and reaches of memory, with the reasons for missing ones (outrigger info).
#
# usage: ./dev info [--json]
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"

ensure_setup
exec "$VENV/bin/outrigger" info "$@"
