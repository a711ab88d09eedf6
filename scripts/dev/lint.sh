#!/usr/bin/env bash
# Check formatting, clang-tidy, Python style and types, shell scripts, includes between and within layers, tables of
# algorithms, the prose of pages and comments, and subjects of commits.
#
# usage: ./dev lint [--fast]
#
#   --fast   leave out clang-tidy
#
# Every finding is an error. clang-tidy remembers clean files until they or their headers change.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"

fast=false
case "${1:-}" in
  "") ;;
  --fast) fast=true ;;
  *) die "lint: unknown option '$1'; see ./dev lint --help" ;;
esac

ensure_setup
cd "$ROOT"
failed=()
check() {
  local title="$1"
  shift
  quiet_step "$title" "$@" || failed+=("$title")
}
format_check() { c_sources | xargs -0 clang-format-16 --dry-run -Werror; }
shell_check() { shellcheck -x -P SCRIPTDIR -s bash dev .ci/run scripts/*.sh scripts/dev/*.sh && shellcheck packaging/slurm/*.sh; }
# Compiler warnings and sanitizers check the tests; checking them here would double the time. Two ABIs cover all variants
# of the sources. Headers take most of the time, so units are large.
configure_lint() { cmake --preset clang -S "$ROOT" -B "$ROOT/build/lint" -DOUTRIGGER_TESTS=OFF \
  -DCMAKE_UNITY_BUILD_BATCH_SIZE=48 "-DOUTRIGGER_MPIS=openmpi;mpich"; }

check "clang-format" format_check
check "layers" "$VENV/bin/python" scripts/check_layers.py
check "algorithms' headers" "$VENV/bin/python" scripts/check_algorithms.py
check "prose" "$VENV/bin/python" scripts/check_prose.py
check "commit subjects" "$VENV/bin/python" scripts/check_commits.py
check "ruff check" "$VENV/bin/ruff" check "${PYTHON_SOURCES[@]}"
check "ruff format" "$VENV/bin/ruff" format --check "${PYTHON_SOURCES[@]}"
check "mypy" "$VENV/bin/mypy" python/outrigger scripts examples bench packaging/wheel.py
check "shellcheck" shell_check
if ! $fast; then
  check "configure for clang-tidy" configure_lint
  say "clang-tidy"
  "$VENV/bin/python" scripts/tidy.py --build build/lint --jobs "$JOBS" || failed+=("clang-tidy")
fi
((${#failed[@]} == 0)) || die "lint: failed: ${failed[*]}"
say "No findings."
