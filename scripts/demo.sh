#!/usr/bin/env bash
# Take a small kernel through the whole trip: look at it, list it, assemble it, prove it equal.
#
#   scripts/demo.sh DIRECTORY_OF_COASM OUTPUT_DIRECTORY
set -euo pipefail
cd "$(dirname "$0")/.."
bin=$1 out=$2
export PATH="$PWD/$bin:$PATH"

show() {
    printf '\n$ %s\n' "$*"
    "$@"
}

rm -rf "$out"
mkdir -p "$out"
python tests/fixtures/build.py "$out" vector_add-gfx942-v5
mv "$out/vector_add-gfx942-v5.co" "$out/vector_add.co"

show coasm info "$out/vector_add.co"
show coasm disasm "$out/vector_add.co" -o "$out/vector_add.s"
show cat "$out/vector_add.s"
show coasm asm "$out/vector_add.s" -o "$out/rebuilt.co"
show coasm verify "$out/vector_add.co" "$out/rebuilt.co"
show coasm run "$out/rebuilt.co" --spec tests/fixtures/vector_add.yaml
show coasm run --spec examples/mx_gemm.yaml
if [ -n "${COASM_CORPUS:-}" ]; then # kernels that aiter ships, against NumPy
    cp examples/launches/*.yaml "$out"
    python examples/launches/inputs.py "$out"
    for spec in examples/launches/*.yaml; do
        object=$(sed -n 's|^# coasm run $AITER/\([^ ]*\).*|\1|p' "$spec")
        show coasm run "$COASM_CORPUS/$object" --spec "$out/$(basename "$spec")"
    done
fi
printf '\nNow edit %s, and run asm, verify and run again.\n' "$out/vector_add.s"
