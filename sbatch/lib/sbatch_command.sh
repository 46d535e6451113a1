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
        "CCLTUI_SUBMITTED=yes" "TRACE_DIR=$TRACE_DIR" "TRACE_BASE=$TRACE_BASE"
        "VENV_DIR=$VENV_DIR" "HF_ASSETS_ROOT=$HF_ASSETS_ROOT"
        "GPUS_PER_NODE=$GPUS_PER_NODE"
    )
    # Where nobody chose a mode the job decides: it knows whether there is an nsys.
    [[ $PROFILE_MODE_CHOSEN == no ]] || JOB_ENVIRONMENT+=("PROFILE_MODE=$PROFILE_MODE")
    [[ ${FACTS[large_gpus]:-no} == no ]] || JOB_ENVIRONMENT+=("SITE_GPU_MEMORY_GIB=$SITE_GPU_MEMORY_GIB")
    [[ -z ${CCLTUI_TRAIN_PROGRAM:-} ]] || JOB_ENVIRONMENT+=("CCLTUI_TRAIN_PROGRAM=$CCLTUI_TRAIN_PROGRAM")
}

# sbatch_command: SBATCH, the options of `sbatch`. They win over the #SBATCH lines, an empty constraint
# too; of an empty qos Slurm would say that it is invalid, so the line is taken out (WITHOUT_QOS).
sbatch_command() {
    local qos=$SITE_QOS time=$TIME_LIMIT
    job_environment
    if [[ $QUICK == yes ]]; then
        qos=${SITE_QUICK_QOS:-$qos}
        time=${time:-$SITE_QUICK_TIME}
    fi
    SBATCH=(--export=ALL --nodes="$NODES" --ntasks-per-node=1 --cpus-per-task="$SITE_CPUS_PER_TASK")
    [[ -z $SITE_GPU_OPTION ]] || SBATCH+=("$SITE_GPU_OPTION$GPUS_PER_NODE")
    [[ -z $SITE_ACCOUNT ]] || SBATCH+=(--account="$SITE_ACCOUNT")
    [[ -z $SITE_PARTITION ]] || SBATCH+=(--partition="$SITE_PARTITION")
    [[ -z $SITE_CONSTRAINT && -z $(directive constraint) ]] || SBATCH+=(--constraint="$SITE_CONSTRAINT")
    [[ -z $qos ]] || SBATCH+=(--qos="$qos")
    WITHOUT_QOS=no
    [[ -n $qos || -z $(directive qos) ]] || WITHOUT_QOS=yes
    [[ -z $time ]] || SBATCH+=(--time="$time")
    [[ -z $DEPENDENCY ]] || SBATCH+=(--dependency="$DEPENDENCY")
    # The time in which the nodes dump, copy and check before Slurm kills what still runs.
    ! recorders_on || [[ -n ${SBATCH_SIGNAL:-} ]] || SBATCH+=(--signal=B:TERM@180)
    SBATCH+=(--output="$(log_pattern)" "${SITE_SBATCH_OPTIONS[@]}")
}

# hand_over OPTION: call sbatch with OPTION and SBATCH.
hand_over() {
    if [[ $WITHOUT_QOS == yes ]]; then
        env "${JOB_ENVIRONMENT[@]}" sbatch "$1" "${SBATCH[@]}" \
            <(sed '/^#SBATCH --qos=/d' "$WORKLOAD_DIR/run.sbatch") "${TRAIN_ARGUMENTS[@]}"
    else
        env "${JOB_ENVIRONMENT[@]}" sbatch "$1" "${SBATCH[@]}" "$WORKLOAD_DIR/run.sbatch" "${TRAIN_ARGUMENTS[@]}"
    fi
}

# shown_command: what hand_over calls, as one types it.
shown_command() {
    local script=$WORKLOAD_DIR/run.sbatch arguments=""
    script=$(shell_words "$script")
    [[ $WITHOUT_QOS == no ]] || script="<(sed '/^#SBATCH --qos=/d' $script)"
    ((${#TRAIN_ARGUMENTS[@]} == 0)) || arguments=" $(shell_words "${TRAIN_ARGUMENTS[@]}")"
    printf '%s\n' "$(shell_words sbatch --parsable "${SBATCH[@]}") $script$arguments"
}
