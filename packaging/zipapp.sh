#!/usr/bin/env bash
# Make one file that runs where nothing but Python is installed, also from a shared file system:
#
#   packaging/zipapp.sh ccltui.pyz [WHEEL]      # WHEEL: ccltui of a release; default: the checkout
#
# The file is for the Python and the machine that make it: numpy and other packages are compiled. At
# its first start it unpacks itself into SHIV_ROOT (default: ~/.shiv); later starts use that.
set -euo pipefail

if (($# < 1 || $# > 2)); then
    sed -n '2,7s/^# \{0,1\}//p' "$0" >&2
    exit 2
fi
target=$1
checkout=$(cd "$(dirname "$0")/.." && pwd)
python=${PYTHON:-python3}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

"$python" -m venv "$work/tools"
"$work/tools/bin/pip" install --quiet "shiv>=1.0.8" "setuptools>=77"
minor=$("$python" -c 'import sys; print("python%d.%d" % sys.version_info[:2])')
"$work/tools/bin/shiv" --quiet --console-script ccltui --output-file "$target" \
    --python "/usr/bin/env $minor" --reproducible "${2:-$checkout}"
ls -l "$target"
