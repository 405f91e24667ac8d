#!/bin/bash
# Runs README's two commands as a new user would: `make run` until it answers README's first request, then `make test`.
#     tests/platforms/readme.sh [run|test]
set -euo pipefail
cd "$(dirname "$0")/../.."

# Prints README's command that ends with `make $1`.
readme_command() {
    grep -E "^\\$\(command -v sudo\) apt-get .* && make $1\$" README.md
}

run() {
    local log seconds=$SECONDS server
    log=$(mktemp)
    setsid bash -c "$(readme_command run)" >"$log" 2>&1 &
    server=$!
    while ! grep -q '^headscope is ready on' "$log"; do
        if ! kill -0 $server 2>/dev/null; then tail -n 40 "$log" >&2; echo "readme.sh: make run ended early" >&2; exit 1; fi
        sleep 0.2
    done
    echo "readme.sh: make run is ready after $((SECONDS - seconds)) s"
    # README's requests need curl and Python, which a new machine may lack.
    { apt-get install -q -y --no-install-recommends curl python3 >/dev/null; } 2>&1
    curl -sSf http://127.0.0.1:8080/analyze -H 'Content-Type: application/json' \
        -d '{"text": "The war, the last war.", "outputs": ["pairs"], "max_pairs": 5}' | python3 -m json.tool | grep -q '"pairs"'
    curl -sSf http://127.0.0.1:8080/ | grep -qi '<!doctype html'
    kill -TERM -- -$server
    wait $server || true
    rm "$log"
}

test_all() {
    local seconds=$SECONDS
    bash -c "$(readme_command test)"
    echo "readme.sh: make test passed after $((SECONDS - seconds)) s, packages and build included"
}

case "${1:-both}" in
run) run ;;
test) test_all ;;
both) run && test_all ;;
*) echo "usage: $0 [run|test]" >&2; exit 2 ;;
esac
