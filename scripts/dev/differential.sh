#!/usr/bin/env bash
# Compare thousands of random operations with native MPI: every algorithm, 1, 2 and 4 service processes, 1 to 3 nodes.
#
# usage: ./dev differential [--operations N] [--mpi NAME]... [--seed S] [--runs N] [--minutes M] [--hosts N] [options]
#
#   --operations 10000  for each MPI; a run has 190 of them (--each), and its own seed
#   --mpi NAME          openmpi and mpich are the system's; those of ./dev mpis have names like mpich-5.0.2, or, for the
#                       standard ABI, mpich-5.0.2-mpiabi. May be repeated; default: all installed ones
#   --seed S            of the first run. A failure, and the end of --minutes, print the command that continues from there
#   --hosts 4           on the hosts of a cluster on this machine instead of its own nodes
#
# build/release/differential.jsonl lists the runs. All options: ./dev differential -- --help
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"

[[ "${1:-}" == -- ]] && shift
ensure_setup
build_preset release
if [[ -f "$ROOT/build/mpis/mpich/.installed" ]]; then build_preset release mpiabi_programs; fi
cd "$ROOT"
OUTRIGGER_BUILD=build/release exec "$VENV/bin/python" tests/mpi/campaign.py "$@"
