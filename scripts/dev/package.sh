#!/usr/bin/env bash
# Make packages of Outrigger: a tree to unpack, a wheel, Debian packages, RPMs.
#
# usage: ./dev package KIND [--arch aarch64] [--test]
#
#   tree     build/package/outrigger-VERSION-MACHINE.tar.xz: what cmake --install makes, with the
#            Python packages that it needs; it works wherever it is unpacked
#   wheel    build/package/outrigger-*.whl, with the daemon, the libraries and a UCX: pip install FILE
#   deb      build/package/*.deb, by dpkg-buildpackage: outrigger, outriggerd, liboutrigger, liboutrigger-dev, -dbgsym
#   rpm      build/package/*.rpm, by rpmbuild, from packaging/outrigger.spec, which rpmlint checks first. These are for
#            tests only: build packages for a system with RPM on that system
#   --arch aarch64
#            the wheel for 64-bit Arm, cross-compiled, in build/package/aarch64; --test checks its contents
#   --test   install the package without any other part of Outrigger, and run a job there (tests/packaging). Without
#            KIND: all packages
#
# Needs the packages of ./dev build; deb and rpm also scripts/packages-packaging.txt (./dev setup --with packaging), the wheel for
# 64-bit Arm scripts/packages-armwheel.txt.
set -euo pipefail
source "$(dirname "${BASH_SOURCE[0]}")/../lib.sh"

kind="" tested=false arch=""
while (($#)); do
  case "$1" in
    --test) tested=true ;;
    --arch)
      [[ "${2:-}" == aarch64 ]] || die "package: --arch takes aarch64, not '${2:-}'; see ./dev package --help"
      arch="$2"
      shift
      ;;
    tree | wheel | deb | rpm) kind="$1" ;;
    *) die "package: there is no kind '$1'; see ./dev package --help" ;;
  esac
  shift
done
[[ -z "$arch" || "$kind" == wheel ]] || die "package: --arch is for the wheel: ./dev package wheel --arch $arch"
[[ -n "$kind" ]] || $tested || die "package: name a kind: tree, wheel, deb or rpm; see ./dev package --help"

out="$ROOT/build/package"
mkdir -p "$out"
version="$(sed -n 's/^version = "\(.*\)"/\1/p' "$ROOT/pyproject.toml")"

ensure_packaging() { ensure_setup --with packaging; }

make_tree() {
  ensure_setup
  build_preset release
  local name
  name="outrigger-$version-$(uname -m)"
  rm -rf "${out:?}/$name" "${out:?}/stage"
  # Only the unit for a DPU has the prefix in it: docs/site/install.md says where to unpack the tree.
  quiet_step "Installing" env DESTDIR="$out/stage" cmake --install "$ROOT/build/release" --prefix /opt/outrigger --strip
  mv "$out/stage/opt/outrigger" "$out/$name"
  rm -r "${out:?}/stage"
  quiet_step "Fetching Python packages" persistently "$VENV/bin/python" "$ROOT/packaging/vendor.py" \
    --out "$out/$name/lib/outrigger/vendor"
  tar -C "$out" -cJf "$out/$name.tar.xz" "$name"
  rm -r "${out:?}/$name"
  say "Made build/package/$name.tar.xz."
}

ensure_auditwheel() {
  "$VENV/bin/python" -c 'import wheel; from auditwheel import options; options.ldpaths' 2>/dev/null || quiet_step "Installing auditwheel" persistently \
    "$VENV/bin/python" -m pip install --disable-pip-version-check -e "${ROOT}[package]"
}

# wheel_of BUILD DIRECTORY [option of packaging/wheel.py...]
wheel_of() {
  local build="$1" place="$2"
  shift 2
  ensure_auditwheel
  mkdir -p "$place"
  quiet_step "Making the wheel" "$VENV/bin/python" "$ROOT/packaging/wheel.py" --build "$build" --out "$place" "$@"
  say "Made ${place#"$ROOT/"}/$(cd "$place" && echo outrigger-*.whl)."
}

make_wheel() {
  ensure_packaging
  build_preset release
  wheel_of "$ROOT/build/release" "$out"
}

# In another directory, as pip uses build/package/outrigger-*.whl.
make_wheel_for_aarch64() {
  ensure_setup
  build_preset release outrigger_pages
  build_preset aarch64release
  wheel_of "$ROOT/build/aarch64release" "$out/aarch64" --machine aarch64 --root "$ROOT/build/sysroot-aarch64"
}

# A copy of the present sources, without ignored files.
copy_sources() {
  rm -rf "$1"
  mkdir -p "$1"
  (cd "$ROOT" && git ls-files -z --cached --others --exclude-standard | tar --null --files-from=- -c) | tar -C "$1" -x
}

make_deb() {
  ensure_packaging
  local place="$out/deb" source="$out/deb/outrigger-$version"
  rm -rf "$place"
  copy_sources "$source"
  cp -r "$source/packaging/debian" "$source/debian"
  # Debian 12 has no msgspec, and older ones of the others.
  local python
  python="$(/usr/bin/python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])')"
  quiet_step "Fetching Python packages" persistently "$VENV/bin/python" -m pip install --disable-pip-version-check \
    --no-compile --only-binary :all: --python-version "$python" --target "$source/debian/vendor" \
    -r "$ROOT/packaging/vendor.txt"
  # debhelper has a home directory and a locale of its own, by which compilers would miss the cache of the other builds.
  local cached="env;-u;LC_ALL;ccache"
  (cd "$source" && quiet_step "Building Debian packages" env DEB_BUILD_OPTIONS="parallel=$JOBS" \
    CMAKE_C_COMPILER_LAUNCHER="$cached" CMAKE_CXX_COMPILER_LAUNCHER="$cached" CCACHE_DIR="$(ccache -k cache_dir)" \
    dpkg-buildpackage -b -us -uc) || return 1
  quiet_step "Checking them by lintian" lintian --allow-root --fail-on error,warning "$place"/*.changes || return 1
  rm -f "$out"/*.deb
  mv "$place"/*.deb "$out/"
  rm -rf "$place"
  say "Made in build/package: $(cd "$out" && echo ./*.deb)"
}

# Debian's rpm does not know Debian's installed packages: --nodeps.
make_rpm() {
  ensure_packaging
  rpmlint -r "$ROOT/packaging/outrigger.rpmlintrc" "$ROOT/packaging/outrigger.spec"
  local place="$out/rpm" name="outrigger-$version"
  rm -rf "$place"
  mkdir -p "$place/SOURCES"
  copy_sources "$place/$name"
  tar -C "$place" -czf "$place/SOURCES/$name.tar.gz" "$name"
  rm -r "${place:?}/$name"
  # Manual pages need a Python with the command line's requirements.
  quiet_step "Building RPMs" env PATH="$VENV/bin:$PATH" rpmbuild -bb --nodeps --load "$ROOT/packaging/rpm-macros" \
    --define "_topdir $place" "$ROOT/packaging/outrigger.spec"
  rm -f "$out"/*.rpm
  mv "$place"/RPMS/*/*.rpm "$out/"
  rm -rf "$place"
  say "Made in build/package: $(cd "$out" && echo ./*.rpm)"
}

case "$kind" in
  tree) make_tree ;;
  wheel) "make_wheel${arch:+_for_$arch}" ;;
  deb) make_deb ;;
  rpm) make_rpm ;;
esac
if $tested; then
  cd "$ROOT"
  exec "$VENV/bin/python" -m pytest -v -rs "tests/packaging${kind:+/test_$kind${arch:+_$arch}.py}"
fi
