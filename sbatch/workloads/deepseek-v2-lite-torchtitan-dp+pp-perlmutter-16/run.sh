#!/usr/bin/env bash
# Submit this workload; --help lists the options.
set -euo pipefail
here=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
exec "$here/../../lib/submit.sh" "$here" "$@"
