# Sourced by the scripts beside it: what each of them needs first. They use the binary that `make` left, or $HEADSCOPE.
set -eu
root=$(cd "$(dirname "$0")/../.." && pwd)
headscope=${HEADSCOPE:-$root/build/headscope}
work=$(mktemp -d)

skip() {
    echo "skipped: $*"
    rm -rf "$work"
    exit 0
}

fail() {
    echo "FAILED: $*" >&2
    exit 1
}

needs() {
    for tool in "$@"; do
        command -v "$tool" >/dev/null || skip "$(basename "$0" .sh) needs $tool, which is not here"
    done
}

needs_root() {
    [ "$(id -u)" = 0 ] || skip "$(basename "$0" .sh) needs to be root"
}

# until_true COMMAND...: tries it four times a second for a minute.
until_true() {
    for _ in $(seq 240); do
        "$@" >/dev/null 2>&1 && return
        sleep 0.25
    done
    fail "it never came to: $*"
}

# texts N FILE: so many short texts, a JSON object a line, no two alike.
texts() {
    seq "$1" | sed 's/.*/{"text": "Head & of the encoder looks at word & and then at the word before it, & times over."}/' >"$2"
}

# same_report A B: every array of two runs is equal to the bit; what they say of where they come from may differ.
same_report() {
    /usr/bin/python3 - "$1/report.npz" "$2/report.npz" <<'END'
import sys
import numpy
one, other = (numpy.load(path) for path in sys.argv[1:])
differ = [name for name in one if name != "provenance" and one[name].tobytes() != other[name].tobytes()]
sys.exit(f"differ: {differ}" if differ or set(one) != set(other) else 0)
END
}

# debian SUITE FOLDER PACKAGES...: a bare Debian in a folder, with packages beyond what it has by itself.
debian() {
    suite=$1
    folder=$2
    shift 2
    debootstrap --variant=minbase --include="$(echo "$@" | tr -s ' \n' ,)" "$suite" "$folder" >"$work/debootstrap.log" 2>&1 ||
        skip "no Debian could be fetched: $(tail -n 1 "$work/debootstrap.log")"
}
