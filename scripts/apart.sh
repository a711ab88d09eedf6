#!/usr/bin/env bash
# Runs a command in isolation: it sees only its own processes, shared memory and temporary files, which end with it. For
# concurrent tests that check for remains of their jobs.
#
# usage: scripts/apart.sh COMMAND...      Needs the right to make namespaces, as root has it; fails without.
set -euo pipefail

# Pids start at different numbers, so files in common places that are named after pids do not collide.
inside() {
  set -euo pipefail
  mount -t tmpfs -o mode=1777 shm /dev/shm
  if [[ -w /proc/sys/kernel/ns_last_pid ]]; then echo $((RANDOM % 900 * 1000 + 1000)) >/proc/sys/kernel/ns_last_pid || true; fi
  "$@" # not exec: the first process of a namespace must reap orphans, and this shell does
}

TMPDIR="$(mktemp -d "${TMPDIR:-/tmp}/apart.XXXXXX")"
export TMPDIR
trap 'rm -rf "$TMPDIR"' EXIT
unshare --mount --pid --fork --kill-child --mount-proc bash -c "$(declare -f inside); inside \"\$@\"" apart "$@"
