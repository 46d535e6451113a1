# shellcheck shell=bash
# Build an sbatch command from the site, the workload and the options.

# directive NAME: the value of `#SBATCH --NAME=` in the workload's run.sbatch.
directive() {
    sed -n "/^#SBATCH --$1=/ { s///p; q; }" "$WORKLOAD_DIR/run.sbatch"
}

# log_pattern: Slurm opens the log before the job starts, so its folder is made beforehand.
log_pattern() {
    printf '%s\n' "$TRACE_BASE/logs/%x_%j.out"
}

# job_environment: set JOB_ENVIRONMENT, the variables that are passed to the job.
job_environment() {
    JOB_ENVIRONMENT=(
        "CCLTUI_SBATCH=$CCLTUI_SBATCH" "CCLTUI_WORKLOAD_DIR=$WORKLOAD_DIR" "CCLTUI_SITE=$CCLTUI_SITE"
        "PROFILE_MODE=$PROFILE_MODE" "TRACE_DIR=$TRACE_DIR" "TRACE_BASE=$TRACE_BASE"
        "VENV_DIR=$VENV_DIR" "HF_ASSETS_ROOT=$HF_ASSETS_ROOT"
        "GPUS_PER_NODE=$GPUS_PER_NODE"
    )
    [[ -z ${CCLTUI_TRAIN_PROGRAM:-} ]] || JOB_ENVIRONMENT+=("CCLTUI_TRAIN_PROGRAM=$CCLTUI_TRAIN_PROGRAM")
}

# sbatch_command: SBATCH, the words after `sbatch`. They win over the #SBATCH lines.
sbatch_command() {
    local qos=$SITE_QOS time=$TIME_LIMIT
    job_environment
    if [[ $QUICK == yes ]]; then
        qos=${SITE_QUICK_QOS:-$qos}
        time=${time:-$SITE_QUICK_TIME}
    fi
    if [[ -z $time && $PROFILE_MODE == both ]]; then time=$(twice "$(directive time)"); fi
    SBATCH=(--export=ALL --nodes="$NODES" --ntasks-per-node=1 --cpus-per-task="$SITE_CPUS_PER_TASK")
    [[ -z $SITE_GPU_OPTION ]] || SBATCH+=("$SITE_GPU_OPTION$GPUS_PER_NODE")
    [[ -z $SITE_ACCOUNT ]] || SBATCH+=(--account="$SITE_ACCOUNT")
    [[ -z $SITE_PARTITION ]] || SBATCH+=(--partition="$SITE_PARTITION")
    [[ -z $SITE_CONSTRAINT ]] || SBATCH+=(--constraint="$SITE_CONSTRAINT")
    [[ -z $qos ]] || SBATCH+=(--qos="$qos")
    [[ -z $time ]] || SBATCH+=(--time="$time")
    [[ -z $DEPENDENCY ]] || SBATCH+=(--dependency="$DEPENDENCY")
    SBATCH+=(--output="$(log_pattern)" "${SITE_SBATCH_OPTIONS[@]}" "$WORKLOAD_DIR/run.sbatch" "${TRAIN_ARGUMENTS[@]}")
}

# twice HH:MM:SS: two runs take twice the time.
twice() {
    local hours minutes seconds total
    IFS=: read -r hours minutes seconds <<<"$1"
    total=$((2 * (10#$hours * 3600 + 10#$minutes * 60 + 10#$seconds)))
    printf '%02d:%02d:%02d\n' $((total / 3600)) $((total / 60 % 60)) $((total % 60))
}
