#!/bin/sh
# Installs the Debian packages that a group of make targets needs, and only those that are missing.
#     deploy/packages.sh build|test|lint|coverage|mutants|deb|wheel|wheel-aarch64|runtime|arm64
#     deploy/packages.sh list runtime       only their names
set -eu

# NEW|OLD: the first that apt knows is installed, unless one of them is there.
build="gcc libc6-dev make pkg-config libmicrohttpd-dev libjansson-dev libopenblas-dev libuv1-dev
       libsqlite3-dev zlib1g-dev libzstd-dev nettle-dev libcurl4-openssl-dev fonts-dejavu-core librsvg2-bin"
test="check python3 python3-pytest python3-pytest-xdist python3-numpy python3-jsonschema python3-matplotlib jupyter-nbconvert
      python3-ipykernel chromium-headless-shell|chromium xz-utils zstd curl python3-yaml poppler-utils"
lint="clang-format clang-tidy cppcheck clang libclang-rt-dev python3-venv"
coverage="gcovr"
# For make mutants, which works in a clone; for make deb.
mutants="git"
deb="dpkg-dev"
# For make test-arm64 on x86-64: the libraries of arm64 stand beside this machine's own.
arm64="python3 python3-pytest python3-pytest-xdist python3-numpy python3-jsonschema gcc-aarch64-linux-gnu qemu-user
       libmicrohttpd-dev:arm64 libjansson-dev:arm64 libopenblas-dev:arm64 libuv1-dev:arm64
       libsqlite3-dev:arm64 zlib1g-dev:arm64 libzstd-dev:arm64 nettle-dev:arm64 libcurl4-openssl-dev:arm64
       fonts-dejavu-core check:arm64"
# For Python packages that hold the program (deploy/portable.sh), and for tests of them.
wheel="gcc libc6-dev make cmake m4 tcl dpkg-dev debian-archive-keyring python3 python3-setuptools python3-wheel python3-numpy
       debootstrap fonts-dejavu-core"
wheel_aarch64="gcc-aarch64-linux-gnu qemu-user"
# The program loads these: an image has to hold them. Debian 13 renamed packages, for 64-bit time_t.
runtime="libmicrohttpd12t64|libmicrohttpd12 libjansson4 libopenblas0-pthread libuv1t64|libuv1 libsqlite3-0
         zlib1g libzstd1 libnettle8t64|libnettle8 libcurl4t64|libcurl4 ca-certificates
         fonts-dejavu-core librsvg2-bin"

# Prints of each NEW|OLD the first that apt knows here, else the last. apt reads its whole index for a question: one for all.
names_here() {
    # shellcheck disable=SC2046 # a list of words
    known=$(apt-cache show $(echo "$@" | tr '|' ' ') 2>/dev/null | sed -n 's/^Package: //p')
    for choice in "$@"; do
        for name in $(echo "$choice" | tr '|' ' '); do
            if echo "$known" | grep -qxF "$name"; then break; fi
        done
        echo "$name"
    done | paste -sd ' '
}
# Succeeds if any of NEW|OLD is installed.
installed() {
    for name in $(echo "$1" | tr '|' ' '); do
        if dpkg-query -W -f '${db:Status-Status}\n' "$name" 2>/dev/null | grep -qx installed; then return 0; fi
    done
    return 1
}

only_list=
if [ "${1:-}" = list ]; then
    only_list=yes
    shift
fi
case "${1:-}" in
build) packages=$build why="to build headscope" ;;
test) packages=$test why="to run its tests" ;;
lint) packages=$lint why="to check its sources" ;;
coverage) packages=$coverage why="to count the lines that tests reach" ;;
mutants) packages=$mutants why="to change its sources in a copy" ;;
deb) packages=$deb why="to make a Debian package" ;;
wheel) packages=$wheel why="to build Python packages" ;;
wheel-aarch64) packages=$wheel_aarch64 why="to build Python packages for arm64" ;;
runtime) packages=$runtime why="to run headscope" ;;
arm64) packages=$arm64 why="to build and run it for arm64" ;;
*) echo "usage: $0 [list] build|test|lint|coverage|mutants|deb|wheel|wheel-aarch64|runtime|arm64" >&2; exit 2 ;;
esac
if [ "$only_list" ]; then
    # shellcheck disable=SC2086 # a list of words
    names_here $packages
    exit
fi

missing=
for package in $packages; do
    installed "$package" || missing="$missing $package"
done
# Node may come from elsewhere than Debian: what counts is the commands.
# A release holds the viewer as it was built, so that only its tests and changes of it need them.
case "$1" in
build) make -q build/viewer_files.c 2>/dev/null || needs_node=yes ;;
test|lint) needs_node=yes ;;
esac
if [ "${needs_node:-}" ]; then
    command -v node >/dev/null || missing="$missing nodejs"
    command -v npm >/dev/null || missing="$missing npm"
fi
[ -z "$missing" ] && exit 0

if ! command -v apt-get >/dev/null; then
    echo "There is no apt-get here. Install the equivalents of these Debian packages, then run make again:$missing" >&2
    exit 1
elif [ "$(id -u)" = 0 ]; then
    as_root=
elif command -v sudo >/dev/null; then
    as_root=sudo
else
    # shellcheck disable=SC2086 # a list of words
    echo "Neither root nor sudo: as root, run  apt-get install $(names_here $missing)  and then make again." >&2
    exit 1
fi
export DEBIAN_FRONTEND=noninteractive
log=$(mktemp)
echo "Installing with apt-get, $why:$missing (this may take minutes; its log is $log)"
# For arm64: where both cannot be installed, those that are there stay.
[ "$1" != arm64 ] || keep=--no-remove
# shellcheck disable=SC2086,SC2046 # lists of words
{
    { [ "$1" != arm64 ] || $as_root dpkg --add-architecture arm64; } && $as_root apt-get update &&
        $as_root apt-get install -y --no-install-recommends ${keep:-} $(names_here $missing)
} >"$log" 2>&1 </dev/null || { cat "$log" >&2; exit 1; }
rm "$log"
