#!/usr/bin/env bash
# ../submit_all.sh with the settings of Perlmutter; --help lists the options.
set -euo pipefail
export CCLTUI_SITE=${CCLTUI_SITE:-perlmutter}
exec "$(cd -P -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd)/submit_all.sh" "$@"
