#!/bin/sh
# Prints the date of this tree in seconds since 1970: the commit's, or that of the files of a release tarball. Packages
# carry it, so that the same tree gives the same bytes.
set -eu
cd "$(dirname "$0")/.."
if [ -e .git ]; then
    git log -1 --format=%ct
else
    stat -c %Y deploy/source-date.sh
fi
