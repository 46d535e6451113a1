# shellcheck shell=bash
# ../activate.sh with the settings of Perlmutter: source it on a login node.

export CCLTUI_SITE=${CCLTUI_SITE:-perlmutter}
# shellcheck source=../activate.sh
source "$(dirname -- "${BASH_SOURCE[0]:-$0}")/../activate.sh"
