# shellcheck shell=bash
# Functions of both jobs of this folder. CCLTUI_SBATCH is the path of sbatch/.

CCLTUI_SBATCH=$(cd -- "$CCLTUI_SBATCH" && pwd)
FSDP_BENCHMARK=$CCLTUI_SBATCH/fsdp_benchmark
export CCLTUI_SBATCH FSDP_BENCHMARK PROGRAM=${PROGRAM:-job}
# shellcheck source=../lib/log.sh
source "$CCLTUI_SBATCH/lib/log.sh"
# shellcheck source=../lib/options.sh
source "$CCLTUI_SBATCH/lib/options.sh"
# shellcheck source=../lib/site.sh
source "$CCLTUI_SBATCH/lib/site.sh"
# shellcheck source=../lib/paths.sh
source "$CCLTUI_SBATCH/lib/paths.sh"
# shellcheck source=../lib/distributed.sh
source "$CCLTUI_SBATCH/lib/distributed.sh"
# shellcheck source=../lib/follow_site.sh
source "$CCLTUI_SBATCH/lib/follow_site.sh"

# prepare [ARGUMENT OF THE BATCH SCRIPT...]: settings of the site, the Python that is used, and the
# number of nodes and ranks.
prepare() {
    load_site
    follow_site "$@"
    set_paths
    set_caches
    load_modules
    PYTHON=$VENV_DIR/bin/python
    [[ ! -x ./.venv/bin/python ]] || PYTHON=$PWD/.venv/bin/python
    "$PYTHON" -P -c 'import torch, yaml, numpy' 2>/dev/null ||
        fail "$FAILED" "$PYTHON has no torch, NumPy and PyYAML" \
            "uv pip install -r $FSDP_BENCHMARK/requirements.txt, in .venv here or in VENV_DIR"
    set_distributed
    export PYTHON
    log "$NODES x $GPUS_PER_NODE ranks, site $SITE_NAME"
}

# launch NAME PROGRAM [ARGUMENT...]: one torchrun a node.
launch() {
    local name=$1
    shift
    [[ ! ${DRY_RUN:-no} == yes ]] || {
        log "would run on each of $NODES nodes: torchrun $(shell_words "$@")"
        return 0
    }
    on_every_node bash "$FSDP_BENCHMARK/node.sh" "$name" "$@"
}

# run_benchmark: run benchmark.py with BENCHMARK_ARGUMENTS.
run_benchmark() {
    local words
    read -ra words <<<"${BENCHMARK_ARGUMENTS:-}"
    launch benchmark "$FSDP_BENCHMARK/benchmark.py" --device "$SITE_DEVICE" \
        --storage "${STORAGE_DIR:-$PWD}" \
        --output "logs/benchmark_${SLURM_JOB_ID:-local}.yaml" "${words[@]}"
}

# run_training ARGUMENT...
run_training() {
    launch training "$FSDP_BENCHMARK/train.py" "$@"
}
