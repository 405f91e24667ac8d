#!/bin/bash
# Uses the wheel and the tarball of dist/ on bare Debian machines that have nothing but Python, as a user without
# privileges: the command, the module, the quick-start notebook, the client's tests. Runs the aarch64 wheel's program
# under qemu-user and compares its answer with that of x86-64.
#     tests/platforms/wheel.sh [SUITE...]
set -euo pipefail
cd "$(dirname "$0")/../.."
version=$(sed -n 's/.*HS_VERSION "\(.*\)"/\1/p' server/base/version.h)
wheel=headscope-$version-py3-none-manylinux_2_31
tarball=headscope-$version-linux-x86_64.tar.gz

fail() {
    echo "wheel.sh: $1" >&2
    exit 1
}

# The part on the bare machine; the user's steps are below.
on_machine() {
    apt-get update -q >/dev/null
    apt-get install -q -y --no-install-recommends python3 python3-venv librsvg2-bin fonts-dejavu-core >/dev/null 2>&1
    useradd --create-home --shell /bin/bash somebody
    cp "../${wheel}_x86_64.whl" "../$tarball" examples/quick-start.ipynb tests/platforms/wheel_session.py ~somebody
    tar -c tests/api/conftest.py tests/api/test_client_python.py clients/python/README.md model/mini | tar -x -C ~somebody
    chown -R somebody: ~somebody
    su somebody -c "$PWD/tests/platforms/wheel.sh --user"
}

as_user() {
    cd
    python3 -m venv venv
    venv/bin/pip install --quiet "./${wheel}_x86_64.whl"
    venv/bin/python wheel_session.py
    echo "wheel.sh: the command and the module work"

    tar -xf "$tarball"
    echo "It runs." | "${tarball%.tar.gz}/bin/headscope" analyze | grep -q '"it","runs"'
    echo "wheel.sh: the unpacked program works"

    venv/bin/pip install --quiet nbconvert ipykernel matplotlib pytest
    venv/bin/jupyter nbconvert --log-level=ERROR --to notebook --execute --output done quick-start.ipynb
    grep -q image/png done.ipynb
    echo "wheel.sh: the notebook runs"

    HEADSCOPE=$HOME/venv/bin/headscope venv/bin/python -m pytest -q -p no:cacheprovider tests/api/test_client_python.py
}

aarch64() {
    local work machine far
    work=$(mktemp -d)
    # shellcheck disable=SC2064 # this folder
    trap "rm -rf '$work'" EXIT
    for machine in x86_64 aarch64; do
        /usr/bin/python3 -m zipfile -e "dist/${wheel}_$machine.whl" "$work/$machine"
        chmod +x "$work/$machine/headscope/bin/headscope"
        local run=()
        if [ "$machine" = aarch64 ]; then run=(qemu-aarch64 -L build/portable/parts/aarch64/sysroot); fi
        echo "The old bridge [MASK] closed after the war." |
            "${run[@]}" "$work/$machine/headscope/bin/headscope" analyze - --layers all -o "$work/$machine.npz"
    done
    far=$(/usr/bin/python3 -c 'import sys, numpy
one, other = (numpy.load(path)["attentions"] for path in sys.argv[1:])
assert one.shape == other.shape
print(abs(one - other).max())' "$work/x86_64.npz" "$work/aarch64.npz")
    /usr/bin/python3 -c "assert $far < 1e-4" || fail "aarch64's attention differs from x86-64's by $far"
    echo "wheel.sh: the aarch64 program works under qemu-user; its attention is within $far of x86-64's"
}

case "${1:-}" in
--machine)
    on_machine
    exit
    ;;
--user)
    as_user
    exit
    ;;
esac
for file in "dist/${wheel}_x86_64.whl" "dist/${wheel}_aarch64.whl"; do
    [ -e "$file" ] || fail "$file is not there: run make wheel"
    [ "$(stat -c %s "$file")" -le 20000000 ] || fail "$file has $(stat -c %s "$file") bytes; 20 MB are allowed"
done
aarch64
for suite in "${@:-bullseye bookworm trixie sid}"; do
    for one in $suite; do
        tests/platforms/bare.sh --with "dist/${wheel}_x86_64.whl" --with "dist/$tarball" "$one" \
            "tests/platforms/wheel.sh --machine"
        echo "wheel.sh: passed on $one"
    done
done
