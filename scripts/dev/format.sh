#!/usr/bin/env bash
# Format all sources: clang-format for C and C++, ruff for Python.
#
# usage: ./dev format
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"

ensure_setup
cd "$ROOT"
c_sources | xargs -0 clang-format-16 -i
"$VENV/bin/ruff" check --quiet --select I --fix "${PYTHON_SOURCES[@]}"
"$VENV/bin/ruff" format --quiet "${PYTHON_SOURCES[@]}"
say "Formatted."
