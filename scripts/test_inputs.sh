#!/usr/bin/env bash
# Fetch what the tests read and what is not in the project, once; what cannot be had is said.
#
#   scripts/test_inputs.sh PYTHON DIRECTORY
#
# DIRECTORY/hip-wheels: the libraries of two public wheels, with compiled code objects.
# DIRECTORY/llvm-22: LLVM's header of the kernel descriptor, out of the Debian package llvm-22-dev.
set -euo pipefail
python=$1 out=$2
mkdir -p "$out"

say() { printf 'test inputs: %s\n' "$*" >&2; }

# Unpacked beside its place and moved there whole: what is there is complete.
hip_libraries() {
    local folder=$1 pip
    pip=("$python" -m pip download -q --disable-pip-version-check --retries 1 --no-deps
        --only-binary=:all: --python-version 3.11 -d "$folder")
    "${pip[@]}" --platform manylinux_2_24_x86_64 bitsandbytes==0.50.2 &&
        "${pip[@]}" --implementation cp --platform manylinux_2_32_x86_64 \
            torch-scatter-rocm==2.1.2.post7 &&
        "$python" - "$folder" <<'PYTHON'
import pathlib, re, sys, zipfile
folder = pathlib.Path(sys.argv[1])
for wheel in folder.glob("*.whl"):
    with zipfile.ZipFile(wheel) as packed:
        for name in packed.namelist():
            base = name.rpartition("/")[2]
            if re.fullmatch(r".*rocm.*\.so|_scatter_cuda\.so|_segment_csr_cuda\.so", base):
                (folder / base).write_bytes(packed.read(name))
    wheel.unlink()
PYTHON
}

llvm_header() {
    local folder=$1
    command -v apt-get >/dev/null && command -v dpkg-deb >/dev/null || return 1
    (cd "$folder" && apt-get download -qq llvm-22-dev) || return 1
    dpkg-deb --fsys-tarfile "$folder"/llvm-22-dev_*.deb |
        tar -xO --wildcards '*/llvm/Support/AMDHSAKernelDescriptor.h' \
            >"$folder/AMDHSAKernelDescriptor.h"
    rm "$folder"/llvm-22-dev_*.deb
}

# fetch NAME FUNCTION WHAT: fill DIRECTORY/NAME, unless it is there.
fetch() {
    local place=$out/$1 log
    [ ! -d "$place" ] || return 0
    rm -rf "$place.new"
    mkdir -p "$place.new"
    if log=$("$2" "$place.new" 2>&1); then
        mv "$place.new" "$place"
    else
        rm -rf "$place.new"
        say "no $3 (tests that need them are skipped): $(tail -n 1 <<<"$log")"
    fi
}

[ -n "${COASM_HIP_WHEELS:-}" ] || fetch hip-wheels hip_libraries "libraries with HIP objects"
[ -e /usr/lib/llvm-22/include/llvm/Support/AMDHSAKernelDescriptor.h ] ||
    fetch llvm-22 llvm_header "header of LLVM 22"
