# shellcheck shell=bash
# Build the command of one torchrun on this node; rendezvous is on the first node.

# set_torchrun ID: TORCHRUN, for the node that it is called on; ID tells jobs and runs apart.
set_torchrun() {
    local is_host=false trainer=$PYTHON
    ((${SLURM_NODEID:-0} != 0)) || is_host=true
    ((${#SITE_CONTAINER[@]} == 0)) || trainer=$SITE_CONTAINER_PYTHON
    # shellcheck disable=SC2034
    TORCHRUN=(
        "$trainer" -P -m torch.distributed.run
        --nnodes="$NODES" --nproc-per-node="$GPUS_PER_NODE"
        --rdzv-id="${SLURM_JOB_ID:-$$}.$1" --rdzv-backend=c10d
        --rdzv-endpoint="$MASTER_ADDR:$MASTER_PORT" --rdzv-conf="is_host=$is_host"
        --local-addr="${SLURMD_NODENAME:-$MASTER_ADDR}"
    )
}
