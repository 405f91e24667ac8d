#!/bin/sh
# Copies the licences of what every program holds into FOLDER: its own, those of the viewer's npm packages (preact,
# zip.js, IBM Plex) and that of the font of figures (DejaVu). Adds a line for each to FOLDER/README.
#     deploy/licences.sh FOLDER
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
mkdir -p "$1"
cp "$root/LICENSE" "$1/headscope"
for package in @fontsource/ibm-plex-mono @fontsource/ibm-plex-sans @zip.js/zip.js preact; do
    folder=$root/static/node_modules/$package
    cp "$folder/LICENSE" "$1/$(basename "$package")"
    echo "$package $(sed -n 's/^  "version": "\(.*\)".*/\1/p' "$folder/package.json"): npm package, in the viewer"
done >>"$1/README"
cp /usr/share/doc/fonts-dejavu-core/copyright "$1/fonts-dejavu-core"
echo "fonts-dejavu-core $(dpkg-query -W -f '${Version}' fonts-dejavu-core): this machine's package, in the program" >>"$1/README"
