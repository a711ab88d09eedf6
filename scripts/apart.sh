#!/usr/bin/env bash
# Runs a command apart from all else on this machine: it sees its own processes, shared memory and temporary files only,
# and what it leaves behind ends with it. For tests that run beside each other and look for what their jobs left.
#
# usage: scripts/apart.sh COMMAND...      Needs the right to make namespaces, as root has it; fails without.
set -euo pipefail

# What names files in common places after processes finds no other's there: identifiers start elsewhere in each.
inside() {
  set -euo pipefail
  mount -t tmpfs -o mode=1777 shm /dev/shm
  if [[ -w /proc/sys/kernel/ns_last_pid ]]; then echo $((RANDOM % 900 * 1000 + 1000)) >/proc/sys/kernel/ns_last_pid || true; fi
  "$@" # not exec: the first process of a namespace buries what has lost its parents, and this shell does
}

TMPDIR="$(mktemp -d "${TMPDIR:-/tmp}/apart.XXXXXX")"
export TMPDIR
trap 'rm -rf "$TMPDIR"' EXIT
unshare --mount --pid --fork --kill-child --mount-proc bash -c "$(declare -f inside); inside \"\$@\"" apart "$@"
