#!/usr/bin/env bash
# Start training on this node; job.sh calls it once a node, through srun.
#
# It gets its settings from the environment that job.sh set, and the arguments of the training
# program as its own.
set -euo pipefail
# shellcheck source=log.sh
source "$CCLTUI_SBATCH/lib/log.sh"
# shellcheck source=options.sh
source "$CCLTUI_SBATCH/lib/options.sh"
# shellcheck source=site.sh
source "$CCLTUI_SBATCH/lib/site.sh"
# shellcheck source=torchrun.sh
source "$CCLTUI_SBATCH/lib/torchrun.sh"
# shellcheck source=records.sh
source "$CCLTUI_SBATCH/lib/records.sh"
# shellcheck source=network.sh
source "$CCLTUI_SBATCH/lib/network.sh"

load_site
log_network
site_environment

# Large models fill the memory to a few percent; what freed blocks leave between them is lost.
export PYTORCH_CUDA_ALLOC_CONF=${PYTORCH_CUDA_ALLOC_CONF:-expandable_segments:True}

set_torchrun "$PROFILER"
launcher=("${TORCHRUN[@]}" "$CCLTUI_SBATCH/lib/train_with_traces.py" "$TRAIN_PROGRAM")
if [[ $PROFILER == nsys ]]; then
    # Whole steps, opened by the training itself; without a GPU there is no cudaProfilerApi.
    if [[ $SITE_DEVICE == cuda && $NSYS_STEPS != none ]]; then
        export NSYS_CAPTURE_RANGE=cudaProfilerApi
    else
        unset NSYS_STEPS
    fi
    launcher=("$CCLTUI_SBATCH/nsys/profile.sh" --output "$TRACE_DIR/$RUN_NAME" -- "${launcher[@]}")
fi
log "node ${SLURM_NODEID:-0} (${SLURMD_NODENAME:-$(hostname)}): $(shell_words "${launcher[@]}" "$@")"
if recorders_on; then
    set_recorders
    run_recorded "${launcher[@]}" "$@"
else
    exec "${launcher[@]}" "$@"
fi
