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

load_site
site_environment

node=${SLURM_NODEID:-0}
is_host=false
((node != 0)) || is_host=true
launcher=(
    "$PYTHON" -m torch.distributed.run
    --nnodes="$NODES" --nproc-per-node="$GPUS_PER_NODE"
    --rdzv-id="${SLURM_JOB_ID:-$$}.$PROFILER" --rdzv-backend=c10d
    --rdzv-endpoint="$MASTER_ADDR:$MASTER_PORT" --rdzv-conf="is_host=$is_host"
    --local-addr="${SLURMD_NODENAME:-$MASTER_ADDR}"
    "$CCLTUI_SBATCH/lib/train_with_traces.py" "$TRAIN_PROGRAM"
)
if [[ $PROFILER == nsys ]]; then
    # Whole steps, opened by the training itself; without a GPU there is no cudaProfilerApi.
    if [[ $SITE_DEVICE == cuda && $NSYS_STEPS != none ]]; then
        export NSYS_CAPTURE_RANGE=cudaProfilerApi
    else
        unset NSYS_STEPS
    fi
    launcher=("$CCLTUI_SBATCH/nsys/profile.sh" --output "$TRACE_DIR/$RUN_NAME" -- "${launcher[@]}")
fi
log "node $node (${SLURMD_NODENAME:-$(hostname)}): $(shell_words "${launcher[@]}" "$@")"
exec "${launcher[@]}" "$@"
