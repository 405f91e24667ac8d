#!/bin/sh
# Packs the Python client and the program of build/portable/ARCH into a wheel in dist/:
#     deploy/python-package.sh x86_64|aarch64          or: make wheel
set -eu
cd "$(dirname "$0")/.."
arch=$1
SOURCE_DATE_EPOCH=$(deploy/source-date.sh)
export SOURCE_DATE_EPOCH
tree=build/wheel/$arch
rm -rf "$tree"
mkdir -p "$tree/clients" "$tree/server/base" dist
cp server/base/version.h "$tree/server/base/"
cp LICENSE "$tree/"
tar -C clients --exclude=__pycache__ --exclude='*.egg-info' --exclude=build -c python | tar -C "$tree/clients" -x
cp -a "build/portable/$arch/." "$tree/clients/python/headscope/"
dist=$PWD/dist
cd "$tree/clients/python"
/usr/bin/python3 setup.py --quiet bdist_wheel --python-tag py3 --plat-name "manylinux_2_31_$arch" --dist-dir "$dist" 2>../../wheel.log ||
    { cat ../../wheel.log >&2; exit 1; }
