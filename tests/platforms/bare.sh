#!/bin/bash
# Runs a command on a copy of this tree in a bare Debian root, as on a new machine.
#     tests/platforms/bare.sh [--git] [--with FILE]... SUITE COMMAND
#     tests/platforms/bare.sh --can
# SUITE is bullseye, bookworm, trixie or sid. COMMAND goes to bash, in the copy. --git makes the copy a clone. --with puts a
# file, of dist/ for example, beside the copy. --can says why this machine cannot do it, and fails then.
#
# debootstrap makes the root: minbase and ca-certificates. The environment is clean. Mirrors, proxies, certificates and the
# configuration of npm and pip are the host's. ../shared, if there, is mounted read-only beside the copy.
# It takes root, mount and process namespaces, and debootstrap, which is installed if it is missing.
set -euo pipefail
here=$(cd "$(dirname "$0")/../.." && pwd)
script=$here/tests/platforms/bare.sh

usage() {
    sed -n '2,4s/^# //p' "$0" >&2
    exit 2
}

fail() {
    echo "bare.sh: no bare Debian root can be made here: $1" >&2
    exit 1
}

# Prints the mirror that the host's apt uses for Debian.
mirror() {
    local found
    found=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Origin: Debian' 'Label: Debian' 2>/dev/null | head -n 1)
    echo "${found:-http://deb.debian.org/debian}"
}

# Gives the root what a machine in this network has: how to reach mirrors, and whom to trust.
configure() {
    apt-config dump | grep -iE '^Acquire::(https?|ftp|retries|check|forceipv)' >"$root/etc/apt/apt.conf.d/90host" || true
    # The root is thrown away: dpkg need not wait for the disk after each file.
    echo force-unsafe-io >"$root/etc/dpkg/dpkg.cfg.d/unsafe-io"
    local file
    for file in /etc/resolv.conf /etc/hosts /etc/npmrc /root/.npmrc /etc/pip.conf; do
        if [ -e "$file" ]; then cp --dereference "$file" "$root$file"; fi
    done
    cp --archive /etc/ssl/certs/. "$root/etc/ssl/certs/"
}

copy_tree() {
    mkdir -p "$root/src/headscope"
    if [ -e "$here/.git" ] && command -v git >/dev/null; then
        if [ "$git" ]; then git clone --quiet --no-hardlinks "$here" "$root/src/headscope"; fi
        # Files that are deleted but not committed are listed and not there.
        git -C "$here" ls-files -z | (cd "$here" && xargs -0 sh -c 'for file; do if [ -e "$file" ]; then printf "%s\0" "$file"; fi; done' sh) |
            tar -C "$here" --null --files-from - -c | tar -C "$root/src/headscope" -x
    else
        tar -C "$here" -c --exclude=./build --exclude=./dist --exclude=node_modules . | tar -C "$root/src/headscope" -x
    fi
    if [ ${#with[@]} -gt 0 ]; then cp "${with[@]}" "$root/src/"; fi
}

# Mounts in the namespace of this process: they vanish with it, before anything is deleted.
mount_all() {
    mount --bind "$root" "$root" # a mount point: programs in the root can make mount name spaces
    mount -t proc proc "$root/proc"
    mount --rbind /sys "$root/sys"
    mount --rbind /dev "$root/dev"
    if [ -d "$here/../shared" ]; then
        mkdir "$root/src/shared"
        mount --bind "$here/../shared" "$root/src/shared"
        mount -o remount,bind,ro "$root/src/shared"
    fi
}

# The part inside the namespace.
inside() {
    local environment=() name
    for name in CI http_proxy https_proxy no_proxy HTTP_PROXY HTTPS_PROXY NO_PROXY NODE_EXTRA_CA_CERTS; do
        if [ "${!name:-}" ]; then environment+=("$name=${!name}"); fi
    done
    echo "bare.sh: making a bare $suite from $(mirror)"
    debootstrap --variant=minbase --include=ca-certificates "$suite" "$root" "$(mirror)" >"$root.log" 2>&1 ||
        { tail -n 20 "$root.log" >&2; exit 1; }
    configure
    copy_tree
    mount_all
    echo "bare.sh: $suite: $(cat "$root/etc/debian_version"), $command"
    chroot "$root" /usr/bin/env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 TERM=dumb \
        "${environment[@]}" /bin/bash -c 'cd /src/headscope && eval "$1"' bash "$command" </dev/null
}

# Ends the script if there can be no root.
check() {
    [ "$(id -u)" = 0 ] || fail "this is not root"
    unshare --mount --pid --fork true 2>/dev/null || fail "mount and process namespaces are not allowed"
    command -v debootstrap >/dev/null && return
    { apt-get update -q && apt-get install -q -y --no-install-recommends debootstrap; } >/dev/null 2>&1 ||
        fail "debootstrap is not installed and apt-get cannot install it"
}

arguments=("$@") git='' with=()
if [ "${1:-}" = --git ]; then git=yes && shift; fi
while [ "${1:-}" = --with ] && [ $# -gt 1 ]; do
    with+=("$2")
    shift 2
done
if [ "$*" = --can ]; then check && exit; fi
[ $# = 2 ] || usage
suite=$1 command=$2

# The script calls itself inside the namespaces.
if [ "${BARE_ROOT:-}" ]; then
    root=$BARE_ROOT
    inside
    exit
fi

check
work=$(mktemp -d "${TMPDIR:-/var/tmp}/headscope-bare.XXXXXX")
# All processes and mounts of the namespace are gone by then; --one-file-system stands behind that.
trap 'rm -rf --one-file-system "$work"' EXIT
trap 'exit 130' INT TERM
BARE_ROOT=$work/root unshare --mount --propagation private --pid --fork --kill-child "$script" "${arguments[@]}"
