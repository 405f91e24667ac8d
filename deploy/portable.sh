#!/bin/sh
# Builds a program that runs on every Linux with glibc 2.31 or newer (Debian 11, Ubuntu 20.04, RHEL 9):
#
#     deploy/portable.sh x86_64|aarch64
#
# Leaves bin/ and licenses/ in build/portable/ARCH. Needs no root, only the packages of `make packages-wheel`.
#
# This machine's gcc compiles against Debian 11's C library, unpacked in build/portable/parts/ARCH/sysroot. Debian 11
# gets no more security fixes, so the libraries that read data from the network or from files are built from Debian
# 13's sources. They are linked in statically: libcurl, which `headscope pull` loads from the system, then finds the
# system's own zlib, zstd and nettle. `--backend cblas` loads the system's OpenBLAS, too: it would be two thirds of a
# wheel, and few need it.
#
# DEBIAN_MIRROR names another mirror than deb.debian.org, COMPILER_CACHE a command such as ccache.
set -eu
cd "$(dirname "$0")/.."
arch=$1
case $arch in
x86_64) debian=amd64 ;;
aarch64) debian=arm64 ;;
*) echo "portable: no such architecture: $arch; x86_64 and aarch64 are known" >&2; exit 2 ;;
esac
triplet=$arch-linux-gnu
work=$PWD/build/portable/parts/$arch
sysroot=$work/sysroot
prefix=$work/prefix
out=$PWD/build/portable/$arch
jobs=$(nproc)
mirror=${DEBIAN_MIRROR:-http://deb.debian.org/debian}
mkdir -p "$work" "$prefix/lib" "$prefix/include"

# private TOOL COMMAND...: apt with lists and caches of its own, for binaries of Debian 11 and sources of Debian 13.
# Prints what it says only if it fails.
private() {
    local tool=$1
    shift
    "$tool" -q -o Dir::State="$work/apt" -o Dir::State::status="$work/apt/status" -o Dir::Cache="$work/apt/cache" \
        -o Dir::Etc::SourceList="$work/apt/sources.list" -o Dir::Etc::SourceParts=- -o APT::Architecture="$debian" \
        -o APT::Architectures="$debian" "$@" >"$work/apt.log" 2>&1 || { tail -n 5 "$work/apt.log" >&2; exit 1; }
}
# Unpacks the newest source package that the mirror holds whole, since its index may name files that are not there.
# If there is none, unpacks the original sources without Debian's patches. Writes the version into ../version.
source_unpack() {
    local version
    private apt-cache showsrc --only-source "$1"
    for version in $(sed -n 's/^Version: //p' "$work/apt.log" | sort -rV); do
        if (private apt-get source "$1=$version"); then
            echo "$version" >version
            return
        fi
        rm -rf ./*
    done
    echo "  LIB  $1: without Debian's patches, which the mirror lacks"
    private apt-get source --tar-only "$1"
    tar -xf ./*.orig.tar.*
    for version in *.orig.tar.*; do version=${version%.orig.*} && echo "${version#*_}" >version; done
}
if ! [ -e "$work/unpacked" ]; then
    echo "  GET  Debian 11's C library and headers for $arch"
    rm -rf "$work/apt" "$work/packages" "$sysroot"
    mkdir -p "$work/apt/lists/partial" "$work/apt/cache/archives/partial" "$work/packages" "$sysroot"
    : >"$work/apt/status"
    key='[signed-by=/usr/share/keyrings/debian-archive-keyring.gpg]'
    printf 'deb %s %s bullseye main\ndeb-src %s %s trixie main\n' "$key" "$mirror" "$key" "$mirror" >"$work/apt/sources.list"
    private apt-get update
    (cd "$work/packages" && private apt-get download libc6 libc6-dev linux-libc-dev libgcc-s1 \
        libopenblas-pthread-dev)
    for package in "$work/packages"/*.deb; do
        dpkg-deb --extract "$package" "$sysroot"
    done
    # Absolute links, as that of the dynamic linker, would lead out of the folder.
    find "$sysroot" -lname '/*' -printf '%p %l\n' | while read -r link target; do
        ln -sfn "$sysroot$target" "$link"
    done
    touch "$work/unpacked"
fi

# The cross compiler would find this machine's headers and start files for $arch first, were these not named.
found="-isystem $sysroot/usr/include/$triplet -isystem $sysroot/usr/include -B$sysroot/usr/lib/$triplet"
CC="$triplet-gcc --sysroot=$sysroot $found"
LDFLAGS="-L$sysroot/usr/lib/$triplet -L$sysroot/lib/$triplet -Wl,-rpath-link,$sysroot/usr/lib/$triplet:$sysroot/lib/$triplet"
export CC LDFLAGS AR="$triplet-ar" RANLIB="$triplet-ranlib" CFLAGS='-O2 -fPIC' CHOST="$triplet"

with_cmake() {
    cmake -S . -B out -DCMAKE_SYSTEM_NAME=Linux -DCMAKE_BUILD_TYPE=Release -DCMAKE_INSTALL_PREFIX="$prefix" \
        -DCMAKE_INSTALL_LIBDIR=lib "$@" && make -j "$jobs" -C out install
}
with_configure() {
    ./configure --host="$triplet" --prefix="$prefix" --libdir="$prefix/lib" --disable-shared --enable-static "$@" &&
        make -j "$jobs" install
}
build_zlib() {
    ./configure --prefix="$prefix" --static && make -j "$jobs" install
}
build_libzstd() {
    make -j "$jobs" -C lib PREFIX="$prefix" install-static install-includes
}
build_nettle() {
    with_configure --disable-public-key --disable-openssl --disable-documentation --enable-fat
}
build_jansson() {
    with_cmake -DJANSSON_BUILD_DOCS=OFF -DJANSSON_WITHOUT_TESTS=ON -DJANSSON_EXAMPLES=OFF
}
build_libuv1() {
    with_cmake -DLIBUV_BUILD_SHARED=OFF -DBUILD_TESTING=OFF
}
# The amalgamation is made by tools that run here; only its compilation is for the target.
build_sqlite3() {
    env -u CHOST CC=gcc LDFLAGS= ./configure --disable-tcl --disable-readline && make sqlite3.c &&
        $CC $CFLAGS -DSQLITE_OMIT_LOAD_EXTENSION -c sqlite3.c && "$AR" rcs "$prefix/lib/libsqlite3.a" sqlite3.o &&
        cp sqlite3.h "$prefix/include/"
}
build_libmicrohttpd() {
    with_configure --disable-https --disable-doc --disable-examples --disable-tools --disable-curl --disable-bauth \
        --disable-dauth --disable-httpupgrade --disable-postprocessor --disable-cookie
}
# Loaded when it is used, so only its headers are needed (server/hub/hub_transfer.c).
build_curl() {
    cp -r include/curl "$prefix/include/"
}
libraries="zlib libzstd nettle jansson libuv1 sqlite3 libmicrohttpd"
for name in $libraries curl; do
    source=$work/source/$name
    [ -e "$source/built" ] && continue
    echo "  LIB  $name"
    rm -rf "$source"
    mkdir -p "$source"
    (cd "$source" && source_unpack "$name" && cd ./*/ &&
        "build_$name" >../log 2>&1) || { tail -n 20 "$source/log" >&2; exit 1; }
    touch "$source/built"
done

make -j "$jobs" WERROR= CC="${COMPILER_CACHE:-} $CC" AR="$AR" BUILD="build/portable/parts/$arch/objects" BINARY="$work/headscope" \
    CFLAGS='-O3 -g -fno-math-errno -fno-trapping-math' HEADERS='' \
    PKG_CFLAGS="-I$prefix/include -I$sysroot/usr/include/$triplet/openblas-pthread" \
    LIBS="-Wl,--as-needed,--exclude-libs,ALL $LDFLAGS -L$prefix/lib \
        -lmicrohttpd -ljansson -luv -lsqlite3 -lzstd -lz -lnettle -lm -ldl -pthread"

rm -rf "$out"
mkdir -p "$out/bin" "$out/licenses"
cp "$work/headscope" "$out/bin/"
for name in $libraries; do
    for file in debian/copyright LICENSE LICENSE.md COPYING README; do
        for found in "$work/source/$name"/*/"$file"; do
            [ -e "$found" ] && ! [ -e "$out/licenses/$name" ] && cp "$found" "$out/licenses/$name"
        done
    done
    [ -e "$out/licenses/$name" ] || { echo "portable: $work/source/$name holds no licence" >&2; exit 1; }
    echo "$name $(cat "$work/source/$name/version"): from Debian 13's sources, in the program"
done >"$out/licenses/README"
deploy/licences.sh "$out/licenses" # of preact and the fonts, too
# Debian's copyright files name the texts of common licences by their path on a Debian machine.
grep -rhoE '/usr/share/common-licenses/[A-Za-z]+(-[0-9.]*[0-9])?' "$out/licenses" | sort -u | while read -r text; do
    if [ -e "$text" ]; then cp -L "$text" "$out/licenses/"; fi
done
# Every Linux with glibc has these.
others=$("$triplet-readelf" -d "$out/bin/headscope" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p' |
    grep -vE '^(lib(c|m|dl|rt|pthread|gcc_s)\.so\.[0-9]+|ld-linux.*)$' || true)
[ -z "$others" ] || { echo "portable: the program needs $others" >&2; exit 1; }
newest=$("$triplet-objdump" -T "$out/bin/headscope" | grep -o 'GLIBC_[0-9.]*' | sort -uV | tail -n 1)
[ "$(printf 'GLIBC_2.31\n%s\n' "$newest" | sort -V | tail -n 1)" = GLIBC_2.31 ] ||
    { echo "portable: the program needs $newest; it must run with glibc 2.31" >&2; exit 1; }
"$triplet-strip" "$out/bin/headscope"
/usr/bin/python3 deploy/sbom.py "$out/bin/headscope" --portable "$out" >"$work/sbom"
mv "$work/sbom" "$out/licenses/headscope.cdx.json"
