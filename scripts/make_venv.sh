#!/bin/sh
# Makes a virtual environment with a Python that is new enough, and installs the system packages
# this needs where it may.
#
#     sh scripts/make_venv.sh .venv
set -eu

venv=$1

is_new_enough() {
    "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1
}

# Debian and Ubuntu ship Python without ensurepip, and without it an environment has no pip.
can_make_venv() {
    "$1" -c 'import ensurepip, venv' >/dev/null 2>&1
}

# Prints the first Python that will do.
find_python() {
    for name in python3 python3.13 python3.12 python3.11 python3.14; do
        if is_new_enough "$name" && can_make_venv "$name"; then
            echo "$name"
            return 0
        fi
    done
    return 1
}

# Prints the packages worth trying, one set a line, the likeliest first.
package_sets() {
    for name in python3 python3.13 python3.12 python3.11; do
        if is_new_enough "$name"; then
            echo "$name-venv"
        fi
    done
    # Where the system's own Python is too old, only one beside it helps.
    command -v python3 >/dev/null 2>&1 || echo "python3 python3-venv"
    echo "python3.11 python3.11-venv"
    echo "python3.12 python3.12-venv"
}

fail() {
    echo "Python 3.11 or newer with its venv module is needed and was not found; $1" >&2
    exit 1
}

# Installs package sets until a Python is found.
install_python() {
    likeliest=$(package_sets | head -n 1)
    command -v apt-get >/dev/null 2>&1 || fail "install it and call make again"
    if [ "$(id -u)" -eq 0 ]; then
        root=""
    elif sudo -n true >/dev/null 2>&1; then
        root="sudo -n"
    else
        fail "type: sudo apt-get install $likeliest"
    fi
    echo "Installing the system package(s) $likeliest" >&2
    $root apt-get update -qq >/dev/null || fail "apt-get update failed; see above"
    package_sets | while read -r packages; do
        # Words are meant to split: a set is several packages.
        # shellcheck disable=SC2086
        $root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq $packages \
            >/dev/null 2>&1 </dev/null || continue
        find_python >/dev/null && break
    done || true # find_python has the last word
}

works() {
    [ ! -e "$venv/.installing" ] && is_new_enough "$venv/bin/python" &&
        "$venv/bin/python" -m pip --version >/dev/null 2>&1
}

if works; then
    exit 0
fi
python=$(find_python) || {
    install_python
    python=$(find_python) || fail "type: sudo apt-get install $(package_sets | head -n 1)"
}
echo "Making $venv with $("$python" --version)"
"$python" -m venv --clear "$venv"
