# shellcheck shell=bash
# What a VENV_DIR's python does in place of torch.distributed.run: it writes down how it was called
# and, on the first node, leaves what training would leave. RECORD is a folder; TRAINING says how
# training goes: well, failing, timed-out, without-et, without-traces, or asked-to-end: the job is sent
# SIGNAL when there is a capture. BATCH is its process.

if [[ "${*:1:3}" == "-P -m torch.distributed.run" ]]; then
    printf '%s\n' "$PROFILER ${SLURM_NODEID:--} $*" >>"$RECORD/launches"
    [[ $TRAINING != failing ]] || exit 3
    if [[ $TRAINING == timed-out ]]; then
        env | grep -E '^(TORCH_|NCCL_)' >"$RECORD/recorders"
        for local_rank in 0 1; do
            printf '\x80\x02}.' >"$TORCH_FR_DUMP_TEMP_FILE$((${SLURM_NODEID:-0} * 2 + local_rank))"
        done
        exit 1
    fi
    [[ $PROFILER == torch && ${SLURM_NODEID:-0} == 0 && $TRAINING != without-traces ]] || exit 0
    for iteration in 20 40; do
        folder=$TRACE_DIR/profile_trace/iteration_$iteration
        mkdir -p "$folder"
        for ((rank = 0; rank < WORLD_SIZE; rank++)); do
            # The job was ended while the last capture was written.
            [[ $iteration != 40 || $rank == 0 ]] || continue
            cat >"$folder/rank${rank}_trace.json" <<JSON
{"schemaVersion": 1, "deviceProperties": [],
 "distributedInfo": {"backend": "gloo", "rank": $rank, "world_size": $WORLD_SIZE},
 "traceEvents": [
  {"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#20", "pid": 1, "tid": 1, "ts": 10, "dur": 5},
  {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 11, "dur": 2}]}
JSON
            [[ $TRAINING == without-et ]] ||
                printf '{"schema": "1.1.1-chakra.0.0.4", "nodes": []}\n' >"$folder/torch_et_$rank.json"
        done
    done
    if [[ $TRAINING == asked-to-end ]]; then
        kill -s "$SIGNAL" "$BATCH"
        until [[ -e $TRACE_DIR/kineto_trace_0.json ]] || ! kill -0 "$BATCH"; do sleep 0.1; done
        exit 1
    fi
    exit 0
fi
