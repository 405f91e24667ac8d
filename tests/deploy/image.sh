#!/bin/sh
# The Dockerfile, built and run by buildah: no registry of images is asked, its base is made by debootstrap. CA_FILE is a
# certificate for the proxy that signs for the package registries, where there is one.
. "$(dirname "$0")/common.sh"
needs buildah debootstrap curl
needs_root
ca=${CA_FILE:-/etc/ssl/certs/ca-certificates.crt}
# Storage of its own; chroot, for it may itself run in a container.
export BUILDAH_ISOLATION=chroot STORAGE_DRIVER=vfs
store="--root $work/store --runroot $work/run"
container=
# shellcheck disable=SC2086 # $store are two options
finish() {
    [ -z "$container" ] || buildah $store rm "$container" >/dev/null 2>&1 || true
    buildah $store rmi --all --force >/dev/null 2>&1 || true
    rm -rf "$work"
}
trap finish EXIT
trap 'exit 1' INT TERM

debian trixie "$work/base" ca-certificates
# shellcheck disable=SC2086
{
    base=$(buildah $store from scratch)
    buildah $store add --quiet "$base" "$work/base" / >/dev/null
    buildah $store commit --quiet "$base" docker.io/library/debian:13-slim >/dev/null
    buildah $store rm "$base" >/dev/null
    buildah $store build --pull-never --network host --secret "id=ca,src=$ca" --tag headscope "$root" >"$work/build.log" 2>&1 ||
        fail "$(tail -n 20 "$work/build.log")"
    container=$(buildah $store from --pull-never headscope)
    buildah $store inspect --type image --format '{{.OCIv1.Config.User}}' headscope | grep -qx 10001:10001 ||
        fail "the image runs as somebody else"
    # As compose.yaml does: a token, a folder for runs.
    token=0123456789abcdef0123456789abcdef
    buildah $store run --user 10001:10001 "$container" -- sh -c "
        umask 077 && echo $token > /var/lib/headscope/token &&
        exec headscope serve --listen 127.0.0.1:18080 --state /var/lib/headscope --token-file /var/lib/headscope/token
    " >"$work/serve.log" 2>&1 &
    server=$!
}
until_true curl --silent --fail http://127.0.0.1:18080/ready
curl --silent --fail --header "Authorization: Bearer $token" --header 'Content-Type: application/json' \
    --data '{"text": "The image answers."}' http://127.0.0.1:18080/analyze | grep -q '"tokens"' || fail "no analysis: $(cat "$work/serve.log")"
pkill -TERM -f '^headscope serve --listen 127.0.0.1:18080'
wait $server || fail "it did not stop cleanly"
# shellcheck disable=SC2086
echo "passed: the image, $(buildah $store images --format '{{.Size}}' headscope), by $(buildah --version | cut -d ' ' -f 1-3)"
