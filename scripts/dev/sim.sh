#!/usr/bin/env bash
# Run the engine in virtual time under random schedules, checking its invariants after every step.
#
# usage: ./dev sim [--seeds N] [--seed S] [options of outrigger-sim]
#
#   --seeds 10000   number of random schedules per algorithm
#   --seed S        replay one
#
# All options: ./dev sim -- --help
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"

[[ "${1:-}" == -- ]] && shift
ensure_setup
build_preset release outrigger-sim
exec "$ROOT/build/release/bin/outrigger-sim" "$@"
