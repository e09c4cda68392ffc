#!/usr/bin/env bash
# Make a virtual environment with the package in it, and see that there is an LLVM.
#
#   scripts/setup.sh VENV           make VENV, install the package and what its tests need
#   scripts/setup.sh VENV --check   only LLVM and the bytecode
#
# What is missing is installed with apt-get where that is possible without a question (as root, or
# with sudo that asks for no password); elsewhere the script says what to install.
set -euo pipefail
cd "$(dirname "$0")/.."
venv=$1

say() { printf 'setup: %s\n' "$*" >&2; }
fail() {
    say "$*"
    exit 1
}

# install_packages PACKAGE…: install them, or return 1 where that is not possible.
install_packages() {
    command -v apt-get >/dev/null || return 1
    local sudo=()
    if [ "$(id -u)" != 0 ]; then
        sudo -n true 2>/dev/null || return 1
        sudo=(sudo -n)
    fi
    say "apt-get install $*"
    "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive apt-get update -qq >&2 ||
        say "apt-get update failed; trying with the package lists that are there"
    local package
    for package in "$@"; do
        if ! apt-cache show "$package" >/dev/null 2>&1; then
            say "$package is not in the configured package sources (/etc/apt/sources.list*)"
            return 1
        fi
    done
    "${sudo[@]}" env DEBIAN_FRONTEND=noninteractive \
        apt-get install -y -qq --no-install-recommends "$@" >&2
}

# The first Python from 3.10 on that can make a virtual environment.
find_python() {
    local python
    for python in ${PYTHON:-} python3 python3.{14,13,12,11,10} /usr/bin/python3; do
        if "$python" -c '
import sys, venv, ensurepip
sys.exit(sys.version_info < (3, 10))' 2>/dev/null; then
            printf '%s\n' "$python"
            return 0
        fi
    done
    return 1
}

make_venv() {
    local python
    if ! python=$(find_python); then
        install_packages python3 python3-venv || true
        python=$(find_python) || fail "Python 3.10 or newer with its venv module is needed;" \
            "install it (Debian: apt-get install python3 python3-venv)"
    fi
    say "making $venv with $("$python" --version)"
    "$python" -m venv "$venv"
    # A plain path: what setuptools puts there otherwise is imported at each start (5 ms). An old pip
    # does not know the setting, and ignores a variable.
    PIP_CONFIG_SETTINGS=editable_mode=compat \
        "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --editable '.[test]' ||
        fail "pip could not install the package (is the package index reachable?)"
    # pip's own settings may keep it from compiling; start-up time is measured.
    "$venv/bin/python" -m compileall -q "$venv/lib" >/dev/null || true
}

find_llvm() {
    "$venv/bin/python" - <<'PYTHON'
import sys
from coasm.errors import CoasmError
from coasm.llvm.find import find_llvm
try:
    find_llvm(processor="gfx942")
except CoasmError as error:
    sys.exit(str(error))
PYTHON
}

check_llvm() {
    local problem
    problem=$(find_llvm 2>&1) && return 0
    [ -z "${COASM_LLVM:-}" ] || fail "$problem" # named by hand: never replaced
    install_packages clang-22 clang-tools-22 lld-22 llvm-22 || fail "$problem"
    problem=$(find_llvm 2>&1) || fail "$problem"
}

if [ "${2:-}" = --check ]; then
    "$venv/bin/python" -c 'import coasm' 2>/dev/null || make_venv # its Python is gone
    check_llvm
    "$venv/bin/python" -m compileall -q coasm
else
    make_venv
fi
