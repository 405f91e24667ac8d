#!/bin/sh
# clang-tidy and cppcheck over the sources named; gcc's own warnings are errors in every build already.
set -eu
flags="-std=c17 -I. -D_GNU_SOURCE $(pkg-config --cflags libmicrohttpd jansson openblas libuv sqlite3 zlib libzstd nettle libcurl)"
cppcheck --quiet -j "$(nproc)" --error-exitcode=1 --std=c11 --enable=warning,performance,portability --inline-suppr \
    --suppress=missingIncludeSystem -I. -D_GNU_SOURCE -DHS_WITH_ONEDNN "$@"
# shellcheck disable=SC2086 # a list of flags
printf '%s\n' "$@" | xargs -P "$(nproc)" -I{} clang-tidy --quiet --warnings-as-errors='*' {} -- $flags -DHS_WITH_ONEDNN
