#!/bin/sh
# A Debian package of the program that `make` built, by dpkg-deb: deploy/debian-package.sh FOLDER, or `make deb`.
# dpkg-dev finds its dependencies. Dates in it are the tree's (deploy/source-date.sh), so that the same tree gives the same bytes.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
folder=$1
version=$(sed -n 's/.*HS_VERSION "\(.*\)"/\1/p' "$root/server/base/version.h")
architecture=$(dpkg --print-architecture)
SOURCE_DATE_EPOCH=$("$root/deploy/source-date.sh")
export SOURCE_DATE_EPOCH
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
umask 022
# The package's root folder: dpkg gives its mode to the folder that the package is unpacked into.
tree=$work/tree
mkdir "$tree"

make -s -C "$root" install PREFIX=/usr DESTDIR="$tree"
strip --remove-section=.comment --remove-section=.note "$tree/usr/bin/headscope"
gzip -9n "$tree/usr/share/man/man1/headscope.1"
install -d "$tree/usr/share/doc/headscope" "$tree/lib/systemd/system" "$tree/DEBIAN"
sed -e 's,/usr/local/bin/,/usr/bin/,' -e '1,/daemon-reload/d' "$root/deploy/headscope.service" \
    >"$tree/lib/systemd/system/headscope.service"
date=$(date -u -R -d "@$SOURCE_DATE_EPOCH")
gzip -9n >"$tree/usr/share/doc/headscope/changelog.gz" <<END
headscope ($version) stable; urgency=low

  * Made from its tree; what changed is in the history there.

 -- headscope <headscope@example.org>  $date
END
"$root/deploy/licences.sh" "$work/licences"
# component FILES LICENCE NAME: a paragraph for what is linked into the program, with the text of its licence.
component() {
    printf '\nFiles: %s\nCopyright: see the text of the license\nLicense: %s\n' "$1" "$2"
    sed -e 's/\r$//' -e 's/^[[:space:]]*$/./' -e 's/^/ /' "$work/licences/$3"
}
{
    cat <<'END'
Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Comment: The program holds the viewer, which is bundled from npm packages, and a font.

Files: *
Copyright: 2026 the authors of headscope
License: Apache-2.0
 On Debian systems, the text of the license is in /usr/share/common-licenses/Apache-2.0.
END
    component 'static/node_modules/preact/*' Expat preact
    component 'static/node_modules/@zip.js/zip.js/*' BSD-3-Clause zip.js
    component 'static/node_modules/@fontsource/ibm-plex-mono/*' OFL-1.1 ibm-plex-mono
    component 'static/node_modules/@fontsource/ibm-plex-sans/*' OFL-1.1 ibm-plex-sans
    component DejaVuSans.ttf Bitstream-Vera fonts-dejavu-core
} >"$tree/usr/share/doc/headscope/copyright"
# Libraries that are linked, with the versions whose symbols the program uses; then those that it loads when it uses them.
mkdir "$work/debian"
printf 'Source: headscope\n\nPackage: headscope\nArchitecture: any\n' >"$work/debian/control"
linked=$(cd "$work" && dpkg-shlibdeps -O tree/usr/bin/headscope | sed -n 's/^shlibs:Depends=//p')
loaded=$("$root/deploy/packages.sh" list runtime | tr ' ' '\n' | grep -E '^(lib(curl|openblas|rsvg)|fonts)' | sed 's/^/, /' | tr -d '\n')
cat >"$tree/DEBIAN/control" <<END
Package: headscope
Version: $version
Architecture: $architecture
Maintainer: headscope <headscope@example.org>
Installed-Size: $(du -sk "$tree/usr" | cut -f 1)
Depends: $linked$loaded
Recommends: ca-certificates
Section: science
Priority: optional
Description: shows how transformers pay attention
 headscope computes attention maps, context similarity matrices and pairs of
 similar tokens for every head of a transformer, and shows them in a web viewer.
 It answers over HTTP, runs over corpora and comes with a small model.
END
find "$tree" -newermt "@$SOURCE_DATE_EPOCH" -exec touch --no-dereference --date="@$SOURCE_DATE_EPOCH" {} +
mkdir -p "$folder"
dpkg-deb --root-owner-group --build "$tree" "$folder/headscope_${version}_$architecture.deb" >/dev/null
