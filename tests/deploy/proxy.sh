#!/bin/sh
# deploy/nginx.conf, deploy/Caddyfile and deploy/traefik.yml in front of a server: the viewer, requests of its pages and of others, a corpus.
. "$(dirname "$0")/common.sh"
needs curl
[ "$(command -v nginx)$(command -v caddy)$(command -v traefik)" ] || skip "proxy needs nginx, caddy or traefik, and none is here"

pids=
finish() {
    # shellcheck disable=SC2086 # a list of numbers
    [ -z "$pids" ] || kill $pids 2>/dev/null || true
    rm -rf "$work"
}
trap finish EXIT
trap 'exit 1' INT TERM

"$headscope" serve --listen 127.0.0.1:0 --root-path /lab/headscope --allow-host lab.example.org \
    --state "$work/state" >"$work/address" 2>"$work/server.log" &
pids=$!
until_true grep -q 'is ready on' "$work/address"
port=$(sed -E 's/.*:([0-9]+).*/\1/' "$work/address")
free_port() {
    python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])'
}

# ask EXPECTED PATH [CURL'S OPTIONS]: fails unless the proxy answers with this status.
ask() {
    expected=$1 path=$2
    shift 2
    status=$(curl -s -o "$work/body" -D "$work/head" -w '%{http_code}' -H 'Host: lab.example.org' "$@" "$proxy$path")
    [ "$status" = "$expected" ] || fail "$proxy$path: $status in place of $expected: $(cat "$work/body")"
}

try() {
    until_true curl -sf -H 'Host: lab.example.org' "$proxy/lab/headscope/health"
    ask 308 /lab/headscope
    ask 200 /lab/headscope/
    grep -qi '<!doctype html' "$work/body" || fail "no viewer"
    ask 200 "/lab/headscope/$(grep -o 'assets/[^"]*\.js' "$work/body" | head -n 1)"
    ask 200 /lab/headscope/models/
    ask 200 /lab/headscope/analyze -H 'Origin: https://lab.example.org' --json '{"text": "a b"}'
    ask 403 /lab/headscope/analyze -H 'Origin: https://evil.example' --json '{"text": "a b"}'
    texts 20 "$work/texts.jsonl"
    ask 202 /lab/headscope/corpora -H 'Content-Type: application/jsonl' --data-binary "@$work/texts.jsonl"
    run=$(sed -nE 's/^[Ll]ocation: *([^[:space:]]*).*/\1/p' "$work/head")
    case $run in /lab/headscope/corpora/*) ;; *) fail "Location is '$run'" ;; esac
    curl -sN --max-time 5 -H 'Host: lab.example.org' "$proxy$run/events" | grep -q '"state"' || fail "no progress"
}

if command -v nginx >/dev/null; then
    free=$(free_port)
    proxy=http://127.0.0.1:$free
    mkdir "$work/temporary"
    {
        echo "pid $work/nginx.pid; error_log $work/nginx.log; daemon off; events {}"
        echo "http { access_log off; client_body_temp_path $work/temporary; server { listen 127.0.0.1:$free;"
        sed "s/127.0.0.1:8080/127.0.0.1:$port/" "$root/deploy/nginx.conf"
        echo "} }"
    } >"$work/nginx.conf"
    nginx -c "$work/nginx.conf" &
    pids="$pids $!"
    try
    ask 200 /lab/headscope/analyze -X POST -H 'Transfer-Encoding: chunked' --json '{"text": "a b"}'
    echo "nginx: ok"
fi
if command -v caddy >/dev/null; then
    free=$(free_port)
    proxy=http://127.0.0.1:$free
    {
        printf '{\n\tadmin off\n\tauto_https off\n}\n'
        sed "s/127.0.0.1:8080/127.0.0.1:$port/; s/^lab.example.org {/http:\/\/lab.example.org:$free {/" "$root/deploy/Caddyfile"
    } >"$work/Caddyfile"
    XDG_DATA_HOME=$work XDG_CONFIG_HOME=$work caddy run --config "$work/Caddyfile" --adapter caddyfile >"$work/caddy.log" 2>&1 &
    pids="$pids $!"
    try
    echo "caddy: ok"
fi
if command -v traefik >/dev/null; then
    free=$(free_port)
    proxy=http://127.0.0.1:$free
    sed "s/127.0.0.1:8080/127.0.0.1:$port/" "$root/deploy/traefik.yml" >"$work/traefik.yml"
    traefik --entrypoints.websecure.address="127.0.0.1:$free" --providers.file.filename="$work/traefik.yml" \
        --global.checknewversion=false --global.sendanonymoususage=false >"$work/traefik.log" 2>&1 &
    pids="$pids $!"
    try
    echo "traefik: ok"
fi
