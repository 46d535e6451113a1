#!/usr/bin/env bats
# shellcheck disable=SC2016,SC2030,SC2031,SC2034
# Recorders: what they are told, what is copied and when, and a check that tells the truth.

setup() {
    source "$BATS_TEST_DIRNAME/lib.bash"
    unset FR INSPECTOR RAS "${!TORCH_@}" "${!NCCL_@}"
    load_libraries log options records
    VERIFY=$CCLTUI_SBATCH/lib/verify_records.sh
    export TRACE_DIR=$BATS_TEST_TMPDIR/run PROFILER=torch NODES=1 RECORDS_WAIT_S=1
    export RECORDS_TMP=$BATS_TEST_TMPDIR/node
    DEST=$TRACE_DIR/records/torch
    mkdir -p "$TRACE_DIR"
}

# start RECORDER...: as a node does before the training.
start() {
    local name
    for name in "$@"; do export "$name=1"; done
    need_recorders
    set_recorders
}

# dump FILE: the bytes that begin and end one.
dump() {
    printf '\x80\x02}q\x00.' >"$1"
}

@test "a recorder that is not switched on sets nothing" {
    run recorders_on
    [ "$status" -eq 1 ]
    start RAS
    recorders_on
    [ -z "${TORCH_FR_BUFFER_SIZE:-}${NCCL_INSPECTOR_ENABLE:-}" ]
}

@test "a switch is 0 or 1" {
    FR=yes run need_recorders
    [ "$status" -eq 2 ]
    [[ $output == *"FR is 'yes'"* ]]
}

@test "the flight recorder is bounded and gets both names of each variable" {
    start FR
    [ "$TORCH_FR_BUFFER_SIZE $TORCH_NCCL_TRACE_BUFFER_SIZE" = "2000 2000" ]
    [ "$TORCH_FR_DUMP_TEMP_FILE" = "$OWN_RECORDS/nccl_trace_rank_" ]
    [ "$TORCH_NCCL_DEBUG_INFO_TEMP_FILE" = "$TORCH_FR_DUMP_TEMP_FILE" ]
    [ "$TORCH_NCCL_DUMP_ON_TIMEOUT $TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC" = "1 60000" ]
}

@test "what the user has set is kept" {
    export TORCH_NCCL_TRACE_BUFFER_SIZE=77 TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC=5 FR_ENTRIES=500
    start FR
    [ "$TORCH_FR_BUFFER_SIZE $TORCH_NCCL_TRACE_BUFFER_SIZE" = "500 77" ]
    [ "$TORCH_NCCL_WAIT_TIMEOUT_DUMP_MILSEC" = 5 ]
}

@test "the Inspector has an interval, without which it writes no file" {
    start INSPECTOR
    [ "$NCCL_INSPECTOR_DUMP_THREAD_INTERVAL_MICROSECONDS" = 5000000 ]
    [ "$NCCL_INSPECTOR_DUMP_DIR" = "$OWN_RECORDS" ]
    [ "$NCCL_PROFILER_PLUGIN" = libnccl-profiler-inspector.so ]
}

@test "dumps of a training that failed are copied, and its status is that of the training" {
    start FR
    dump "$OWN_RECORDS/nccl_trace_rank_3"
    run run_recorded bash -c 'exit 6'
    [ "$status" -eq 6 ]
    is_whole "$DEST/nccl_trace_rank_3"
    [ ! -e "$OWN_RECORDS" ]
}

@test "a process that still runs is asked for its dump, then ended" {
    start FR
    mkfifo "$OWN_RECORDS/dump_5.pipe"
    run_recorded bash -c 'read -r <"$1/dump_5.pipe"; printf "\x80\x02}." >"$1/nccl_trace_rank_5"; exec sleep 100' \
        bash "$OWN_RECORDS" 3>&- &
    local job=$! status=0
    : >"$DEST/.collect"
    wait "$job" || status=$?
    [ "$status" -eq 143 ]
    is_whole "$DEST/nccl_trace_rank_5"
}

@test "SIGTERM has the records of every node copied" {
    start FR
    dump "$OWN_RECORDS/nccl_trace_rank_0"
    run_recorded bash -c ': >"$1"; exec sleep 100' bash "$BATS_TEST_TMPDIR/runs" 3>&- &
    local job=$! status=0
    until [[ -e $BATS_TEST_TMPDIR/runs ]]; do sleep 0.1; done
    kill -TERM "$job"
    wait "$job" || status=$?
    [ "$status" -eq 143 ]
    [ -s "$DEST/nccl_trace_rank_0" ]
    [ -e "$DEST/.collect" ]
}

@test "processes are ended when the other nodes have dumped: they end with those that they wait for" {
    start FR
    NODES=2 RECORDS_WAIT_S=60
    run_recorded bash -c 'trap ": >\"$1\"; exit 3" TERM; while :; do sleep 0.1; done' \
        bash "$BATS_TEST_TMPDIR/ended" 3>&- &
    local job=$! status=0
    : >"$DEST/.collect"
    until [[ -e $DEST/.dumped_0 ]]; do sleep 0.1; done
    sleep 1.5
    [ ! -e "$BATS_TEST_TMPDIR/ended" ]
    : >"$DEST/.dumped_1"
    until [[ -e $DEST/.copied_0 ]]; do sleep 0.1; done
    [ -e "$BATS_TEST_TMPDIR/ended" ]
    : >"$DEST/.copied_1"
    wait "$job" || status=$?
    [ "$status" -eq 3 ]
}

@test "a node that failed waits until the others have copied, for a limited time" {
    start FR
    NODES=2 run run_recorded false
    [ "$status" -eq 1 ]
    [[ $output == *"not every node copied its records within 1 s"* ]]
}

@test "a node leaves nothing behind, also where it is ended while it waits for the others" {
    start FR
    await_nodes() { [ ! -e "$OWN_RECORDS" ] && : >"$BATS_TEST_TMPDIR/removed"; }
    run run_recorded false
    [ "$status" -eq 1 ]
    [ -e "$BATS_TEST_TMPDIR/removed" ]
}

@test "the newest half of a log beyond the limit stays, from a whole line on" {
    export RECORDS_MAX_MIB=1
    start INSPECTOR
    seq -f '%.0f {"header":1}' 100000 >"$OWN_RECORDS/host-pid1.log"
    bound_records
    (($(stat -c %s "$OWN_RECORDS/host-pid1.log") <= 524288))
    [ "$(tail -n 1 "$OWN_RECORDS/host-pid1.log")" = '100000 {"header":1}' ]
    [[ $(head -n 1 "$OWN_RECORDS/host-pid1.log") =~ ^[0-9]+\ \{\"header\":1\}$ ]]
}

@test "a log that outgrew the limit since the last look is cut, then copied" {
    export RECORDS_MAX_MIB=1
    start INSPECTOR
    seq -f '%.0f {"header":1}' 100000 >"$OWN_RECORDS/host-pid1.log"
    run copy_records
    [[ $output != *"not copied"* ]]
    [ "$(tail -n 1 "$DEST/host-pid1.log")" = '100000 {"header":1}' ]
}

@test "a dump larger than the limit is named, not copied" {
    export RECORDS_MAX_MIB=1
    start FR
    truncate -s 2M "$OWN_RECORDS/nccl_trace_rank_0"
    run copy_records
    [[ $output == *"nccl_trace_rank_0 of node 0 is larger than 1 MiB: not copied"* ]]
    [ ! -e "$DEST/nccl_trace_rank_0" ]
}

@test "RAS answers in JSON where its program is" {
    stand_in ncclras 'printf "{\"asked\": \"%s\"}\n" "$*"'
    start RAS
    ask_ras 0
    [ "$(<"$OWN_RECORDS/ras_node0_0.txt")" = '{"asked": "-h localhost -p 28028 -f json"}' ]
}

@test "RAS whose program knows no JSON answers in text" {
    stand_in ncclras 'echo "ncclras: invalid option"'
    # What a stand-in cannot be is a port of bash, so it is bash.
    stand_in timeout '[[ $2 != bash ]] || { echo "RAS - Status of $6:$7"; exit; }; shift; exec "$@"'
    start RAS
    ask_ras 0
    [ "$(<"$OWN_RECORDS/ras_node0_0.txt")" = "RAS - Status of localhost:28028" ]
}

@test "RAS that does not answer leaves no file" {
    stand_in ncclras 'exit 1'
    start RAS
    ask_ras 0
    [ "$(count_of 'ras_*')" -eq 0 ]
}

@test "the check names ranks without a dump and dumps that are cut off" {
    start FR
    dump "$DEST/nccl_trace_rank_0"
    printf '\x80\x02}q' >"$DEST/nccl_trace_rank_2"
    : >"$DEST/.collect"
    run "$VERIFY" --ranks 3 "$TRACE_DIR"
    [ "$status" -eq 4 ]
    [[ $output == *"torch: dumps of 2 of 3 ranks"* ]]
    [[ $output == *"missing: whole dumps of ranks 2 of torch; dumps of ranks 1 of torch"* ]]
}

@test "a training that ended well has no reason to dump" {
    start FR
    run "$VERIFY" --ranks 3 --ended-well "$TRACE_DIR"
    [ "$status" -eq 0 ]
}

@test "an Inspector that wrote nothing is missing" {
    start INSPECTOR
    run "$VERIFY" --ended-well "$TRACE_DIR"
    [ "$status" -eq 4 ]
    [[ $output == *"Inspector logs of torch (did NCCL find the plug-in?"* ]]
}

@test "an Inspector that did not write for each process, and a report that is cut off, are named" {
    start INSPECTOR RAS
    printf '{"header":1}\n' >"$DEST/host-pid1.log"
    printf '{"nccl_version": "2.28.9"' >"$DEST/ras_node0_0.txt"
    printf '{"nccl_version": "2.28.9"}\n' >"$DEST/ras_node0_1.txt"
    run "$VERIFY" --ranks 2 "$TRACE_DIR"
    [ "$status" -eq 4 ]
    [[ $output == *"missing: 1 of 2 Inspector logs of torch; the end of ras_node0_0.txt of torch; "* ]]
}

@test "only without NCCL the training itself dumps on request" {
    SITE_DEVICE=cuda start FR
    [ -z "${FR_ON_REQUEST:-}" ]
    SITE_DEVICE=cpu start FR
    [ "$FR_ON_REQUEST" = 1 ]
}
