#!/usr/bin/env bash
# Train on this node: node.sh [ARGUMENT OF gpt2.py...]; run_2node_8gpu.sbatch calls it through srun.
set -euo pipefail
# shellcheck source=../lib/log.sh
source "$CCLTUI_SBATCH/lib/log.sh"
# shellcheck source=../lib/options.sh
source "$CCLTUI_SBATCH/lib/options.sh"
# shellcheck source=../lib/site.sh
source "$CCLTUI_SBATCH/lib/site.sh"
# shellcheck source=../lib/torchrun.sh
source "$CCLTUI_SBATCH/lib/torchrun.sh"

REPORTS=nvtx_sum,osrt_sum,cuda_api_sum,cuda_gpu_kern_sum

# describe_devices: InfiniBand and GPU topology of the first node, over which ranks communicate.
describe_devices() {
    ((${SLURM_NODEID:-0} == 0)) || return 0
    keep ibstat.txt ibstat
    keep topo.txt nvidia-smi topo -m
}

# keep FILE COMMAND...: its output in the run directory, or a warning.
keep() {
    local file=$1
    shift
    if ! command -v "$1" >/dev/null; then
        warn "no $file: $1 is not installed here"
    elif ! "$@" >"$RUN_DIR/$file" 2>&1; then
        warn "$file: $1 failed"
    fi
}

# profiled WORD...: under nsys, its report and the text of it in profiles/.
profiled() {
    local status=0 report=$RUN_DIR/profiles/nsys_${SLURM_JOB_ID:-local}_$host
    # nsys puts sockets there, whose paths are limited to about a hundred characters.
    TMPDIR=$(mktemp -d /tmp/nsys-XXXXXX) nsys profile --trace=cuda,nvtx,osrt --sample=none \
        --cpuctxsw=none --trace-fork-before-exec=true --force-overwrite=true \
        --output="$report" "$@" || status=$?
    nsys stats --force-export=true --report "$REPORTS" "$report.nsys-rep" \
        >"$RUN_DIR/profiles/nsys_stats_$host.txt" || warn "nsys stats failed on $report.nsys-rep"
    return "$status"
}

load_site
site_environment
host=${SLURMD_NODENAME:-$(hostname)}
if [[ $NCCL_LOGS == 1 ]]; then
    export NCCL_DEBUG=INFO NCCL_DEBUG_FILE="$RUN_DIR/nccl_rank_%h_%p.log"
    export NCCL_TOPO_DUMP_FILE="$RUN_DIR/nccl_topo.xml"
    describe_devices
fi
[[ $DIST_DEBUG != 1 ]] || export TORCH_DISTRIBUTED_DEBUG=DETAIL
set_torchrun training
if [[ $TORCHRUN_LOGS == 1 ]]; then
    TORCHRUN+=(--log-dir="$RUN_DIR/torchrun_logs/$host" --redirects=3 --tee=3)
fi
words=("${TORCHRUN[@]}" "$CCLTUI_SBATCH/gpt2_deepspeed/gpt2.py" "$@")
log "node ${SLURM_NODEID:-0} ($host): $(shell_words "${words[@]}")"
if [[ $NSYS == 1 ]]; then profiled "${words[@]}"; else exec "${words[@]}"; fi
