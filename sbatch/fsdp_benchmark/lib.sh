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
# shellcheck source=../lib/network.sh
source "$CCLTUI_SBATCH/lib/network.sh"
# shellcheck source=../lib/site_options.sh
source "$CCLTUI_SBATCH/lib/site_options.sh"

# prepare [ARGUMENT OF THE BATCH SCRIPT...]: settings of the site, the Python that is used, and the
# number of nodes and ranks.
prepare() {
    make_logs
    load_site
    need_site_options "$@"
    set_paths
    set_caches
    load_modules
    find_training_python
    "$PYTHON" -P -c 'import torch, yaml, numpy' 2>/dev/null ||
        fail "$FAILED" "$PYTHON has no torch, NumPy and PyYAML" \
            "uv pip install -r $FSDP_BENCHMARK/requirements.txt, in .venv here or there, or in VENV_DIR"
    set_distributed
    export PYTHON
    [[ ${DRY_RUN:-no} == yes ]] || load_network
    log "$NODES x $GPUS_PER_NODE ranks, site $SITE_NAME"
}

# make_logs: Slurm opens its logs before a script can make a folder, so they are moved there; what is
# written to an open file arrives in it under its new name too. After a requeue the name is taken.
make_logs() {
    local file new
    mkdir -p logs || fail "$FAILED" "$PWD/logs cannot be made" "submit from a folder that you can write to"
    [[ -n ${SLURM_JOB_ID:-} ]] || return 0
    for file in {train,benchmark}_"$SLURM_JOB_ID".{out,err}; do
        [[ -f $file ]] || continue
        new=logs/$file
        [[ ! -e $new ]] || new=logs/${file%.*}_restart${SLURM_RESTART_COUNT:-1}.${file##*.}
        mv -- "$file" "$new"
    done
}

# find_training_python: an environment in .venv here, or beside the scripts, else that of VENV_DIR.
find_training_python() {
    local folder
    for folder in "$PWD/.venv" "$FSDP_BENCHMARK/.venv" "$VENV_DIR"; do
        PYTHON=$folder/bin/python
        [[ ! -x $PYTHON ]] || break
    done
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
