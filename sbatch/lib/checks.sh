# shellcheck shell=bash
# Check the requirements of a job before it starts; each failure message has a solution.

need_training_python() {
    [[ -x $VENV_DIR/bin/python ]] || fail "$FAILED" "no Python environment in $VENV_DIR" \
        "run $CCLTUI_SBATCH/setup_env.sh once on a login node, or set VENV_DIR"
    export PYTHON=$VENV_DIR/bin/python
}

# set_profile_mode: as chosen, else both profilers, one run after the other. A CPU has nothing that
# nsys would add.
set_profile_mode() {
    PROFILE_MODE_CHOSEN=yes
    if [[ -z ${PROFILE_MODE:-} ]]; then
        PROFILE_MODE_CHOSEN=no
        PROFILE_MODE=both
        [[ $SITE_DEVICE == cuda ]] || PROFILE_MODE=torch
    fi
    need_one_of PROFILE_MODE "$PROFILE_MODE" torch nsys both
}

set_program() {
    export TRAIN_PROGRAM=${CCLTUI_TRAIN_PROGRAM:-torchtitan.train}
}

# set_nsys_steps: the steps that nsys records, where nobody chose them: five, up to the 15th.
set_nsys_steps() {
    local last=$((FACTS[steps] < 15 ? FACTS[steps] : 15))
    export NSYS_STEPS=${NSYS_STEPS:-$((last > 4 ? last - 4 : 1))-$last}
}

# use_present_gpus: in a job the memory is that of its GPUs, and no larger nodes are to be had.
use_present_gpus() {
    local mib
    SITE_LARGE_GPU_MEMORY_GIB=""
    [[ $SITE_DEVICE == cuda && -n ${SLURM_JOB_ID:-} ]] || return 0
    mib=$(nvidia-smi --query-gpu=memory.total --format=csv,noheader,nounits 2>/dev/null | sort -n | sed -n 1p) || mib=""
    [[ ! $mib =~ ^[1-9][0-9]{0,8}$ ]] || SITE_GPU_MEMORY_GIB=$((mib / 1024))
}

# need_program: what is to be trained can be started.
need_program() {
    if [[ $TRAIN_PROGRAM == *.py ]]; then
        [[ -r $TRAIN_PROGRAM ]] || fail "$FAILED" "no training program $TRAIN_PROGRAM" \
            "give --train-program a module or the path of a script"
        return
    fi
    # The program may lie in the working directory; what is imported to look for it must not.
    "$PYTHON" -P -c 'import importlib.util as i, sys; sys.path.insert(0, ""); sys.exit(i.find_spec(sys.argv[1].split(".")[0]) is None)' \
        "$TRAIN_PROGRAM" || fail "$FAILED" "$PYTHON has no module $TRAIN_PROGRAM" \
        "run $CCLTUI_SBATCH/setup_env.sh, or give --train-program another"
}

# need_nsys: nobody asked for it by name: without it the PyTorch profiler runs alone.
need_nsys() {
    if [[ $PROFILE_MODE_CHOSEN == no ]] && ! command -v nsys >/dev/null; then
        [[ $PROFILE_MODE != both ]] || warn "no nsys on the PATH of $(hostname): only the PyTorch profiler records"
        PROFILE_MODE=torch
    fi
    [[ $PROFILE_MODE == torch ]] || command -v nsys >/dev/null || fail "$FAILED" \
        "profile mode $PROFILE_MODE needs nsys, which is not on the PATH" \
        "load its module (SITE_MODULES in $CCLTUI_SITE), or use --profile torch"
}

# need_assets: the tokenizer. ASSETS stays empty where another program is trained.
need_assets() {
    ASSETS=""
    [[ $TRAIN_PROGRAM == torchtitan.* || -n ${CCLTUI_ASSETS:-} ]] || return 0
    ASSETS=${CCLTUI_ASSETS:-$HF_ASSETS_ROOT/${FACTS[assets]##*/}}
    [[ -r $ASSETS/tokenizer.json ]] || fail "$FAILED" "no tokenizer in $ASSETS" \
        "run $CCLTUI_SBATCH/setup_env.sh --with-models, or set HF_ASSETS_ROOT"
}

# check_workload [ARGUMENT OF THE TRAINING PROGRAM...]: sets FACTS, and NODES and GPUS_PER_NODE
# where they are not set yet.
check_workload() {
    local file output line
    for file in train_config.toml workload_card.yaml; do
        [[ -r $WORKLOAD_DIR/$file ]] || fail "$USAGE" "no $file in $WORKLOAD_DIR" \
            "a workload is a folder with run.sbatch, train_config.toml and workload_card.yaml"
    done
    output=$("$PYTHON" "$CCLTUI_SBATCH/lib/check_workload.py" "$WORKLOAD_DIR/train_config.toml" \
        --card "$WORKLOAD_DIR/workload_card.yaml" \
        ${NODES:+--nodes "$NODES"} ${GPUS_PER_NODE:+--gpus-per-node "$GPUS_PER_NODE"} \
        --default-nodes "${DEFAULT_NODES:-1}" --gpus-of-a-node "$SITE_GPUS_PER_NODE" \
        --profile "$PROFILE_MODE" --gpu-memory-gib "$SITE_GPU_MEMORY_GIB" --device "$SITE_DEVICE" \
        ${SITE_LARGE_GPU_MEMORY_GIB:+--large-gpu-memory-gib "$SITE_LARGE_GPU_MEMORY_GIB"} \
        --larger-nodes "${SITE_LARGE_CONSTRAINT:-}" \
        --train-program "$TRAIN_PROGRAM" -- "$@") ||
        fail "$CANNOT" "this workload would not run" "see above"
    declare -gA FACTS=()
    while IFS= read -r line; do
        FACTS[${line%%=*}]=${line#*=}
    done <<<"$output"
    # bash evaluates what it counts with, so nothing but digits may get there.
    need_count nodes "${FACTS[nodes]}"
    need_count gpus_per_node "${FACTS[gpus_per_node]}"
    need_count steps "${FACTS[steps]}"
    NODES=${FACTS[nodes]} GPUS_PER_NODE=${FACTS[gpus_per_node]}
    check_card
}

# check_card: the card that the run will have agrees with the configuration. Sizes, degrees and the
# length of the job follow the configuration; what else differs is a mistake in one of the two.
check_card() {
    local status=0 card folder said
    "$PYTHON" -P -c 'import ccltui' 2>/dev/null || {
        warn "the card was not compared with the configuration: $PYTHON has no ccltui"
        return 0
    }
    folder=$(mktemp -d)
    card=$folder/workload_card.yaml
    "$PYTHON" "$CCLTUI_SBATCH/lib/run_card.py" "$WORKLOAD_DIR/workload_card.yaml" \
        "$WORKLOAD_DIR/train_config.toml" "$((NODES * GPUS_PER_NODE))" >"$card" ||
        cp -- "$WORKLOAD_DIR/workload_card.yaml" "$card"
    said=$("$PYTHON" -P -m ccltui card lint "$card" --config "$WORKLOAD_DIR/train_config.toml" 2>&1) || status=$?
    printf '%s\n' "${said//"$card"/"$WORKLOAD_DIR/workload_card.yaml"}" >&2
    rm -rf -- "$folder"
    case $status in
    0) ;;
    "$USAGE") warn "the card was not compared with the configuration: update ccltui in $PYTHON" ;;
    4) fail "$CANNOT" "the workload card contradicts the configuration" \
        "correct $WORKLOAD_DIR/workload_card.yaml, or train_config.toml" ;;
    *) fail "$CANNOT" "the workload card cannot be read" "see above" ;;
    esac
}
