#!/usr/bin/env bash
# ../submit_all.sh with the settings of Perlmutter; --help lists the options.
set -euo pipefail
export CCLTUI_SITE=${CCLTUI_SITE:-perlmutter}
exec "$(dirname -- "${BASH_SOURCE[0]}")/../submit_all.sh" "$@"
