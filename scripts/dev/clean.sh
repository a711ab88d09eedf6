#!/usr/bin/env bash
# Remove build outputs: build/, and with --all also .venv, plots and caches.
#
# usage: ./dev clean [--all]
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"

case "${1:-}" in
  "") ;;
  --all) rm -rf "$VENV" "$ROOT/demo-out" "$ROOT"/.{pytest,ruff,mypy}_cache "$ROOT/.hypothesis" ;;
  *) die "clean: unknown option '$1'; see ./dev clean --help" ;;
esac
rm -rf "$ROOT/build"
say "Removed build/${1:+ and everything else that was made here}."
