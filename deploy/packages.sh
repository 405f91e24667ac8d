#!/bin/sh
# Installs the Debian packages that a group of make targets needs, and only those that are missing.
#     deploy/packages.sh build|test|lint|runtime
#     deploy/packages.sh list runtime       only their names
set -eu

build="gcc libc6-dev make pkg-config libmicrohttpd-dev libjansson-dev libopenblas-dev libdnnl-dev libuv1-dev
       libsqlite3-dev zlib1g-dev libzstd-dev nettle-dev libcurl4-openssl-dev"
test="check python3 python3-pytest python3-pytest-xdist python3-numpy python3-jsonschema python3-matplotlib jupyter-nbconvert
      python3-ipykernel chromium xz-utils zstd curl python3-yaml"
lint="clang-format clang-tidy cppcheck clang libclang-rt-14-dev"
# What the program itself loads: all that an image has to hold.
runtime="libmicrohttpd12 libjansson4 libopenblas0-pthread libdnnl2 libgomp1 libuv1 libsqlite3-0 zlib1g libzstd1 libnettle8
         libcurl4 ca-certificates"

only_list=
if [ "${1:-}" = list ]; then
    only_list=yes
    shift
fi
case "${1:-}" in
build) packages=$build why="to build headscope" ;;
test) packages=$test why="to run its tests" ;;
lint) packages=$lint why="to check its sources" ;;
runtime) packages=$runtime why="to run headscope" ;;
*) echo "usage: $0 [list] build|test|lint|runtime" >&2; exit 2 ;;
esac
if [ "$only_list" ]; then
    echo "$packages" | tr -s ' \n' ' '
    exit
fi

missing=
for package in $packages; do
    dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null | grep -qx installed || missing="$missing $package"
done
# Node may come from elsewhere than Debian: what counts is the commands.
if [ "$1" = build ]; then
    command -v node >/dev/null || missing="$missing nodejs"
    command -v npm >/dev/null || missing="$missing npm"
fi
[ -z "$missing" ] && exit 0

echo "Installing with apt-get, $why:$missing"
if ! command -v apt-get >/dev/null; then
    echo "There is no apt-get here. Install the equivalents of these Debian packages, then run make again." >&2
    exit 1
elif [ "$(id -u)" = 0 ]; then
    as_root=
elif command -v sudo >/dev/null; then
    as_root=sudo
else
    echo "Neither root nor sudo: as root, run  apt-get install$missing  and then make again." >&2
    exit 1
fi
export DEBIAN_FRONTEND=noninteractive
# shellcheck disable=SC2086 # both are lists of words
{
    $as_root apt-get update -q
    $as_root apt-get install -q -y --no-install-recommends $missing
}
