# shellcheck shell=bash
# Functions of run_2node_8gpu.sbatch. CCLTUI_SBATCH is the path of sbatch/.

CCLTUI_SBATCH=$(cd -- "$CCLTUI_SBATCH" && pwd)
GPT2_DEEPSPEED=$CCLTUI_SBATCH/gpt2_deepspeed
export CCLTUI_SBATCH PROGRAM=${PROGRAM:-job}
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

SWITCHES=(NSYS NCCL_LOGS TORCHRUN_LOGS DIST_DEBUG)

set_switches() {
    local name
    for name in "${SWITCHES[@]}"; do
        export "$name=${!name:-0}"
        need_one_of "$name" "${!name}" 0 1
    done
    export GRAD_ACCUM_STEPS=${GRAD_ACCUM_STEPS:-2}
    export MICRO_BATCH_SIZE_PER_GPU=${MICRO_BATCH_SIZE_PER_GPU:-2}
    export GPT2_EXTRA_ARGS=${GPT2_EXTRA_ARGS:-}
    need_count GRAD_ACCUM_STEPS "$GRAD_ACCUM_STEPS"
    need_count MICRO_BATCH_SIZE_PER_GPU "$MICRO_BATCH_SIZE_PER_GPU"
    DEEPSPEED_CONFIG=${DEEPSPEED_CONFIG:-$GPT2_DEEPSPEED/deepspeed_config.json}
    [[ $DEEPSPEED_CONFIG == */* ]] || DEEPSPEED_CONFIG=$GPT2_DEEPSPEED/$DEEPSPEED_CONFIG
    find_data
}

# find_data: tokens are where the job was submitted, or beside the scripts.
find_data() {
    [[ -z ${DATA_DIR:-} ]] || return 0
    DATA_DIR=$PWD
    [[ -r $PWD/train_small.bin || ! -r $GPT2_DEEPSPEED/train_small.bin ]] || DATA_DIR=$GPT2_DEEPSPEED
}

need_run_dir() {
    [[ -n ${RUN_DIR:-} ]] || fail "$USAGE" "RUN_DIR is not set" \
        "name a folder for this run on a file system that all nodes share"
    # Tasks of an array are runs of one command: each has a folder of its own.
    RUN_DIR=$(realpath -m -- "$RUN_DIR${SLURM_ARRAY_TASK_ID:+/$SLURM_ARRAY_TASK_ID}")
    export RUN_DIR
    [[ ! -e $RUN_DIR/RUN_COMPLETE.txt ]] || fail "$USAGE" "$RUN_DIR holds a finished run" \
        "give another RUN_DIR: runs are never written over"
}

need_files() {
    local file
    for file in "$DATA_DIR/train_small.bin" "$DATA_DIR/val_small.bin"; do
        [[ -r $file ]] || fail "$FAILED" "no $file" \
            "make it with scripts/download_data.py and scripts/preprocess_small.py, or set DATA_DIR"
    done
    [[ -r $DEEPSPEED_CONFIG ]] || fail "$FAILED" "no $DEEPSPEED_CONFIG" "set DEEPSPEED_CONFIG"
    [[ $NSYS == 0 ]] || command -v nsys >/dev/null || fail "$FAILED" \
        "NSYS=1, but nsys is not on the PATH" "load its module (SITE_MODULES in $CCLTUI_SITE)"
    need_packages
}

# need_packages: those of the engine that is used, none of which is imported here: that takes seconds.
# What only says what would run says that too.
need_packages() {
    local names=(torch numpy) missing
    [[ " $GPT2_EXTRA_ARGS " == *" --plain_ddp "* ]] || names+=(deepspeed)
    [[ -x $PYTHON ]] || fail "$FAILED" "no Python environment in $VENV_DIR" "make one and set VENV_DIR"
    missing=$("$PYTHON" -P -c 'import importlib.util as i, sys; print(*(n for n in sys.argv[1:] if i.find_spec(n) is None))' "${names[@]}") ||
        fail "$FAILED" "$PYTHON does not run" "set VENV_DIR"
    [[ -n $missing ]] || return 0
    if [[ ${DRY_RUN:-no} == yes ]]; then
        warn "$PYTHON has no ${missing// / and no }: this run would be refused"
        return
    fi
    fail "$FAILED" "$PYTHON has no ${missing// / and no }" \
        "pip install -r $GPT2_DEEPSPEED/requirements.txt there; --plain_ddp in GPT2_EXTRA_ARGS needs no deepspeed"
}

# gpt2_words: WORDS, the command line of gpt2.py.
gpt2_words() {
    local extra
    read -ra extra <<<"$GPT2_EXTRA_ARGS"
    WORDS=(
        --run_dir "$RUN_DIR" --deepspeed_config "$DEEPSPEED_CONFIG"
        --train_data "$DATA_DIR/train_small.bin" --val_data "$DATA_DIR/val_small.bin"
        --grad_accum_steps "$GRAD_ACCUM_STEPS"
        --micro_batch_size_per_gpu "$MICRO_BATCH_SIZE_PER_GPU" "${extra[@]}"
    )
}

# check_run: what a run needs, in the job and before it is submitted.
check_run() {
    set_switches
    need_run_dir
    set_paths
    set_caches
    load_modules
    export PYTHON=$VENV_DIR/bin/python
    need_files
}

run_gpt2() {
    local status=0
    load_site
    need_site_options "$@"
    check_run
    set_distributed
    gpt2_words
    [[ ${DRY_RUN:-no} == yes ]] || load_network
    if [[ ${DRY_RUN:-no} == yes ]]; then
        log "would run on each of $NODES nodes, $GPUS_PER_NODE ranks: gpt2.py $(shell_words "${WORDS[@]}")"
        return 0
    fi
    mkdir -p -- "$RUN_DIR/profiles"
    ((NSYS)) || rmdir -- "$RUN_DIR/profiles"
    LAUNCHER_SWITCHES="${SWITCHES[*]} GRAD_ACCUM_STEPS MICRO_BATCH_SIZE_PER_GPU GPT2_EXTRA_ARGS" \
        "$PYTHON" "$CCLTUI_SBATCH/lib/launcher_metadata.py" >"$RUN_DIR/launcher_metadata.json"
    on_every_node bash "$GPT2_DEEPSPEED/node.sh" "${WORDS[@]}" 2>&1 | tee "$RUN_DIR/train.log" || status=$?
    if ((NSYS)); then
        "$PYTHON" "$GPT2_DEEPSPEED/scripts/parse_nsys_stats.py" --run_dir "$RUN_DIR" ||
            warn "no profiles/profile_summary.json: $PYTHON needs what ccltui needs"
    fi
    ((status == 0)) || log "error: training ended with status $status; $RUN_DIR/train.log says why"
    log "next: ccltui $RUN_DIR"
    return "$status"
}
