#!/usr/bin/env bash
# Collect the wheels that an install needs on a machine without a network.
#
#   packaging/wheelhouse.sh FOLDER [PYTHON_VERSION [MACHINE]]     # 3.12 aarch64; default: those here
#
# On the other machine, after copying FOLDER:
#
#   python3 -m venv ENV && ENV/bin/pip install --no-index --find-links FOLDER ccltui
#
# CCLTUI_FROM is what pip installs: ccltui, a wheel, or by default the checkout, which is built here:
# for another version of Python with the limited API, for another machine without compiled modules.
set -euo pipefail

if (($# < 1 || $# > 3)); then
    sed -n '2,11s/^# \{0,1\}//p' "$0" >&2
    exit 2
fi
folder=$1
version=${2:-}
machine=${3:-$(uname -m)}
checkout=$(cd "$(dirname "$0")/.." && pwd)
from=${CCLTUI_FROM:-$checkout}
python=${PYTHON:-python3}
mkdir -p "$folder"

if [[ -d $from ]]; then
    if [[ $machine != "$(uname -m)" ]]; then
        export CCLTUI_WHEEL=pure
    elif [[ -n $version ]]; then
        export CCLTUI_WHEEL=abi3
    fi
    "$python" -m pip wheel --quiet --no-deps --wheel-dir "$folder" "$from"
    from=$(find "$folder" -name 'ccltui-*.whl' | sort | tail -n 1)
fi
options=(--quiet --only-binary ":all:" --dest "$folder" --find-links "$folder")
if [[ -n $version ]]; then
    # pip judges conditions of requirements by the Python that runs it: an exact one is best run with
    # PYTHON=python$version.
    options+=(--python-version "$version" --implementation cp --platform "linux_$machine")
    for glibc in 2_17 2_28 2_34; do
        options+=(--platform "manylinux_${glibc}_$machine")
    done
fi
"$python" -m pip download "${options[@]}" "$from"
echo "$folder: $(find "$folder" -name '*.whl' | wc -l) wheels"
