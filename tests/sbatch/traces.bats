#!/usr/bin/env bats
# shellcheck disable=SC2016,SC2034
# Afterwards: which capture is linked, what a log explains, and a check that tells the truth.

setup() {
    source "$BATS_TEST_DIRNAME/lib.bash"
    load_libraries log options traces failures
    VERIFY=$CCLTUI_SBATCH/lib/verify_traces.sh
    TRACE_DIR=$BATS_TEST_TMPDIR/run TRACES_FOLDER=profile_trace WORLD_SIZE=2
    mkdir -p "$TRACE_DIR"
    # A Python without ccltui: names and sizes are all that can be checked.
    stand_in bare 'exec python3 -S "$@"'
}

# capture N RANK...: traces of those ranks.
capture() {
    local folder=$TRACE_DIR/profile_trace/iteration_$1 rank
    mkdir -p "$folder"
    for rank in "${@:2}"; do
        printf '{}' >"$folder/rank${rank}_trace.json${SUFFIX:-}"
        printf '{}' >"$folder/torch_et_$rank.json"
    done
}

complete_run() {
    capture 20 0 1
    link_traces
    printf x | tee "$TRACE_DIR/a.log" >"$TRACE_DIR/workload_card.yaml"
}

@test "iterations are compared as numbers" {
    capture 20 0 1
    capture 100 0 1
    capture 80 0 1
    [ "$(last_capture)" = "$TRACE_DIR/profile_trace/iteration_100" ]
}

@test "an iteration that lacks a rank is not linked" {
    capture 20 0 1
    capture 40 0
    link_traces
    [ "$(readlink "$TRACE_DIR/kineto_trace_1.json")" = profile_trace/iteration_20/rank1_trace.json ]
}

@test "compressed traces keep their suffix" {
    SUFFIX=.gz capture 20 0 1
    link_traces
    [ "$(readlink "$TRACE_DIR/kineto_trace_0.json.gz")" = profile_trace/iteration_20/rank0_trace.json.gz ]
    [ ! -e "$TRACE_DIR/kineto_trace_0.json" ]
}

@test "without a complete iteration nothing is linked" {
    capture 20 1
    run link_traces
    [ "$status" -eq 1 ]
    [ ! -L "$TRACE_DIR/kineto_trace_1.json" ]
}

@test "a complete run is one, and what was not checked is said" {
    complete_run
    run "$VERIFY" --ranks 2 --python bare "$TRACE_DIR"
    [ "$status" -eq 0 ]
    [[ $output == *"kineto traces linked: 2 of 2 ranks"* ]]
    [[ $output == *"not checked: what is in the files (bare has no ccltui)"* ]]
}

@test "every missing thing is named" {
    run "$VERIFY" --ranks 3 --profile both --python bare "$TRACE_DIR"
    [ "$status" -eq 4 ]
    [[ $output == *"kineto_trace_R.json of rank 0 1 2"*"torch_et_R.json of rank 0 1 2"* ]]
    [[ $output == *"a .nsys-rep"*"workload_card.yaml"*"a log of the training"* ]]
}

@test "an empty file is no trace" {
    complete_run
    : >"$TRACE_DIR/profile_trace/iteration_20/rank1_trace.json"
    run "$VERIFY" --ranks 2 --python bare "$TRACE_DIR"
    [ "$status" -eq 4 ]
    [[ $output == *"kineto_trace_R.json of rank 1 "* ]]
}

@test "a link to nothing is no trace" {
    complete_run
    rm "$TRACE_DIR/profile_trace/iteration_20/torch_et_0.json"
    run "$VERIFY" --ranks 2 --python bare "$TRACE_DIR"
    [ "$status" -eq 4 ]
    [[ $output == *"torch_et_R.json of rank 0"* ]]
}

@test "only what the mode promises is asked for" {
    complete_run
    run "$VERIFY" --ranks 2 --profile nsys --python bare "$TRACE_DIR"
    [ "$status" -eq 4 ]
    printf x >"$TRACE_DIR/a.nsys-rep"
    rm "$TRACE_DIR"/kineto_trace_*
    run "$VERIFY" --ranks 2 --profile nsys --python bare "$TRACE_DIR"
    [ "$status" -eq 0 ]
}

@test "a directory has to be named" {
    run "$VERIFY"
    [ "$status" -eq 2 ]
    [[ $output == *"no directory given"* ]]
}

@test "a log explains itself" {
    local said
    while IFS='|' read -r said fix; do
        printf 'step 1\n%s\n' "$said" >"$TRACE_DIR/a.log"
        run explain_log "$TRACE_DIR/a.log"
        [ "$status" -eq 0 ]
        [[ $output == *"fix: "*"$fix"* ]]
    done <<'LINES'
torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB|local_batch_size
RuntimeError: Pipeline Parallel is enabled but qwen3 does not support pipelining|Newer versions
torch.distributed.elastic.rendezvous.api.RendezvousTimeoutError|MASTER_ADDR
torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp|NCCL_DEBUG=INFO
ConnectionError: Couldn't reach 'allenai/c4' on the Hub|HF_TOKEN
OSError: [Errno 122] Disk quota exceeded|TRACE_BASE
ModuleNotFoundError: No module named 'tyro'|setup_env.sh
LINES
}

@test "a log that names no known reason explains nothing" {
    printf 'step 1\nstep 2\n' >"$TRACE_DIR/a.log"
    run explain_log "$TRACE_DIR/a.log"
    [ "$status" -eq 1 ]
    [ "$output" = "" ]
}
