#!/bin/sh
# Runs clang-tidy and cppcheck over the sources named. WARN holds warnings of clang that count as errors too.
set -eu
flags="-std=c17 ${WARN:-} -I. -D_GNU_SOURCE $(pkg-config --cflags libmicrohttpd jansson openblas libuv sqlite3 zlib libzstd nettle libcurl)"
cppcheck --quiet -j "$(nproc)" --error-exitcode=1 --std=c11 --enable=warning,performance,portability --inline-suppr \
    --suppress=missingIncludeSystem -I. -D_GNU_SOURCE "$@"
# shellcheck disable=SC2086 # a list of flags
printf '%s\n' "$@" | xargs -P "$(nproc)" -I{} clang-tidy --quiet --warnings-as-errors='*' {} -- $flags
