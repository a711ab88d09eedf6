#!/usr/bin/env bash
# Run the libFuzzer targets against all decoders of other processes' data.
#
# usage: ./dev fuzz [--seconds N] [TARGET...]
#
#   --seconds N   for all targets together (60); OUTRIGGER_JOBS run at a time
#
# Built by clang 16 with the address and undefined behaviour sanitizers (the fuzz preset). Found inputs are kept
# in build/corpus/TARGET; a crash is written to build/crashes and ends the run.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"

seconds=60 targets=() ran=()
while (($#)); do
  case "$1" in
    --seconds)
      [[ "${2:-}" =~ ^[0-9]+$ ]] || die "fuzz: --seconds wants a whole number, not '${2:-}'"
      seconds="$2"
      shift 2
      ;;
    -*) die "fuzz: unknown option '$1'; see ./dev fuzz --help" ;;
    *)
      targets+=("$1")
      shift
      ;;
  esac
done

ensure_setup
if ((${#targets[@]} == 0)); then
  mapfile -t targets < <(fuzz_targets)
fi
((${#targets[@]})) || die "fuzz: the fuzz preset has no program with fuzz in its name"
build_preset fuzz "${targets[@]}"

each=$((seconds / ${#targets[@]}))
((each >= 1)) || each=1
mkdir -p "$ROOT/build/crashes" "$LOGS"

# fuzz_one TARGET
fuzz_one() {
  local corpus="$ROOT/build/corpus/$1"
  mkdir -p "$corpus"
  say "Fuzzing $1 for ${each} s"
  timeout $((each + 60)) "$(find "$ROOT/build/fuzz" -type f -name "$1" -perm -u+x | head -n 1)" "$corpus" \
    -max_total_time="$each" -artifact_prefix="$ROOT/build/crashes/$1-" -rss_limit_mb=2048 -print_final_stats=1 \
    2>&1 | grep -vE '^#[0-9]+\s+(NEW|REDUCE|pulse|RELOAD)|^\s*NEW_FUNC'
}

found=()
while ((${#targets[@]})); do
  turn=("${targets[@]:0:JOBS}") pids=()
  targets=("${targets[@]:JOBS}") ran+=("${turn[@]}")
  for target in "${turn[@]}"; do
    fuzz_one "$target" >"$LOGS/$target.log" &
    pids+=($!)
  done
  for i in "${!turn[@]}"; do
    wait "${pids[i]}" || found+=("${turn[i]}")
    cat "$LOGS/${turn[i]}.log"
  done
done
((${#found[@]} == 0)) || die "fuzz: ${found[*]} found something; the input is in build/crashes"
say "${#ran[@]} fuzzers ran without a finding: ${ran[*]}"
