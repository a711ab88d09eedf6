#!/usr/bin/env bash
# Configure and build a CMake preset (release unless named).
#
# usage: ./dev build [PRESET] [-- TARGET...]
#
# Presets: release, dev, asan, tsan, clang (clang 16), fuzz (fuzzers, sanitized), ucx122 (with UCX 1.22, which is fetched),
# aarch64 (cross-compiled, for tests under an emulator), aarch64release (cross-compiled, what the wheel has).
# The result is in build/PRESET. Sets up first if something is missing. OUTRIGGER_JOBS sets how many compilers run at a time.
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
