# shellcheck shell=bash
# A job that plain sbatch started has the account and the partition that the cluster gives to jobs
# which name none. Where the site names others, the job submits itself again with those and ends.

# follow_site [ARGUMENT...]: the arguments are those of the batch script.
follow_site() {
    local submitted=${CCLTUI_SUBMITTED:-no} script options=() id job
    unset CCLTUI_SUBMITTED # it is about this job alone, not about those that it submits
    [[ -n ${SLURM_JOB_ID:-} && $submitted == no ]] || return 0
    job=$(scontrol show job "$SLURM_JOB_ID" 2>/dev/null) || return 0
    [[ $job == *BatchFlag=1* ]] || return 0
    # Slurm runs a copy; the original lies beside what belongs to it.
    script=$(sed -n 's/^ *Command=//p' <<<"$job")
    (($# == 0)) || script=${script%" $*"}
    [[ -r $script ]] || script=$0
    [[ -z $SITE_ACCOUNT || $SITE_ACCOUNT == "${SLURM_JOB_ACCOUNT:-}" ]] || is_chosen account "$script" ||
        options+=(--account="$SITE_ACCOUNT")
    [[ -z $SITE_PARTITION || $SITE_PARTITION == "${SLURM_JOB_PARTITION:-}" ]] || is_chosen partition "$script" ||
        options+=(--partition="$SITE_PARTITION")
    ((${#options[@]})) || return 0
    [[ -z $SITE_QOS ]] || options+=(--qos="$SITE_QOS")
    keep_options "$job"
    id=$(without_job sbatch --parsable --export=ALL "${options[@]}" "${KEPT[@]}" "$script" "$@") ||
        fail "$FAILED" "job $SLURM_JOB_ID has account '${SLURM_JOB_ACCOUNT:-}' and partition '${SLURM_JOB_PARTITION:-}', and Slurm refused it with $(shell_words "${options[@]}")" \
            "see the line of sbatch above; accounts and qos of yours: $SITE_ACCOUNT_LIST"
    log "submitted again as job ${id%%;*} with $(shell_words "${options[@]}"), as site $SITE_NAME has it; this job ends"
    exit 0
}

# is_chosen account|partition SCRIPT: it was given to sbatch, as far as Slurm tells. sacct has the command
# line; without it, what differs from the default of the user or the cluster must have been given.
is_chosen() {
    local line default="" variable=SBATCH_${1^^} short=${1:0:1}
    [[ -z ${!variable:-} ]] || return 0
    [[ $1 != account ]] || short=A
    line=$(submit_line) || line=""
    # Only the words of sbatch itself: those of the script come after its name.
    if [[ -n $line ]]; then
        line=${line%%"${2##*/}"*}
        [[ $line =~ [[:space:]](--$1[=[:space:]]|-$short) ]]
        return
    fi
    case $1 in
    account)
        default=$(sacctmgr -n -P show user "$(id -un)" format=DefaultAccount 2>/dev/null) || default=""
        [[ -n ${SLURM_JOB_ACCOUNT:-} && $SLURM_JOB_ACCOUNT != "$default" ]]
        ;;
    partition) [[ $(scontrol show partition "$SLURM_JOB_PARTITION" 2>/dev/null) != *Default=YES* ]] ;;
    esac
}

# submit_line: how sbatch was called, from the database of Slurm, which has it after a moment.
submit_line() {
    local line try
    for try in {1..20}; do
        line=$(sacct -X -n -P -j "$SLURM_JOB_ID" -o SubmitLine 2>/dev/null) || return
        [[ -z $line ]] || break
        ((try == 20)) || sleep 0.5
    done
    printf '%s\n' "$line"
}

# keep_options TEXT: KEPT, the options of the job that `scontrol show job` described in TEXT.
keep_options() {
    local text=$1 output errors
    output=$(sed -n 's/^ *StdOut=//p' <<<"$text")
    errors=$(sed -n 's/^ *StdErr=//p' <<<"$text")
    KEPT=(
        --chdir="$(sed -n 's/^ *WorkDir=//p' <<<"$text")" --nodes="${SLURM_JOB_NUM_NODES:-1}"
        --job-name="$SLURM_JOB_NAME" --output="$(of_next_job "$output")"
    )
    [[ $errors == "$output" ]] || KEPT+=(--error="$(of_next_job "$errors")")
    keep --time "$(sed -n 's/.* TimeLimit=\([^ ]*\).*/\1/p' <<<"$text")"
    keep --constraint "$(sed -n 's/^ *Features=\([^ ]*\).*/\1/p' <<<"$text")"
    keep --ntasks-per-node "${SLURM_NTASKS_PER_NODE:-}"
    keep --cpus-per-task "${SLURM_CPUS_PER_TASK:-}"
    keep --gpus-per-node "${SLURM_GPUS_PER_NODE:-}"
    [[ " ${KEPT[*]} " == *" --constraint="* ]] || keep --constraint "$SITE_CONSTRAINT"
}

# of_next_job FILE: a number in the name of a file, not in those of its folders, may be the job's; the
# last one, because names of jobs have numbers too (llama3.1_3.out).
of_next_job() {
    printf '%s/%s\n' "$(dirname -- "$1")" "$(basename -- "$1" |
        sed -E "s/^(|.*[^0-9])$SLURM_JOB_ID(|[^0-9].*)\$/\1%j\2/")"
}

# keep OPTION VALUE
keep() {
    [[ -z $2 || $2 == "(null)" || $2 == UNLIMITED ]] || KEPT+=("$1=$2")
}

# without_job COMMAND...: outside of this job, whose variables would reach the next one.
without_job() {
    local name words=()
    for name in "${!SLURM_@}"; do
        [[ $name == SLURM_CONF ]] || words+=(-u "$name")
    done
    env --chdir="$SLURM_SUBMIT_DIR" "${words[@]}" CCLTUI_SUBMITTED=yes "$@"
}
