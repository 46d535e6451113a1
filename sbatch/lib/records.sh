# shellcheck shell=bash
# Records of communication that a job leaves without a profiler: dumps of PyTorch's flight recorder
# (FR=1), logs of NCCL's Inspector (INSPECTOR=1), reports of NCCL's RAS (RAS=1).
#
# Each node writes to its own disk, where a dump ends before its process is killed, and copies into
# $TRACE_DIR/records/PROFILER when the training ended there or somebody asks for the records.

recorders_on() {
    [[ ${FR:-0} == 1 || ${INSPECTOR:-0} == 1 || ${RAS:-0} == 1 ]]
}

# need_recorders: their switches and limits are what they can be.
need_recorders() {
    local name
    for name in FR INSPECTOR RAS; do
        need_one_of "$name" "${!name:-0}" 0 1
    done
    recorders_on || return 0
    need_count FR_ENTRIES "${FR_ENTRIES:=2000}"
    # Of one file: an Inspector writes 200 to 500 bytes an operation for as long as a job runs.
    need_count RECORDS_MAX_MIB "${RECORDS_MAX_MIB:=256}"
    need_count RECORDS_WAIT_S "${RECORDS_WAIT_S:=60}"
    need_count RAS_INTERVAL_S "${RAS_INTERVAL_S:=60}"
    export FR_ENTRIES RECORDS_MAX_MIB RECORDS_WAIT_S RAS_INTERVAL_S
}

# set_recorders: on a node, before the training starts. What the user has set is kept.
set_recorders() {
    RECORDS=$TRACE_DIR/records/$PROFILER
    OWN_RECORDS=${RECORDS_TMP:-${SLURM_TMPDIR:-${TMPDIR:-/tmp}}}
    OWN_RECORDS+=/ccltui_records_${SLURM_JOB_ID:-$$}_${PROFILER}_${SLURM_NODEID:-0}
    mkdir -p -- "$RECORDS" "$OWN_RECORDS" ||
        fail "$FAILED" "$OWN_RECORDS cannot be made" "set RECORDS_TMP to a folder of the node that you can write to"
    [[ ${FR:-0} != 1 ]] || set_flight_recorder
    [[ ${INSPECTOR:-0} != 1 ]] || set_inspector
    [[ ${RAS:-0} != 1 ]] || export NCCL_RAS_ENABLE=${NCCL_RAS_ENABLE:-1} NCCL_RAS_ADDR=${NCCL_RAS_ADDR:-localhost:28028}
}

# set_flight_recorder: both names of each variable; PyTorch reads the second before 2.8.
set_flight_recorder() {
    export TORCH_FR_BUFFER_SIZE=${TORCH_FR_BUFFER_SIZE:-$FR_ENTRIES}
    export TORCH_NCCL_TRACE_BUFFER_SIZE=${TORCH_NCCL_TRACE_BUFFER_SIZE:-$TORCH_FR_BUFFER_SIZE}
    export TORCH_FR_DUMP_TEMP_FILE=$OWN_RECORDS/nccl_trace_rank_
    export TORCH_NCCL_DEBUG_INFO_TEMP_FILE=$TORCH_FR_DUMP_TEMP_FILE
    # Writing to PREFIX RANK.pipe has a process dump while it runs.
    export TORCH_NCCL_DEBUG_INFO_PIPE_FILE=$OWN_RECORDS/dump_
    # With gloo train_with_traces.py does so.
    [[ ${SITE_DEVICE:-cuda} == cuda ]] || export FR_ON_REQUEST=1
    export TORCH_NCCL_DUMP_ON_TIMEOUT=${TORCH_NCCL_DUMP_ON_TIMEOUT:-1}
    # Within the 15 s of PyTorch ranks of larger jobs are killed before their dump is written.
    export TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC=${TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC:-60000}
}

set_inspector() {
    export NCCL_PROFILER_PLUGIN=${NCCL_PROFILER_PLUGIN:-${SITE_INSPECTOR_PLUGIN:-libnccl-profiler-inspector.so}}
    export NCCL_INSPECTOR_ENABLE=1 NCCL_INSPECTOR_DUMP_DIR=$OWN_RECORDS
    # Without an interval there is no thread that writes, and no file. The ring holds 1024
    # operations of a communicator: this often is enough for 200 of them a second.
    export NCCL_INSPECTOR_DUMP_THREAD_ENABLE=1
    export NCCL_INSPECTOR_DUMP_THREAD_INTERVAL_MICROSECONDS=${NCCL_INSPECTOR_DUMP_THREAD_INTERVAL_MICROSECONDS:-5000000}
}

# run_recorded WORD...: run the launcher of this node, and copy what the recorders wrote. Its status.
run_recorded() {
    local status=0 launcher elapsed=0
    ASKED=no WAITED=0
    trap 'ASKED=yes' TERM INT USR1
    "$@" &
    launcher=$!
    while kill -0 "$launcher" 2>/dev/null; do
        [[ $ASKED == no && ! -e $RECORDS/.collect ]] || break
        sleep 1 || true
        elapsed=$((elapsed + 1))
        ((elapsed % 10 != 0)) || bound_records
        ((elapsed % RAS_INTERVAL_S != 0 || ${SLURM_NODEID:-0} != 0)) || ask_ras $((elapsed / RAS_INTERVAL_S % 2))
    done
    if kill -0 "$launcher" 2>/dev/null; then
        : >"$RECORDS/.collect"
        log "node ${SLURM_NODEID:-0}: asking $(count_of 'dump_*.pipe') processes for their records"
        ask_for_dumps
        ask_ras asked
        copy_records
        # Processes of other nodes end with those of this one, which they wait for, dumped or not.
        await_nodes dumped
        end_launcher "$launcher"
    fi
    mark_node dumped
    while kill -0 "$launcher" 2>/dev/null; do wait "$launcher" || true; done
    wait "$launcher" || status=$?
    copy_records
    # Before the other nodes are told: the first to leave ends the step, and this process with it.
    rm -rf -- "$OWN_RECORDS" || warn "$OWN_RECORDS could not be removed"
    if ((status)); then
        : >"$RECORDS/.collect"
        await_nodes copied
    fi
    return "$status"
}

# count_of PATTERN: how many files of that name are on this node.
count_of() {
    find "$OWN_RECORDS" -maxdepth 1 -name "$1" | wc -l
}

# is_whole FILE: a dump is a pickle, which ends with a dot, or JSON.
is_whole() {
    local last
    last=$(tail -c 64 -- "$1" | tr -d '\0[:space:]')
    [[ -n $last && (${last: -1} == . || ${last: -1} == "}") ]]
}

# ask_for_dumps: of every process that has a pipe; wait until all have written, 15 s at most.
ask_for_dumps() {
    local pipe file waited whole asked=()
    for pipe in "$OWN_RECORDS"/dump_*.pipe; do
        [[ -p $pipe ]] || continue
        # Opening a pipe waits for its reader, which a dead process is not.
        # shellcheck disable=SC2016
        ! timeout 2 bash -c 'printf "1\n" >"$1"' bash "$pipe" || asked+=("${pipe##*dump_}")
    done
    for ((waited = 0; waited < 15; waited++)); do
        whole=0
        for file in "${asked[@]}"; do
            file=$OWN_RECORDS/nccl_trace_rank_${file%.pipe}
            [[ ! -s $file ]] || ! is_whole "$file" || whole=$((whole + 1))
        done
        ((whole < ${#asked[@]})) || return 0
        sleep 1 || true
    done
    log "warning: $((${#asked[@]} - whole)) of ${#asked[@]} processes wrote no dump within 15 s"
}

# ask_ras WORD: one report, as JSON where NCCL has a program that knows it (2.28.7 and newer), as text
# otherwise. The last two of a run tell a job that stands from one that moves.
ask_ras() {
    [[ ${RAS:-0} == 1 ]] || return 0
    local file=$OWN_RECORDS/ras_node${SLURM_NODEID:-0}_$1 host=${NCCL_RAS_ADDR%:*} port=${NCCL_RAS_ADDR##*:}
    timeout 20 ncclras -h "$host" -p "$port" -f json >"$file.part" 2>/dev/null || true
    if [[ $(head -c 1 -- "$file.part") != "{" ]]; then
        # shellcheck disable=SC2016
        timeout 20 bash -c 'exec 3<>"/dev/tcp/$1/$2" || exit; printf "verbose status\n" >&3; cat <&3' \
            bash "$host" "$port" >"$file.part" 2>/dev/null || true
    fi
    if [[ -s $file.part ]]; then mv -- "$file.part" "$file.txt"; else rm -f -- "$file.part"; fi
}

# bound_records: of a log that grew beyond the limit the newest half stays. The writer appends, so it
# goes on behind it.
bound_records() {
    local file limit=$((RECORDS_MAX_MIB * 1024 * 1024))
    for file in "$OWN_RECORDS"/*.log; do
        [[ -f $file ]] || continue
        (($(stat -c %s -- "$file") > limit)) || continue
        tail -c $((limit / 2)) -- "$file" | tail -n +2 >"$file.newest"
        cat -- "$file.newest" >"$file"
        rm -f -- "$file.newest"
    done
}

# copy_records: a copy has its name only when it is whole.
copy_records() {
    local file limit=$((RECORDS_MAX_MIB * 1024 * 1024))
    bound_records
    for file in "$OWN_RECORDS"/{nccl_trace_rank_*,*.log,ras_*.txt}; do
        [[ -f $file && -s $file ]] || continue
        if (($(stat -c %s -- "$file") > limit)); then
            warn "${file##*/} of node ${SLURM_NODEID:-0} is larger than $RECORDS_MAX_MIB MiB: not copied"
        elif cp -p -- "$file" "$RECORDS/.${file##*/}.part"; then
            mv -- "$RECORDS/.${file##*/}.part" "$RECORDS/${file##*/}"
        else
            warn "${file##*/} of node ${SLURM_NODEID:-0} could not be copied"
        fi
    done
}

# end_launcher PID: it has 20 s to end its processes.
end_launcher() {
    local waited
    kill -TERM "$1" 2>/dev/null || true
    for ((waited = 0; waited < 20; waited++)); do
        kill -0 "$1" 2>/dev/null || return 0
        sleep 1 || true
    done
    kill -KILL "$1" 2>/dev/null || true
}

# mark_node MARK: say to the other nodes that this one has "dumped" or "copied" its records.
mark_node() {
    : >"$RECORDS/.$1_${SLURM_NODEID:-0}"
}

# await_nodes MARK: until all nodes have it, RECORDS_WAIT_S seconds at most for both marks together.
# The first node that leaves ends the step, and with it the copying of the others.
await_nodes() {
    mark_node "$1"
    while (($(find "$RECORDS" -maxdepth 1 -name ".$1_*" | wc -l) < NODES)); do
        if ((WAITED >= RECORDS_WAIT_S)); then
            warn "node ${SLURM_NODEID:-0}: not every node $1 its records within $RECORDS_WAIT_S s"
            return 0
        fi
        sleep 1 || true
        WAITED=$((WAITED + 1))
    done
}
