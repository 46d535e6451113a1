#!/usr/bin/env bash
# Build every compiled module with AddressSanitizer and UndefinedBehaviorSanitizer, in a copy of the
# tree, and run changed inputs and the tests of those modules with them. A report ends the run.
#
#     tests/fuzz/sanitize.sh [PYTHON] [INPUTS]
#
# PYTHON: an interpreter with the development packages; INPUTS: changed inputs for each reader.
set -euo pipefail
cd "$(dirname "$0")/../.."

python=$(realpath -s "${1:-.venv/bin/python}")
inputs=${2:-4000}
copy=$(mktemp -d -t sanitize-XXXXXX)
trap 'rm -rf "$copy"' EXIT

tar -c --exclude='*.so' --exclude='*.c' --exclude=__pycache__ \
    setup.py pyproject.toml README.md LICENSE ccltui parsers metrics bench tests | tar -x -C "$copy"
cd "$copy"
# Undefined behaviour ends the process too.
export CFLAGS="-fsanitize=address,undefined -fno-sanitize-recover=all -g -O1 -fno-omit-frame-pointer"
LDFLAGS="-fsanitize=address,undefined" "$python" setup.py -q build_ext --inplace 2>build.log ||
    { cat build.log && exit 1; }
for library in parsers/kineto/scanner/_scanner parsers/nsys/sqlite/_btree \
    metrics/arrays/_intervals metrics/arrays/_near_ends metrics/arrays/_passes parsers/store/_cut_files \
    parsers/inspector/_line_scanner parsers/pftrace/_packet_scanner; do
    [[ $(nm -D "$library".*.so) == *__asan_* ]] || { echo "$library has no sanitizer" && exit 1; }
done

# Python's own allocator would hide where a buffer ends; the interpreter keeps memory at its end.
export PYTHONMALLOC=malloc PYTHONPATH=$copy CCLTUI_ACCEL=1
export ASAN_OPTIONS=detect_leaks=0:quarantine_size_mb=16:allocator_may_return_null=1:exitcode=99
export UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1
LD_PRELOAD="$(gcc -print-file-name=libasan.so) $(gcc -print-file-name=libubsan.so)"
export LD_PRELOAD
"$python" -c 'import ccltui, sys; sys.exit(not ccltui.__file__.startswith(sys.argv[1]))' "$copy"
"$python" tests/fuzz/run_fuzz.py kineto xla nsys_sqlite sqlite_pages inspector pftrace --engine random --seed 1 \
    --inputs "$inputs"
"$python" -m pytest -q -p no:cacheprovider tests/parsers/kineto tests/parsers/nsys/test_nsys_btree.py \
    tests/parsers/nsys/test_nsys_damage.py tests/metrics/arrays
