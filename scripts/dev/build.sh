#!/usr/bin/env bash
# Configure and build a CMake preset (default: release).
#
# usage: ./dev build [PRESET] [-- TARGET...]
#
# Presets: release, dev, asan, tsan, clang (clang 16), fuzz (fuzzers, sanitized), ucx122 (with a downloaded UCX 1.22),
# aarch64 (cross-compiled, for tests under an emulator), aarch64release (cross-compiled, for the wheel).
# The result is in build/PRESET. Runs setup first if something is missing. OUTRIGGER_JOBS is the number of concurrent compilers.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"

preset=release
if (($#)) && [[ "$1" != -- ]]; then
  preset="$1"
  shift
fi
[[ "${1:-}" == -- ]] && shift
is_preset "$preset" || die "build: there is no preset '$preset'. There are: $(presets | paste -sd' ')"
ensure_setup
build_preset "$preset" "$@"
say "Built build/$preset."
