# shellcheck shell=bash
# Who talks to whom: one launcher a node, which meet at the first node.

# set_distributed: from what Slurm granted, or from this machine alone.
set_distributed() {
    if [[ -n ${SLURM_JOB_ID:-} ]]; then
        NODES=${SLURM_NNODES:-1}
        # Not by `| head`, which may end scontrol by a signal, and the job with it.
        read -r MASTER_ADDR < <(scontrol show hostnames "$SLURM_JOB_NODELIST") ||
            fail "$FAILED" "scontrol does not name the hosts of this job" "see above"
        MASTER_PORT=${MASTER_PORT:-$((29500 + SLURM_JOB_ID % 1000))}
    else
        NODES=1
        MASTER_ADDR=localhost
        MASTER_PORT=${MASTER_PORT:-29500}
    fi
    GPUS_PER_NODE=${GPUS_PER_NODE:-${SLURM_GPUS_ON_NODE:-$SITE_GPUS_PER_NODE}}
    need_count NODES "$NODES"
    need_count GPUS_PER_NODE "$GPUS_PER_NODE"
    need_count MASTER_PORT "$MASTER_PORT"
    WORLD_SIZE=$((NODES * GPUS_PER_NODE))
    export MASTER_ADDR MASTER_PORT WORLD_SIZE NODES GPUS_PER_NODE
}

# set_node_command WORD...: NODE_COMMAND runs it once a node; a node that fails ends the others.
set_node_command() {
    NODE_COMMAND=("${SITE_CONTAINER[@]}" "$@")
    if [[ -n ${SLURM_JOB_ID:-} ]]; then
        # Since 22.05 a step no longer inherits the CPUs that sbatch was asked for.
        [[ -z ${SLURM_CPUS_PER_TASK:-} ]] || export SRUN_CPUS_PER_TASK=$SLURM_CPUS_PER_TASK
        # A job of `sbatch --export=NONE` would hand nothing over that its script has set.
        export SLURM_EXPORT_ENV=ALL
        NODE_COMMAND=(
            srun --nodes="$NODES" --ntasks="$NODES" --ntasks-per-node=1 --kill-on-bad-exit=1
            "${SITE_SRUN_OPTIONS[@]}" "${NODE_COMMAND[@]}"
        )
    fi
}

on_every_node() {
    set_node_command "$@"
    "${NODE_COMMAND[@]}"
}

# next_port: for a second run of the same job. The first may hold its port a moment longer, and the
# second would meet there what is about to go away.
next_port() {
    export MASTER_PORT=$((MASTER_PORT + 1))
}
