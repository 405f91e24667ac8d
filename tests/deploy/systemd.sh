#!/bin/sh
# deploy/headscope.service under a real systemd, booted in a container of its own: as the unit's first lines say, with a
# token, through a run that is interrupted by a restart, a crash and a stop.
. "$(dirname "$0")/common.sh"
needs systemd-nspawn debootstrap nsenter
needs_root

machine=$work/machine
# shellcheck disable=SC2046 # a list of words
debian bookworm "$machine" systemd dbus curl $("$root/deploy/packages.sh" list runtime)
install -m 755 "$headscope" "$machine/usr/local/bin/headscope"
install -m 644 "$root/deploy/headscope.service" "$machine/etc/systemd/system/"
token=0123456789abcdef0123456789abcdef
echo $token >"$machine/etc/headscope.token"
chmod 600 "$machine/etc/headscope.token"
cat >"$machine/etc/headscope.env" <<END
HEADSCOPE_LISTEN=0.0.0.0:8080
HEADSCOPE_TOKEN_FILE=/run/credentials/headscope.service/token
END
mkdir "$machine/etc/systemd/system/headscope.service.d"
printf '[Service]\nLoadCredential=token:/etc/headscope.token\n' >"$machine/etc/systemd/system/headscope.service.d/token.conf"
texts 1500 "$machine/root/texts.jsonl"

UNIFIED_CGROUP_HIERARCHY=1 systemd-nspawn --boot --directory="$machine" --register=no --keep-unit --private-network \
    --console=read-only >"$work/boot.log" 2>&1 </dev/null &
nspawn=$!
finish() {
    kill $nspawn 2>/dev/null && wait $nspawn 2>/dev/null || true
    rm -rf "$work"
}
trap finish EXIT
trap 'exit 1' INT TERM

init() {
    pgrep -P $nspawn | head -n 1
}
inside() {
    nsenter --target "$(init)" --mount --pid --uts --ipc --net --cgroup --root --wd=/ -- "$@"
}
ask() {
    inside curl --silent --fail --max-time 60 --header "Authorization: Bearer $token" "$@"
}
state_of_run() {
    ask http://127.0.0.1:8080/corpora | grep -o '"state":"[a-z]*"' | head -n 1 | cut -d '"' -f 4
}
run_is() {
    [ "$(state_of_run)" = "$1" ]
}

until_true inside systemctl is-active --quiet dbus
inside systemctl daemon-reload
inside systemctl enable --now headscope
until_true ask http://127.0.0.1:8080/ready
code=$(inside curl --silent --output /dev/null --write-out '%{http_code}' http://127.0.0.1:8080/models)
[ "$code" = 401 ] || fail "without the token: $code, not 401"
[ "$(inside systemctl show --property MemoryMax --value headscope)" != infinity ] || fail "MemoryMax is not in force"

ask --request POST --header 'Content-Type: application/x-ndjson' --data-binary @/root/texts.jsonl \
    http://127.0.0.1:8080/corpora >/dev/null
until_true run_is running
pid=$(inside systemctl show --property MainPID --value headscope)
inside sh -c "cat /proc/$pid/task/*/stat" | awk '$41 == 5 { idle = 1 } END { exit !idle }' ||
    fail "no worker of the run has SCHED_IDLE"

inside systemctl restart headscope # in the middle of the run
until_true ask http://127.0.0.1:8080/ready
inside systemctl kill --signal KILL headscope # Restart=on-failure
until_true ask http://127.0.0.1:8080/ready
until_true run_is done
inside systemctl stop headscope
[ "$(inside systemctl show --property Result --value headscope)" = success ] || fail "it did not stop cleanly"
echo "passed: the unit under systemd $(inside systemctl --version | head -n 1 | cut -d ' ' -f 2)"
