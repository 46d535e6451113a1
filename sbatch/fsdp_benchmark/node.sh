#!/usr/bin/env bash
# Start a program on all ranks of this node: node.sh NAME PROGRAM [ARGUMENT...]
set -euo pipefail
# shellcheck source=../lib/log.sh
source "$CCLTUI_SBATCH/lib/log.sh"
# shellcheck source=../lib/options.sh
source "$CCLTUI_SBATCH/lib/options.sh"
# shellcheck source=../lib/site.sh
source "$CCLTUI_SBATCH/lib/site.sh"
# shellcheck source=../lib/torchrun.sh
source "$CCLTUI_SBATCH/lib/torchrun.sh"

name=$1
shift
load_site
site_environment
set_torchrun "$name"
log "node ${SLURM_NODEID:-0} (${SLURMD_NODENAME:-$(hostname)}): $(shell_words "${TORCHRUN[@]}" "$@")"
exec "${TORCHRUN[@]}" "$@"
