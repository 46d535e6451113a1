# shellcheck shell=bash
# sbatch reads no site profile. A job that it started without an account, partition, qos or constraint
# which the site names ends here, before anything runs, with the options that were missing. It never
# submits another job: that one would lack the user's other options, and --wait and dependencies
# would follow this one.

# need_site_options [ARGUMENT...]: the arguments are those of the batch script.
need_site_options() {
    local submitted=${CCLTUI_SUBMITTED:-no} job command line name wanted missing=()
    unset CCLTUI_SUBMITTED # it is about this job alone, not about those that it submits
    [[ -n ${SLURM_JOB_ID:-} && $submitted == no ]] || return 0
    [[ ${SITE_ACCOUNT_NEEDED:-no} == yes || -n ${SITE_ACCOUNT:-}${SITE_PARTITION:-}${SITE_QOS:-}${SITE_CONSTRAINT:-} ]] ||
        return 0
    job=$(scontrol show job "$SLURM_JOB_ID") || fail "$FAILED" \
        "scontrol does not describe job $SLURM_JOB_ID, so whom it is charged to is not known and nothing was run"
    # Of an array whose number this job has, scontrol describes every task.
    job=$(awk -v RS= -v job="JobId=$SLURM_JOB_ID " 'index($0, job) == 1' <<<"$job")
    [[ $job == *BatchFlag=1* ]] || return 0
    command=$(sed -n 's/^ *Command=//p' <<<"$job")
    for name in account partition qos constraint; do
        wanted=SITE_${name^^}
        [[ -n ${!wanted:-} ]] || continue
        has_option "$job" "$name" "${!wanted}" || is_given "$job" "$name" "$command" "$*" ||
            missing+=("--$name=${!wanted}")
    done
    if [[ -z ${SITE_ACCOUNT:-} && ${SITE_ACCOUNT_NEEDED:-no} == yes ]]; then
        is_given "$job" account "$command" "$*" ||
            fail "$FAILED" "sbatch was given no account to charge on $SITE_NAME, so nothing was run: give --account, or ${SITE_ACCOUNT_FROM:-set SITE_ACCOUNT}; yours are listed by: $SITE_ACCOUNT_LIST"
    fi
    ((${#missing[@]})) || return 0
    line=$(submit_line "$job")
    if [[ $line == sbatch\ * ]]; then line=${line#sbatch }; else line=$command; fi
    fail "$FAILED" "sbatch was not given $(shell_words "${missing[@]}"), which site $SITE_NAME needs, so nothing was run: submit it with: sbatch $(shell_words "${missing[@]}") $line"
}

# option_of JOB NAME: its value in the text of `scontrol show job`, "" where there is none.
option_of() {
    local field value
    case $2 in
    account) field=Account ;;
    partition) field=Partition ;;
    qos) field=QOS ;;
    constraint) field=Features ;;
    esac
    value=$(sed -nE "/(^|.* )$field=([^ ]*).*/ { s//\2/p; q; }" <<<"$1")
    [[ $value == "(null)" ]] || printf '%s' "$value"
}

# has_option JOB NAME VALUE: Slurm keeps accounts and names of qos in lower case.
has_option() {
    local value
    value=$(option_of "$1" "$2")
    [[ ${value,,} == "${3,,}" ]]
}

# is_given JOB NAME COMMAND ARGUMENTS: sbatch was given this option by a variable, a #SBATCH line or on
# its command line. Where Slurm does not tell the command line, a value that is not the default was given.
is_given() {
    local job=$1 name=$2 variable=SBATCH_${2^^} value line default
    value=$(option_of "$job" "$name")
    [[ -z ${!variable:-} ]] || return 0
    [[ -n $value ]] || return 1 # a job has no constraint but a given one
    [[ $name != constraint ]] || return 0
    ! names_option "$name" "$(batch_directives)" || return 0
    line=$(submit_line "$job")
    if [[ -n $line ]]; then
        names_option "$name" "$(options_in "$line" "$3" "$4")"
        return
    fi
    case $name in
    account)
        # Without a database a job has no account but a given one.
        default=$(sacctmgr -n -P show user "$(id -un)" format=DefaultAccount 2>/dev/null) ||
            { [[ $(scontrol show config 2>/dev/null) != *accounting_storage/slurmdbd* ]] && return; }
        [[ -n $default && $value != "$default" ]]
        ;;
    partition) [[ $(scontrol show partition "$value" 2>/dev/null) == *Default=NO* ]] ;;
    *) return 1 ;;
    esac
}

# names_option NAME TEXT: long options may be shortened, and short ones follow others without a value.
names_option() {
    local pattern
    case $1 in
    account) pattern='--acco(u|un|unt)?([= ]|$)|-[HkOQsW]*A' ;;
    partition) pattern='--part(i|it|iti|itio|ition)?([= ]|$)|-[HkOQsW]*p' ;;
    qos) pattern='--qos?([= ]|$)|-[HkOQsW]*q' ;;
    esac
    [[ $2 =~ (^|[[:space:]])($pattern) ]]
}

# batch_directives: the #SBATCH lines of this job's script, which end at its first command.
batch_directives() {
    { scontrol write batch_script "$SLURM_JOB_ID" - 2>/dev/null || cat -- "$0" 2>/dev/null; } |
        sed -n '/^[[:space:]]*[^#[:space:]]/q; s/^#SBATCH//p' || true
}

# submit_line JOB: how sbatch was called, from the database of Slurm, which has it after a moment.
submit_line() {
    local line try
    line=$(sed -n 's/^ *SubmitLine=//p' <<<"$1")
    for try in {1..20}; do
        [[ -z $line ]] || break
        line=$(sacct -X -n -P -j "$SLURM_JOB_ID" -o SubmitLine 2>/dev/null | sed -n 1p) || return 0
        [[ -n $line ]] || ((try == 20)) || sleep 0.5
    done
    printf '%s' "$line"
}

# options_in LINE COMMAND ARGUMENTS: the words of sbatch itself, without the script and its arguments.
options_in() {
    local line=$1 script=$2
    [[ -z $3 ]] || line=${line%" $3"} script=${script%" $3"}
    script=${script##*/}
    [[ -z $script || $script == "(null)" ]] || line=${line%"$script"*}
    printf '%s' "$line"
}
