# shellcheck shell=bash
# Check the requirements of a job before it starts; each failure message has a solution.

need_training_python() {
    [[ -x $VENV_DIR/bin/python ]] || fail "$FAILED" "no Python environment in $VENV_DIR" \
        "run $CCLTUI_SBATCH/setup_env.sh once on a login node, or set VENV_DIR"
    export PYTHON=$VENV_DIR/bin/python
}

# set_program: what trains, and which of its steps nsys records.
set_program() {
    export TRAIN_PROGRAM=${CCLTUI_TRAIN_PROGRAM:-torchtitan.train} NSYS_STEPS=${NSYS_STEPS:-11-15}
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

need_nsys() {
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
        --train-program "$TRAIN_PROGRAM" -- "$@") ||
        fail "$USAGE" "this workload would not run" "see above"
    declare -gA FACTS=()
    while IFS= read -r line; do
        FACTS[${line%%=*}]=${line#*=}
    done <<<"$output"
    NODES=${FACTS[nodes]} GPUS_PER_NODE=${FACTS[gpus_per_node]}
    check_card
}

# check_card: the card agrees with the configuration of the job.
check_card() {
    local status=0
    "$PYTHON" -P -c 'import ccltui' 2>/dev/null || {
        warn "the card was not compared with the configuration: $PYTHON has no ccltui"
        return 0
    }
    "$PYTHON" -P -m ccltui card lint "$WORKLOAD_DIR/workload_card.yaml" \
        --config "$WORKLOAD_DIR/train_config.toml" >&2 || status=$?
    case $status in
    0) ;;
    "$USAGE") warn "the card was not compared with the configuration: update ccltui in $PYTHON" ;;
    4) fail "$USAGE" "the workload card contradicts the configuration" \
        "correct $WORKLOAD_DIR/workload_card.yaml, or train_config.toml" ;;
    *) fail "$USAGE" "the workload card cannot be read" "see above" ;;
    esac
}
