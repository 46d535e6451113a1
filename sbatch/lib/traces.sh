# shellcheck shell=bash
# Functions for the output directory of a run.

# start_trace_dir: TRACE_DIR is empty and ours; an earlier run in it is moved aside, never mixed in.
start_trace_dir() {
    local owner
    if [[ -r $TRACE_DIR/.job_id ]]; then
        owner=$(<"$TRACE_DIR/.job_id")
        if [[ $owner != "${SLURM_JOB_ID:-local}" && -n $(squeue -h -j "$owner" -o %T 2>/dev/null) ]]; then
            fail "$FAILED" "job $owner is writing to $TRACE_DIR" "wait for it, or give --output another folder"
        fi
    fi
    if [[ -d $TRACE_DIR && -n $(ls -A -- "$TRACE_DIR") ]]; then
        local aside
        aside=$(dirname -- "$TRACE_DIR")/previous/$(basename -- "$TRACE_DIR")_$(date -r "$TRACE_DIR" +%Y%m%d_%H%M%S)_$$
        mkdir -p -- "${aside%/*}"
        mv -- "$TRACE_DIR" "$aside"
        log "the run that was in $TRACE_DIR is now $aside"
        ((${SLURM_RESTART_COUNT:-0} == 0)) || log "Slurm has started this job again: it trains from the first step"
    fi
    mkdir -p -- "$TRACE_DIR" || fail "$FAILED" "$TRACE_DIR cannot be made" "give --output a folder you can write to"
    need_room
    printf '%s\n' "${SLURM_JOB_ID:-local}" >"$TRACE_DIR/.job_id"
}

# has_room: a full disk, or a quota, is noticed. 16 MiB is less than the trace of one step of one rank
# takes.
has_room() {
    local status=0
    head -c 16777216 /dev/zero 2>/dev/null >"$TRACE_DIR/.room" || status=$?
    rm -f -- "$TRACE_DIR/.room"
    return "$status"
}

# need_room: before the training.
need_room() {
    has_room || fail "$FAILED" "there is no room for traces in $TRACE_DIR" \
        "look at df -h and your quota; or give --output, or TRACE_BASE, on another file system"
}

# last_capture: the folder of the last iteration_N with a trace of every rank.
last_capture() {
    local folder count best=""
    while IFS= read -r folder; do
        count=$(find "$folder" -maxdepth 1 -name 'rank*_trace.json*' | wc -l)
        ((count < WORLD_SIZE)) || best=$folder
    done < <(find "$TRACE_DIR/$TRACES_FOLDER" -maxdepth 1 -type d -name 'iteration_*' 2>/dev/null | sort -V)
    [[ -n $best ]] && printf '%s\n' "$best"
}

# link_traces: kineto_trace_R.json and torch_et_R.json lead to the last complete capture.
link_traces() {
    local capture rank file
    capture=$(last_capture) || return 1
    capture=${capture#"$TRACE_DIR"/}
    for ((rank = 0; rank < WORLD_SIZE; rank++)); do
        for file in "$TRACE_DIR/$capture/rank${rank}_trace.json"{,.gz}; do
            [[ ! -e $file ]] || ln -sfn -- "$capture/${file##*/}" "$TRACE_DIR/kineto_trace_$rank.json${file##*.json}"
        done
        [[ ! -e $TRACE_DIR/$capture/torch_et_$rank.json ]] ||
            ln -sfn -- "$capture/torch_et_$rank.json" "$TRACE_DIR/torch_et_$rank.json"
    done
}
