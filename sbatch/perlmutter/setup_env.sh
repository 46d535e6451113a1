#!/usr/bin/env bash
# ../setup_env.sh with the settings of Perlmutter; --help lists the options.
set -euo pipefail
export CCLTUI_SITE=${CCLTUI_SITE:-perlmutter}
exec "$(cd -P -- "$(dirname -- "${BASH_SOURCE[0]}")/.." && pwd)/setup_env.sh" "$@"
