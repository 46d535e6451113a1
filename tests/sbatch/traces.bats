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

# report NAME: what nsys writes, as far as it can be told from outside.
report() {
    printf '%-2000s' "NVIDIA Tegra Profiler Report 2025@3@1@90" >"$TRACE_DIR/$1.nsys-rep"
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
    report a
    rm "$TRACE_DIR"/kineto_trace_*
    run "$VERIFY" --ranks 2 --profile nsys --python bare "$TRACE_DIR"
    [ "$status" -eq 0 ]
}

@test "a few bytes are no report" {
    complete_run
    printf hello >"$TRACE_DIR/a.nsys-rep"
    run "$VERIFY" --ranks 2 --profile nsys --python bare "$TRACE_DIR"
    [ "$status" -eq 4 ]
    [[ $output == *"missing: a report in a.nsys-rep (too small, or not written by nsys)"* ]]
    head -c 4000 /dev/zero >"$TRACE_DIR/a.nsys-rep"
    run "$VERIFY" --ranks 2 --profile nsys --python bare "$TRACE_DIR"
    [ "$status" -eq 4 ]
}

@test "a second report that is none is not covered by the first" {
    complete_run
    report a
    printf hello >"$TRACE_DIR/b.nsys-rep"
    run "$VERIFY" --ranks 2 --profile both --python bare "$TRACE_DIR"
    [ "$status" -eq 4 ]
    [[ $output == *"a report in b.nsys-rep"* ]]
}

@test "captures after the last step are of another run" {
    complete_run
    capture 40 0 1
    run "$VERIFY" --ranks 2 --steps 40 --python bare "$TRACE_DIR"
    [ "$status" -eq 0 ]
    run "$VERIFY" --ranks 2 --steps 20 --python bare "$TRACE_DIR"
    [ "$status" -eq 4 ]
    [[ $output == *"missing: captures of this run: iteration 40 is after its last step, 20"* ]]
}

@test "steps of nsys after the last step were not recorded" {
    complete_run
    report a
    printf '{"train_config": {"training.steps": 20}, "nsys_steps": "90-95"}' >"$TRACE_DIR/launcher_metadata.json"
    run "$VERIFY" --ranks 2 --profile both --python bare "$TRACE_DIR"
    [ "$status" -eq 4 ]
    [[ $output == *"missing: steps 90-95 of nsys: the run ended at step 20"* ]]
    run "$VERIFY" --ranks 2 --profile both --nsys-steps 11-15 --python bare "$TRACE_DIR"
    [ "$status" -eq 0 ]
}

@test "facts of a run are numbers, whatever its file has" {
    complete_run
    report a
    printf '{"train_config": {"training.steps": "a[$(touch %s)]"}, "nsys_steps": "a[$(touch %s)]-7"}' \
        "$TRACE_DIR/mark" "$TRACE_DIR/mark" >"$TRACE_DIR/launcher_metadata.json"
    run "$VERIFY" --ranks 2 --profile both --python bare "$TRACE_DIR"
    [ "$status" -eq 0 ]
    [ ! -e "$TRACE_DIR/mark" ]
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
