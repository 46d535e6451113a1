#!/usr/bin/env bash
# Submit this workload; --help lists the options.
#
# A copy of this folder may lie anywhere: CCLTUI_SBATCH, or a file of that name beside this one,
# holds the path of sbatch/ then.
set -euo pipefail
here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
for scripts in "${CCLTUI_SBATCH:-}" "$(cat -- "$here/CCLTUI_SBATCH" 2>/dev/null || true)" "$here/../.."; do
    [[ ! -r $scripts/lib/submit.sh ]] || exec "$scripts/lib/submit.sh" "$here" "$@"
done
echo "run.sh: error: the scripts are not beside this copy of a workload" >&2
echo "    fix: echo /path/of/sbatch >$here/CCLTUI_SBATCH" >&2
exit 2
