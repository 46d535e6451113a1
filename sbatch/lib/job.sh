# shellcheck shell=bash
# Functions of run.sbatch. CCLTUI_SBATCH is the path of sbatch/.

CCLTUI_SBATCH=$(cd -- "$CCLTUI_SBATCH" && pwd)
export CCLTUI_SBATCH
export PROGRAM=job
# shellcheck source=log.sh
source "$CCLTUI_SBATCH/lib/log.sh"
# shellcheck source=options.sh
source "$CCLTUI_SBATCH/lib/options.sh"
# shellcheck source=site.sh
source "$CCLTUI_SBATCH/lib/site.sh"
# shellcheck source=paths.sh
source "$CCLTUI_SBATCH/lib/paths.sh"
# shellcheck source=distributed.sh
source "$CCLTUI_SBATCH/lib/distributed.sh"
# shellcheck source=traces.sh
source "$CCLTUI_SBATCH/lib/traces.sh"
# shellcheck source=checks.sh
source "$CCLTUI_SBATCH/lib/checks.sh"
# shellcheck source=failures.sh
source "$CCLTUI_SBATCH/lib/failures.sh"
# shellcheck source=site_options.sh
source "$CCLTUI_SBATCH/lib/site_options.sh"
# shellcheck source=records.sh
source "$CCLTUI_SBATCH/lib/records.sh"
# shellcheck source=network.sh
source "$CCLTUI_SBATCH/lib/network.sh"

# run_workload NAME [ARGUMENT OF THE LAUNCHED PROGRAM...]
run_workload() {
    local name=$1 status=0
    shift
    ENDED_BY="" # the signal that ended the training
    WORKLOAD_DIR=${CCLTUI_WORKLOAD_DIR:-$CCLTUI_SBATCH/workloads/$name}
    name=${WORKLOAD_DIR##*/}
    # Modules that the configuration imports lie there; those of the user come first.
    export PYTHONPATH=${PYTHONPATH:+$PYTHONPATH:}$CCLTUI_SBATCH/torchtitan_models
    load_site
    need_site_options "$@"
    need_recorders
    set_profile_mode
    export PROFILE_MODE
    [[ -z ${SLURM_JOB_ID:-} || -n ${SLURM_JOB_ACCOUNT:-} ]] || need_account
    use_present_gpus
    set_paths
    set_caches
    set_program
    load_modules
    need_training_python
    set_distributed
    check_workload "$@"
    set_nsys_steps
    need_program
    need_nsys
    need_assets
    load_network
    TRACE_DIR=${TRACE_DIR:-$TRACE_BASE/$name}
    # Tasks of an array run at the same time: each has a folder of its own.
    TRACE_DIR+=${SLURM_ARRAY_TASK_ID:+/$SLURM_ARRAY_TASK_ID}
    RUN_NAME=${name}_$(date +%Y%m%d_%H%M%S)
    export TRACE_DIR RUN_NAME TRACES_FOLDER=${FACTS[traces_folder]}
    start_trace_dir
    cp -- "$WORKLOAD_DIR/train_config.toml" "$TRACE_DIR/"
    write_card "$@"
    describe_job "$@"
    SECONDS=0
    case $PROFILE_MODE in
    both) { train torch "$@" && next_port && train nsys "$@"; } || status=$? ;;
    *) train "$PROFILE_MODE" "$@" || status=$? ;;
    esac
    ((status)) || mark_complete || status=$INCOMPLETE
    finish "$status"
}

# train torch|nsys ARGUMENT...: one training run under one profiler. The two never share a run:
# both subscribe to CUPTI, and the one that comes second records no GPU events.
train() {
    export PROFILER=$1
    shift
    local status=0 arguments
    [[ -z $ENDED_BY ]] || return "$(status_of_signal)" # after the first of two runs
    mapfile -d '' arguments < <(train_arguments "$@")
    ((${#arguments[@]})) || fail "$FAILED" "the arguments of $TRAIN_PROGRAM could not be made" "see above"
    log "training on $NODES x $GPUS_PER_NODE ranks, profiled by $PROFILER"
    launch "${arguments[@]}" || status=$?
    if ((status)); then
        log "error: training ended with status $status, see $TRACE_DIR/${RUN_NAME}_$PROFILER.log"
        explain_log "$TRACE_DIR/${RUN_NAME}_$PROFILER.log" "$TRACE_DIR"/nccl/*.log || true
    fi
    # That of srun is then of a node which it ended because another had failed, not of this job.
    [[ -n $ENDED_BY ]] || ((status < 128)) || status=$FAILED
    return "$status"
}

# launch ARGUMENT...: the training program on all nodes, its output in the log of the run too. Where a
# signal has ended it, the status is 128 and the number of the signal: 143 for SIGTERM.
launch() {
    local output copy status=0 name
    LAUNCHED=""
    for name in TERM INT USR1; do
        # shellcheck disable=SC2064
        trap "end_training $name" "$name"
    done
    set_node_command bash "$CCLTUI_SBATCH/lib/launch_node.sh" "$@"
    # Slurm sends its signals to every process of the job; the log has to outlive the training.
    exec {output}> >(trap '' TERM INT USR1 && exec tee "$TRACE_DIR/${RUN_NAME}_$PROFILER.log")
    copy=$!
    "${NODE_COMMAND[@]}" >&"$output" 2>&1 &
    LAUNCHED=$!
    exec {output}>&-
    [[ -z $ENDED_BY ]] || kill -TERM "$LAUNCHED" 2>/dev/null || true
    while kill -0 "$LAUNCHED" 2>/dev/null; do wait "$LAUNCHED" || true; done
    wait "$LAUNCHED" || status=$?
    trap - TERM INT USR1
    wait "$copy" || true
    # Where a node has died, Slurm ends the job a moment after its training.
    ((status == 0)) || link_traces || true
    ((status == 0)) || [[ -z $ENDED_BY ]] || status=$(status_of_signal)
    return "$status"
}

status_of_signal() {
    printf '%s' $((128 + $(kill -l "$ENDED_BY")))
}

# end_training SIGNAL: Slurm or the user asks for the end: a preemption, a time limit, scancel. What is
# there is linked first, since Slurm kills the job some seconds later.
end_training() {
    ENDED_BY=$1
    link_traces || true
    if recorders_on; then
        log "SIG$1: asked to end: collecting records"
        mkdir -p -- "$TRACE_DIR/records/$PROFILER"
        : >"$TRACE_DIR/records/$PROFILER/.collect"
    else
        log "SIG$1: asked to end; the traces that exist are kept in $TRACE_DIR"
        [[ -z $LAUNCHED ]] || kill -TERM "$LAUNCHED" 2>/dev/null || true
    fi
}

# train_arguments FURTHER...: the arguments of the training program, each ended by a NUL.
train_arguments() {
    local version=${FACTS[torchtitan]}
    [[ $TRAIN_PROGRAM == torchtitan.* ]] || version=0.2.2 # what a stand-in has to understand
    "$PYTHON" "$CCLTUI_SBATCH/lib/torchtitan_arguments.py" "$TRACE_DIR/train_config.toml" \
        --version "$version" --dump-folder "$TRACE_DIR" --assets "$ASSETS" --profiler "$PROFILER" -- "$@"
}

# write_card ARGUMENT...: the card of the run states what the arguments and the size of the job make
# of the workload's card.
write_card() {
    local card=$TRACE_DIR/workload_card.yaml
    "$PYTHON" "$CCLTUI_SBATCH/lib/run_card.py" "$WORKLOAD_DIR/workload_card.yaml" \
        "$WORKLOAD_DIR/train_config.toml" "$WORLD_SIZE" -- "$@" >"$card" && return
    warn "the card beside the traces is that of the workload: launcher_metadata.json says what ran"
    cp -- "$WORKLOAD_DIR/workload_card.yaml" "$card"
}

# describe_job ARGUMENT...: write launcher_metadata.json beside the traces.
describe_job() {
    log "workload $WORKLOAD_DIR, site $SITE_NAME, profile mode $PROFILE_MODE"
    log "writing to $TRACE_DIR"
    SITE_DEVICE=$SITE_DEVICE LAUNCHER_SWITCHES="${LAUNCHER_SWITCHES:-} FR INSPECTOR RAS" \
        "$PYTHON" "$CCLTUI_SBATCH/lib/launcher_metadata.py" \
        "$WORKLOAD_DIR/train_config.toml" -- "$@" \
        >"$TRACE_DIR/launcher_metadata.json"
}

# mark_complete: training ended well, by its own account. Tokens a second it does not tell.
mark_complete() {
    printf 'RUN_COMPLETE world_size=%s total_wall_time_sec=%s timestamp_utc=%s\n' \
        "$WORLD_SIZE" "$SECONDS" "$(date -u +%FT%TZ)" 2>/dev/null >"$TRACE_DIR/RUN_COMPLETE.txt" && return
    # An empty file would still say that the run is complete.
    rm -f -- "$TRACE_DIR/RUN_COMPLETE.txt"
    log "error: RUN_COMPLETE.txt cannot be written to $TRACE_DIR"
    return 1
}

# finish STATUS: links, the check of what is there, and the status of the job.
finish() {
    local status=$1
    [[ -z $ENDED_BY ]] || ((status == 0)) || log "error: SIG$ENDED_BY ended the training before its last step"
    if [[ $PROFILE_MODE != nsys && (-n $ENDED_BY || ! -e $TRACE_DIR/kineto_trace_0.json) ]]; then
        link_traces || warn "no capture in which all $WORLD_SIZE ranks left a trace; nothing to link"
    fi
    if "$CCLTUI_SBATCH/lib/verify_traces.sh" --ranks "$WORLD_SIZE" --profile "$PROFILE_MODE" \
        --device "$SITE_DEVICE" --steps "${FACTS[steps]}" --nodes "$NODES" \
        --sockets "${SITE_SOCKETS_ALLOWED:-no}" --python "$PYTHON" "$TRACE_DIR"; then
        log "next: ccltui $TRACE_DIR"
    elif ((status == 0 || status == INCOMPLETE)); then
        status=$INCOMPLETE
        explain_log "$TRACE_DIR"/*.log || true
        has_room || log "error: there is no room left for traces in $TRACE_DIR: look at df -h and your quota"
    fi
    check_records "$status" || ((status)) || status=$INCOMPLETE
    exit "$status"
}

# check_records STATUS: what the recorders left; STATUS is that of the training.
check_records() {
    recorders_on || return 0
    local ended=()
    (($1)) || ended=(--ended-well)
    (($1 == 0)) || log "next: ccltui explain $TRACE_DIR"
    "$CCLTUI_SBATCH/lib/verify_records.sh" --ranks "$WORLD_SIZE" "${ended[@]}" "$TRACE_DIR"
}
