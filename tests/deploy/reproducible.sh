#!/bin/sh
# The same commit, built in two folders at two times, is the same program and the same Debian package, to the byte; the
# package pleases lintian, and what it installs runs.
. "$(dirname "$0")/common.sh"
needs git dpkg-deb lintian
trap 'rm -rf "$work"' EXIT

for folder in "$work/one" "$work/elsewhere/another"; do
    git clone --quiet "$root" "$folder"
    make -s -C "$folder" deb >"$work/build.log" 2>&1 || fail "make: $(tail -n 5 "$work/build.log")"
done
cd "$work"
cmp one/build/headscope elsewhere/another/build/headscope || fail "two builds differ"
cmp one/dist/*.deb elsewhere/another/dist/*.deb || fail "two packages differ"
lintian --fail-on warning --allow-root one/dist/*.deb || fail "lintian"
dpkg-deb --extract one/dist/*.deb installed
echo "The package answers." | installed/usr/bin/headscope analyze - | grep -q "\"answer\"" || fail "what it installs does not run"
echo "passed: two builds of $(git -C one describe --always), $(sha256sum one/build/headscope | cut -c 1-16)"
