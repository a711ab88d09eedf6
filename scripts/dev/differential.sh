#!/usr/bin/env bash
# Compare thousands of random operations with native MPI: every algorithm, 1, 2 and 4 service processes, 1 to 3 nodes.
#
# usage: ./dev differential [--operations N] [--mpi NAME]... [--seed S] [--runs N] [--minutes M] [--hosts N] [options]
#
#   --operations 10000  operations with each MPI. Each run does 190 of them (--each) and has a seed of its own
#   --mpi NAME          an MPI; may be repeated. openmpi and mpich are the system's. MPIs of ./dev mpis have names like
#                       mpich-5.0.2, and mpich-5.0.2-mpiabi for the standard ABI. Default: all installed MPIs
#   --seed S            seed of the first run. After a failure or --minutes, the command that continues is printed
#   --hosts 4           use the hosts of a cluster on this machine (`outrigger lab cluster`)
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
